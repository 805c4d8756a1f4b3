"""The markers that a chat template writes around a message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TurnMarkers:
    """A conversation is `opening`, then per message `start`, the role, `after_role`, the text, `end` and `between`.

    `start` and `end` are single special tokens, and so is each of `others` (the markers within the other parts).
    """

    start: str
    after_role: str
    end: str
    between: str = ""
    opening: str = ""
    others: tuple[str, ...] = ()

    def header(self, role: str) -> str:
        """The text before a message of a role."""
        return f"{self.start}{role}{self.after_role}"

    def message(self, role: str, text: str) -> str:
        """A whole message, closed."""
        return f"{self.header(role)}{text}{self.end}{self.between}"


CHATML = TurnMarkers(start="<|im_start|>", after_role="\n", end="<|im_end|>", between="\n")
LLAMA3 = TurnMarkers(
    start="<|start_header_id|>",
    after_role="<|end_header_id|>\n\n",
    end="<|eot_id|>",
    opening="<|begin_of_text|>",
    others=("<|end_header_id|>", "<|begin_of_text|>"),
)
