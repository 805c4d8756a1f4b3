"""The graph, stated once: every output of a run with its files, its lineage and its settings. Imports no torch, no Snakemake."""
