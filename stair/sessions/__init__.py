"""Conversations of four problems: prompts as token ids, spans, chains of turns, the runner, and invariants of their rows."""
