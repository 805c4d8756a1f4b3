"""The reference engine: Transformers' own models, decoded in batches of fixed width."""

from stair.engines.transformers.engine import TransformersEngine

__all__ = ["TransformersEngine"]
