"""The models STAIR runs on: the facts of each architecture, and loading one frozen."""
