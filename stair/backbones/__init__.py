"""The models of STAIR: the facts of each architecture, and frozen loading."""
