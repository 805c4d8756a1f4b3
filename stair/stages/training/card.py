"""The model card of a trained controller: its kind, its training and its use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from stair.config.backbones import Model
from stair.config.training import ControllerSettings

_DESCRIPTIONS = {
    "stair": "reflector normals of STAIR: at the control span of a prompt, a differential read of a bank of earlier states",
    "bank_free": "scales on the attention output at the control span of a prompt; no bank is read",
    "lora": "a LoRA adapter that acts on every token",
    "lora_stair": "a LoRA adapter that acts on every token, and reflector normals of STAIR, trained jointly",
}
_CHAT = """```python
from stair import Conversation

chat = Conversation.load("models/{name}", "{folder}")  # the folder of the backbone; docs/method.md of the project
print(chat.ask("What is 3 + 4?"))
```
"""
_READ = """```python
from stair.method import Attachment, Bank, Read, load_controller

controller = load_controller("{folder}")
```
"""
_ADAPT = """```python
from stair.method import load_adapter

model = load_adapter(model, "{folder}")  # PEFT's own files: PeftModel.from_pretrained reads them too
```
"""


def card(
    key: str,
    settings: ControllerSettings,
    model: Model,
    *,
    revision: str,
    parameters: Mapping[str, int],
    facts: Mapping[str, Any],
) -> str:
    """The text of a controller's README.md.

    `revision` is the digest of the backbone's contents; `parameters` counts the trained ones by part; `facts` are further lines.
    """
    base = f"base_model: {model.repository}\n" if model.repository else ""
    library = "library_name: peft\n" if settings.adapts else ""
    lines = [f"---\n{base}{library}tags: [stair, {settings.kind}]\n---", f"# {key} on {model.label}", ""]
    lines += [f"Trained: {_DESCRIPTIONS[settings.kind]}. The backbone is frozen and not part of these files.", ""]
    lines += [f"- backbone: {model.label}" + (f" (`{model.repository}`)" if model.repository else "")]
    lines += [f"- backbone's contents (SHA-256): `{revision}`"]
    if settings.controls:
        lines += [f"- controlled layers, from zero: {', '.join(map(str, settings.controlled_layers))}"]
    if settings.adapts:
        lines += [f"- the adapter is read by PEFT {version('peft')} (`peft_version` in `adapter_config.json`)"]
    lines += [f"- trained parameters: {', '.join(f'{count:,} ({part})' for part, count in parameters.items())}"]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "How it is loaded, from the folder that holds this file:", ""]
    loaders = [_CHAT, *([_ADAPT] if settings.adapts else []), *([_READ] if settings.controls else [])]
    name = (model.repository or "MODEL").rpartition("/")[2]
    return "\n".join(lines) + "\n" + "\n".join(loader.format(folder=".", name=name) for loader in loaders)
