"""Prints the entries of some packages of a lock file, or with --without all others.

`python envs/lock_part.py LOCK [--without] NAME...`; a name may end with `*`. Runs on a bare interpreter.
"""

import re
import sys
from fnmatch import fnmatch
from pathlib import Path


def part(lock: str, names: list[str], *, without: bool = False) -> str:
    """The entries of the packages that match one of the names; with `without`, those that match none."""
    entries = re.finditer(r"^([A-Za-z0-9._-]+)==.*\n(?:    --hash.*\n)*", lock, flags=re.M)
    return "".join(entry[0] for entry in entries if any(fnmatch(entry[1], name) for name in names) is not without)


if __name__ == "__main__":
    words = [word for word in sys.argv[2:] if word != "--without"]
    print(part(Path(sys.argv[1]).read_text(), words, without="--without" in sys.argv), end="")
