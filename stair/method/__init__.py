"""STAIR as a library: a bank of earlier computation, a differential read of it, controllers on a model."""

from stair.core import ReadSpecification, capture_length
from stair.method.attachment import Attachment
from stair.method.bank import Bank
from stair.method.controllers import BankFree, Controller, Reflector, load_adapter, load_controller
from stair.method.differential import differential_read
from stair.method.interventions import permuted_order, random_reflector
from stair.method.read import Read, Receipt
from stair.method.reconstruction import reconstruct
from stair.method.rope import Rotary
from stair.method.segment import Segment

__all__ = [
    "Attachment",
    "Bank",
    "BankFree",
    "Controller",
    "Read",
    "ReadSpecification",
    "Receipt",
    "Reflector",
    "Rotary",
    "Segment",
    "capture_length",
    "differential_read",
    "load_adapter",
    "load_controller",
    "permuted_order",
    "random_reflector",
    "reconstruct",
]
