"""What the Snakefile and its display need. Runs in Snakemake's process: imports no torch."""
