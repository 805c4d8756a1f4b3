"""What a run will cost, and which claims it can decide, before it starts."""
