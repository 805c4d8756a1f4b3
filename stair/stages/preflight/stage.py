"""The preflight stage: checks a model's files, prompts and weights before anything is generated. Writes preflight/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.models.hub import check_fetched
from stair.records.files import matching, write_json
from stair.sessions.backbone import Backbone
from stair.sessions.prompt_check import AGAIN, HISTORIES
from stair.sessions.renderer import Renderer, control_span


def run(config: Config, paths: RunPaths, model: str) -> None:
    """Checks a model's files, prompts and weights, and writes its digests and examples of its prompts.

    Raises:
        ValueError: a weight is missing, or as `Backbone.open`.
    """
    check_fetched(config, paths, f"models.{model}")
    backbone = Backbone.open(config, paths, model)
    try:
        weights = check_weights(backbone.folder)
    except ValueError as error:
        raise ValueError(f"models.{model} ({backbone.folder}): weights: {error}") from None
    digest = backbone.renderer.template_sha256
    facts = {
        "model": model,
        "thinking": backbone.settings.thinking,
        "template_sha256": digest,
        "model_revision": backbone.revision,
        "weights": weights,
        "examples": [_example(backbone.renderer, name) for name in HISTORIES],
    }
    write_json(paths.preflight(model), facts)
    print(f"{model}: {weights}, template {digest[:12]}")


def check_weights(folder: Path) -> str:
    """Builds the model without memory and without reading a tensor; returns its number of parameters as text.

    Raises:
        ValueError: a weight is missing or has another shape; a tied vocabulary head counts as present.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    from stair.models.load import load_model

    for path in matching(folder, "*.safetensors"):
        try:
            with safe_open(path, framework="pt") as file:
                file.keys()
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path.name} is damaged ({error}); copy, fetch or check it out again") from None
    try:
        model = load_model(folder, dtype=torch.bfloat16, device="meta")
    except Exception as error:  # the library raises any exception on a wrong configuration or index
        kind = "" if isinstance(error, ValueError | RuntimeError | OSError) else f"{type(error).__name__}: "
        remedy = "; copy, fetch or check it out again" if isinstance(error, OSError) else ""
        raise ValueError(f"{kind}{' '.join(str(error).split())}{remedy}") from None
    count = sum(parameter.numel() for parameter in model.parameters())
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    return f"{count:,} parameters, none missing; vocabulary head {'tied to the embeddings' if tied else 'of its own'}"


def _example(renderer: Renderer, name: str) -> dict[str, Any]:
    """A prompt of this model with its ids and the control span."""
    ids = renderer.prompt_ids(HISTORIES[name], AGAIN)
    span = control_span(ids, renderer.user_header)
    return {"name": name, "text": renderer.tokenizer.decode(ids), "ids": ids, "control_span": list(span)}
