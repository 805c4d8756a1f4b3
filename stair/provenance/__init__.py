"""Where every output of a run came from, and whether it still is what the configuration and its inputs would give."""
