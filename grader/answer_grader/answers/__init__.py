"""Answers as typed values: what kind of thing stands in the box, before anything is compared."""
