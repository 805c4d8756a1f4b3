"""The worker process of `pool`: compares answers that the parent extracted, under limits of memory and processor time.

Reads one JSON array `[answer, reference, kind, problem]` a line and answers each with one JSON line: `[correct, reason]`,
or an object with the `error` of an unusable reference. Limits are of processor time, not of elapsed time: a loaded
machine scores slower and never differently.
"""

import json
import math
import resource
import sys
import time
from contextlib import suppress

from answer_grader.matching import answer_matches
from answer_grader.pool import EXIT_OUT_OF_MEMORY, Limits


def _limit_memory(size: int) -> None:
    with suppress(ValueError, OSError):  # platforms without the limit
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _allow_cpu_seconds(seconds: int) -> None:
    """Lets the process use so much more time; beyond it the kernel ends it with SIGXCPU, whatever it is doing."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, hard))


def main(arguments: list[str]) -> int:
    """Serves comparisons until the input ends. Arguments: the fields of `Limits`."""
    limits = Limits(*map(int, arguments))
    _limit_memory(limits.memory_bytes)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        answer, reference, kind, hint = json.loads(line)
        _allow_cpu_seconds(limits.cpu_seconds)
        try:
            reply: object = answer_matches(answer, reference, kind, hint)
        except MemoryError:
            return EXIT_OUT_OF_MEMORY
        except ValueError as error:
            reply = {"error": str(error)}
        print(json.dumps(reply), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
