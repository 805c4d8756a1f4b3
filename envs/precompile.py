"""Imports what a run and the tests import, so that Python compiles and keeps those modules: a third of all that are installed.

Without it the first start would compile them, and every start where PYTHONDONTWRITEBYTECODE is set.
"""

import importlib

from stair.cli.warm import MODULES

OTHERS = (
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "peft",
    "rich.table",
    "snakemake.cli",
    "snakemake.executors.local",
    "snakemake.workflow",
    "hypothesis",
    "pytest",
    "xdist.workermanage",
)
for module in (*MODULES, *OTHERS):
    importlib.import_module(module)
