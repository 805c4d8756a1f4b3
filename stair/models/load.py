"""Loading a backbone from disk: frozen, complete, and never from the network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from stair.models import delta_kernels
from stair.models.architecture import describe
from stair.models.attention import implementation

_DECODER = "layers."
"""A part of the names of the text decoder's weights; a checkpoint may also contain vision and further heads."""


def load_model(
    path: str | Path,
    *,
    dtype: torch.dtype,
    device: str,
    attention: str = "sdpa",
) -> PreTrainedModel:
    """Return the model of a folder in eval mode with every parameter frozen.

    `attention` is Transformers' `attn_implementation`; for `sdpa` see `stair.models.attention`.
    On the device "meta" the weights' names and shapes are checked, and none is read.
    Raises ValueError if the model does not exist or is of an unknown architecture, or if its files lack a weight, or contain
    a weight of another shape or an unknown weight of the decoder.
    """
    if not Path(path).is_dir():
        raise ValueError(f"model folder {path} does not exist")
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"no model configuration can be read at {path}: {first}") from error
    architecture = describe(config.to_dict())
    if device == "cpu":
        delta_kernels.do_without()
    text = config.get_text_config()
    if architecture.tied_embeddings and not text.tie_word_embeddings:
        # The text model reads the key from its own part of the configuration; without it the vocabulary head would
        # silently keep its random initialisation.
        text.tie_word_embeddings = True
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        path,
        config=config,
        local_files_only=True,
        dtype=dtype,
        attn_implementation=implementation(attention, dtype, device),
        ignore_mismatched_sizes=True,  # reported below, by name
        # This reads no tensor, but checks every name and shape.
        **({"device_map": "meta"} if device == "meta" else {}),
        output_loading_info=True,
    )
    model: PreTrainedModel = loaded[0]
    loading: dict[str, Any] = loaded[1]
    for fault, keys in (
        ("lack {} weights of the model", loading["missing_keys"]),
        ("hold {} weights of another shape", [name for name, *_ in loading["mismatched_keys"]]),
        (
            "hold {} weights that the model does not have",
            [key for key in loading["unexpected_keys"] if _DECODER in key],
        ),
    ):
        if keys:
            raise ValueError(f"the files of {path} {fault.format(len(keys))}, such as {min(keys)}")
    model.requires_grad_(False)
    return model.eval().to(device)
