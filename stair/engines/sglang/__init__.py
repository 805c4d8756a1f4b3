"""Generation by a real SGLang server that the engine owns; see docs/rollouts.md."""
