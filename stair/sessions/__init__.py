"""Conversations of four problems: prompts as token ids, trajectories, the loop that runs them, and invariants of their rows."""
