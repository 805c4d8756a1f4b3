"""What a current problem reads from a history: pooled states, attention masses and reads of native models."""
