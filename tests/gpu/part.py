"""A part that does what it is told: measures, fails, crashes, hangs.

python -m tests.gpu.part MODE --json FILE
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from benchmarks.figures import Bar, Figures

parser = argparse.ArgumentParser()
parser.add_argument("mode")
Figures.add_argument(parser)
chosen = parser.parse_args()
figures = Figures(chosen.json)
print("some | output")
figures.add("fast", 1.5, "x", Bar(2.0), Bar(1.0, target=True))
if chosen.mode == "misses":
    figures.add("slow", 2.5, "x", Bar(2.0), Bar(1.0, target=True))
    figures.add("absent", float("nan"), "x", Bar(2.0))
elif chosen.mode == "raises":
    with figures.case("a case"):
        raise ValueError("what went wrong")
    figures.add("after it", 3.0, "x")
elif chosen.mode == "needs too much memory":
    import torch

    with figures.case("a large case"):
        torch.empty(1 << 60)
elif chosen.mode == "breaks the driver":
    with figures.case("a case"):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    figures.add("never", 3.0, "x")
elif chosen.mode == "raises outside":
    raise ValueError("what went wrong")
elif chosen.mode == "crashes":
    os.abort()
elif chosen.mode == "hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("child", child.pid, flush=True)
    time.sleep(600)
elif chosen.mode == "is held":
    # A tracer outside this session, PTRACE_SEIZE, which does not ask for the end of what it traces.
    trace = "import ctypes, sys, time; ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None); time.sleep(40)"
    subprocess.Popen([sys.executable, "-c", trace, str(os.getpid())], start_new_session=True)
    time.sleep(600)
figures.finish()
