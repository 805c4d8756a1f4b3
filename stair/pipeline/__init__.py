"""What the Snakefile and the commands about a run use: inputs, settings, resources, verification, archives. Imports no torch."""
