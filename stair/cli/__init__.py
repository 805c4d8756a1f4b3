"""`stair <command>`: the commands of the rules, which users can call too."""

from __future__ import annotations


def main() -> None:
    """Runs a command in the run's warm process, or in this process without one.

    A command stopped by SIGTERM, SIGUSR1 or Ctrl-C exits with 75: run it again.
    """
    from stair.records.interruption import stoppable

    with stoppable():
        _main()


def _main() -> None:
    import os
    import sys

    from stair.cli.environment import prepare_environment
    from stair.records.interruption import end_with_driver

    if sys.argv[1:2] == ["job"]:
        end_with_driver()
    prepare_environment()
    # Everything but fetch runs with hub access off, so libraries look nothing up. The warm process has it off too.
    if sys.argv[1:2] != ["fetch"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from stair.cli.warm import run_in_warm_process

        code = run_in_warm_process()
        if code is not None:
            raise SystemExit(code)
    from stair.cli.main import main as run_here

    run_here()
