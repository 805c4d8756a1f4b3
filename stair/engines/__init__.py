"""Generation of responses behind one interface (`base.Engine`): Transformers' own models, or an SGLang server."""
