"""What a scoring worker may use."""

CPU_SECONDS = 10
"""Processor time for one comparison. An ordinary one takes about a millisecond."""

MEMORY_BYTES = 2 << 30
"""Address space of a worker."""

EXIT_OUT_OF_MEMORY = 77
"""Exit status of a worker that reached `MEMORY_BYTES`."""

STALLED_SECONDS = 600
"""Elapsed time without a reply after which the machine, not the answer, is at fault: an error, never a verdict."""
