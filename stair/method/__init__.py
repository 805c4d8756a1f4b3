"""STAIR as a library: a bank of earlier computation, a differential read of it, controllers on a model."""

from stair.core import ReadSpecification
from stair.method.adapter import load_adapter
from stair.method.attachment import Attachment
from stair.method.bank import Bank
from stair.method.capture import capture_length
from stair.method.read import Receipt, RowControl
from stair.method.controllers import BankFree, Controller, Reflector, load_controller
from stair.method.differential import differential_read
from stair.method.interventions import permuted_order, random_reflector
from stair.method.rope import Rotary
from stair.method.segment import Segment
from stair.method.reconstruction import deviation, replay

__all__ = [
    "Attachment",
    "Bank",
    "BankFree",
    "Controller",
    "ReadSpecification",
    "Receipt",
    "Reflector",
    "Rotary",
    "RowControl",
    "Segment",
    "capture_length",
    "deviation",
    "differential_read",
    "load_adapter",
    "load_controller",
    "permuted_order",
    "random_reflector",
    "replay",
]
