"""`stair <command>`: every rule's shell line is one of these, and a person can call them too."""

from __future__ import annotations


def main() -> None:
    """The program: hands over to a warm process where a run keeps one, else runs the command here."""
    import os
    import sys

    # Everything but fetch runs with hub access off, whatever the libraries would look up. The warm process has it off too.
    if sys.argv[1:2] != ["fetch"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from stair.cli.warm_client import run_in_warm_process

        code = run_in_warm_process()
        if code is not None:
            raise SystemExit(code)
    from stair.cli.main import main as run_here

    run_here()
