"""The graph, stated once: each output of a run with its files, lineage and settings; `verify`, `why` and `restore` read it.

Imports no torch and no Snakemake.
"""
