"""STAIR (Stale-Token Attention for Inter-query Reuse): the method, and the workflow that reproduces its paper."""

__version__ = "0.1.0"
