"""Loading a backbone from disk: frozen, complete, and never from the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from stair.backbones.architecture import describe


def load_model(
    path: str | Path,
    *,
    dtype: torch.dtype,
    device: str,
    attention: str = "sdpa",
    revision: str | None = None,
) -> PreTrainedModel:
    """Return the model in eval mode with every parameter frozen.

    `path` is a folder, or, together with a `revision`, the name of a hub repository that is already in the local cache.
    `attention` is Transformers' `attn_implementation`.
    On the device "meta" the weights' names and shapes are checked, and none is read.
    Raises ValueError when the model is not there, is of an unknown architecture, or its files lack a weight.
    """
    if not Path(path).is_dir() and revision is None:
        raise ValueError(f"model folder {path} does not exist")
    try:
        config = AutoConfig.from_pretrained(path, revision=revision, local_files_only=True)
    except (OSError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"no model configuration can be read at {path} (revision {revision}): {first}") from error
    architecture = describe(config.to_dict())
    text = config.get_text_config()
    if architecture.tied_embeddings and not text.tie_word_embeddings:
        # The text model looks for the key in its own part of the configuration; without it the vocabulary head would
        # silently keep its random initialisation.
        text.tie_word_embeddings = True
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        path,
        config=config,
        revision=revision,
        local_files_only=True,
        dtype=dtype,
        attn_implementation=attention,
        # No tensor is read then, but every name and shape is looked at.
        **({"device_map": "meta"} if device == "meta" else {}),
        output_loading_info=True,
    )
    model: PreTrainedModel = loaded[0]
    loading: dict[str, Any] = loaded[1]
    lacking = sorted(loading["missing_keys"]) + sorted(str(entry) for entry in loading["mismatched_keys"])
    if lacking:
        raise ValueError(f"the files of {path} lack {len(lacking)} weights of the model, such as {lacking[0]}")
    model.requires_grad_(False)
    return model.eval().to(device)
