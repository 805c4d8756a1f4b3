"""A trained adapter on a model: PEFT's own files, loaded with PEFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


def load_adapter(model: Any, folder: str | Path) -> Any:
    """Return `model` with the adapter of a controller's folder, every parameter frozen.

    PEFT puts its layers into the model itself; the returned wrapper has `disable_adapter()` for the native model. Attach
    controls after this. Raises ValueError when the folder holds no adapter or one that does not fit the model.
    """
    from peft import PeftModel

    for name in ADAPTER_FILES:
        if not (Path(folder) / name).is_file():
            raise ValueError(f"{folder} holds no adapter: there is no {name}")
    try:
        adapted = PeftModel.from_pretrained(model, str(folder))
    except (RuntimeError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: the adapter does not fit the model: {str(error).splitlines()[0]}") from error
    adapted.requires_grad_(False)
    return adapted.eval()
