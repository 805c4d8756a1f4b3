"""Generation behind one interface."""

from stair.engines.base import Capabilities, Capture, Completion, Engine, Read, Request, Usage

__all__ = ["Capabilities", "Capture", "Completion", "Engine", "Read", "Request", "Usage"]
