"""What a scoring worker may use."""

from dataclasses import dataclass

EXIT_OUT_OF_MEMORY = 77
"""Exit status of a worker that reached its limit of memory."""

STALLED_SECONDS = 600
"""Elapsed time without a reply after which the machine, not the answer, is at fault: an error, never a verdict."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one worker process. An ordinary comparison takes about a millisecond and no memory to speak of."""

    cpu_seconds: int = 10
    """processor time for one comparison"""
    memory_bytes: int = 2 << 30
    """address space of the process"""
