"""Names that are known without the libraries that draw."""

TRAINING_FIGURE = "training_"
"""Prefix of the figures of training curves, one a model."""
