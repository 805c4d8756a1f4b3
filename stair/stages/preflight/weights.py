"""Checks that a model folder has every weight, without reading them."""

from __future__ import annotations

from pathlib import Path

from stair.stages.preflight.properties import PropertyError


def check_weights(folder: Path) -> str:
    """Builds the model without memory from the folder's files; returns a text with its number of parameters.

    It uses `backbones.load`, with its names of multimodal checkpoints, but reads no tensor.

    Raises:
        PropertyError: a weight is missing or has another shape; a tied vocabulary head counts as present.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    from stair.models.load import load_model

    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                file.keys()
        except (SafetensorError, OSError) as error:
            raise PropertyError(
                f"weights: {path.name} is damaged ({error}); copy, fetch or check it out again"
            ) from None
    try:
        model = load_model(folder, dtype=torch.bfloat16, device="meta")
    except Exception as error:  # the library raises any exception on a wrong configuration or index
        kind = "" if isinstance(error, ValueError | RuntimeError | OSError) else f"{type(error).__name__}: "
        remedy = "; copy, fetch or check it out again" if isinstance(error, OSError) else ""
        raise PropertyError(f"weights: {kind}{' '.join(str(error).split())}{remedy}") from None
    count = sum(parameter.numel() for parameter in model.parameters())
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    return f"{count:,} parameters, none missing; vocabulary head {'tied to the embeddings' if tied else 'of its own'}"
