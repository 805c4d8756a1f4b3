"""Takes torch out of the lock: it is installed by its own step, so that a user can choose the build (envs/pipeline.sh)."""

import re
import sys
from pathlib import Path

path = Path(sys.argv[1])
text = re.sub(r"^torch==[^\n]*\\\n(?:    --hash[^\n]*\n)+", "", path.read_text(), flags=re.M)
head = (
    "# The CPU environment, made by `make lock`; torch is installed by its own step before this (envs/pipeline.sh).\n"
)
path.write_text(head + text)
