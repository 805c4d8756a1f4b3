"""Support for the Snakefile and its display. Runs in Snakemake's process: imports no torch."""
