"""Tables and figures: they lay out, compare and draw numbers that others computed."""
