"""The device by its name in the configuration, and torch's allocator there."""

from __future__ import annotations

import os

import pytest

from stair.models.device_and_dtype import resolved_device


@pytest.mark.parametrize(
    ("device", "before", "after"),
    [
        ("cuda", {}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ("cuda:1", {}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ("cpu", {}, {}),
        ("cuda", {"PYTORCH_ALLOC_CONF": ""}, {"PYTORCH_ALLOC_CONF": ""}),
        ("cuda", {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}),
    ],
)
def test_segments_of_a_gpus_memory_grow_unless_the_user_has_chosen(
    device: str, before: dict[str, str], after: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", before)
    assert resolved_device(device) == device
    assert before == after
