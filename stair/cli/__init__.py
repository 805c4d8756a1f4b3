"""`stair <command>`: every rule's shell line is one of these, and a person can call them too."""

from stair.cli.main import main

__all__ = ["main"]
