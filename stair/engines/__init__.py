"""Generation behind one interface."""

from stair.engines.base import Capabilities, Capture, Completion, Engine, Read, Replay, Request, SamplingSettings, Usage

__all__ = ["Capabilities", "Capture", "Completion", "Engine", "Read", "Replay", "Request", "SamplingSettings", "Usage"]
