"""Every property by itself: a tokenizer, template or folder with that one thing wrong is refused for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from stair.models.architecture import describe
from stair.models.published import CONFIGS
from stair.sessions.renderer import Renderer
from stair.stages.preflight.properties import (
    PropertyError,
    check_properties,
    check_weights,
    conversation_text,
    generation_prefix,
    rendered_examples,
)
from stair.stages.preflight.stage import longest_prompt
from tests.conftest import random_model
from tools.tiny_backbones import chat_template, save_tokenizer

PREFIX = "<|im_start|>assistant\\n"
"""As it is spelt in the templates' source."""

FILES = (Path("math500.parquet"), Path("test.jsonl"))


def folder_of(
    tokenizer: PreTrainedTokenizerFast, place: Path, template: str | None = None, generation: object = None
) -> Path:
    """A model folder's tokenizer, with another template or other end markers."""
    place.mkdir(exist_ok=True)
    save_tokenizer(tokenizer, place)
    if template is not None:
        (place / "chat_template.jinja").write_text(template)
    stop = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"]) if generation is None else generation
    (place / "generation_config.json").write_text(json.dumps({"eos_token_id": stop}))
    return place


@pytest.mark.parametrize("thinking", [False, True])
def test_the_projects_templates_hold(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path, thinking: bool
) -> None:
    renderer = Renderer.load(folder_of(small_tokenizer(thinking), tmp_path), thinking=thinking)
    seen = {one.name: one.text for one in check_properties(renderer)}
    assert list(seen) == [
        "markers are single ids", "no system message", "generation prefix", "earlier thinking", "history", "texts",
        "ids of a prompt", "control span", "stop ids",
    ]  # fmt: skip
    assert repr(generation_prefix(renderer)) in seen["generation prefix"]
    assert ("(not used)" in seen["markers are single ids"]) == (not thinking)
    assert "</think>" in seen["markers are single ids"]
    for example in rendered_examples(renderer):
        assert renderer.tokenizer.decode(example["ids"]) == example["text"]
        start, end = example["control_span"]
        within = renderer.tokenizer.decode(example["ids"][start:end])
        assert within == conversation_text(renderer, [], "And what is 3 + 4?")


TWO_MODES = (
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)
"""The end of the templates of Qwen3-0.6B and its family."""


def test_a_model_that_opens_its_thinking_itself(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    """The GPU's smoke run has such a model: no prompt of it ends with `<think>`."""
    opening = PREFIX + "<think>\\n' }}"
    template = changed(True, opening, PREFIX + "' }}" + TWO_MODES)
    renderer = Renderer.load(folder_of(small_tokenizer(True), tmp_path, template), thinking=True)
    seen = {one.name: one.text for one in check_properties(renderer)}
    assert seen["generation prefix"] == "a prompt ends with '<|im_start|>assistant\\n'"


def changed(thinking: bool, old: str, new: str) -> str:
    """The project's template with one place changed."""
    template = chat_template(thinking)
    assert template.count(old) >= 1
    return template.replace(old, new)


SYSTEM = "{{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}"
CORRUPTED = [
    # what is wrong, thinking, the template, the property that must say so
    ("a system message of its own", False, SYSTEM + chat_template(False), "no system message"),
    ("a system message of its own", True, SYSTEM + chat_template(True), "no system message"),
    ("no generation prefix", False, changed(False, "if add_generation_prompt", "if false"), "generation prefix"),
    ("thinking is not opened", True, changed(True, PREFIX + "<think>\\n'", PREFIX + "'"), "generation prefix"),
    ("thinking is opened", False, changed(False, f"'{PREFIX}' }}}}\n{{%- endif", f"'{PREFIX}<think>\\n' }}}}\n{{%- endif"),
     "generation prefix"),
    ("no line end after the opening", True, changed(True, PREFIX + "<think>\\n", PREFIX + "<think>"), "generation prefix"),
    ("earlier thinking is kept", True, changed(True, "'</think>' in content", "'</nothing>' in content"), "earlier thinking"),
    ("an empty thinking block in history", True, changed(True, "loop.index0 > ns.last_user", "true"), "earlier thinking"),
    ("answers lose their thinking", False,
     changed(False, "message.content", "message.content.split('</think>')[-1]"), "earlier thinking"),
    ("answers are shortened", False, changed(False, "message.content", "message.content[:14]"), "earlier thinking"),
    ("empty answers are left out", False,
     changed(False, "{%- for message in messages %}", "{%- for message in messages if message.content %}"), "history"),
    ("an end marker is lost", True, changed(True, "content + '<|im_end|>'", "content"), "generation prefix"),
    ("a system message at the third turn", True,
     "{%- if messages | length == 5 %}" + SYSTEM + "{%- endif %}" + chat_template(True), "history"),
    ("a system message where a box is asked for", False,
     "{%- if 'boxed' in messages[-1].content %}" + SYSTEM + "{%- endif %}" + chat_template(False), "texts"),
    ("a system message where a text is long", False,
     "{%- if messages[-1].content | length > 60 %}" + SYSTEM + "{%- endif %}" + chat_template(False), "texts"),
    ("long texts are cut", False, changed(False, "message.content", "message.content[:300]"), "texts"),
    ("emphasis is removed", False, changed(False, "message.content", "message.content.replace('**', '')"), "texts"),
    ("white space is joined", False, changed(False, "message.content", "message.content.split() | join(' ')"),
     "earlier thinking"),
    ("a user's marker of thinking is removed", True,
     changed(True, "message.content", "message.content.replace('</think>', '')"), "earlier thinking"),
    ("the role is named otherwise", False, changed(False, "message.role", "(message.role | upper)"), "no system message"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "thinking", "template", "name"), CORRUPTED, ids=[f"{c[0]}-{c[1]}" for c in CORRUPTED])
def test_a_corrupted_template_is_refused_for_what_is_wrong(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast],
    tmp_path: Path,
    what: str,
    thinking: bool,
    template: str,
    name: str,
) -> None:
    renderer = Renderer.load(folder_of(small_tokenizer(thinking), tmp_path, template), thinking=thinking)
    with pytest.raises(PropertyError) as caught:
        check_properties(renderer)
    assert str(caught.value).startswith(f"{name}: "), f"{what}: {caught.value}"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("thinking", [False, True])
def test_white_space_around_a_text_is_as_the_template_has_it(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path, thinking: bool
) -> None:
    """Templates that trim are official ones; what was seen is said, and prompts are held to it."""
    trimming = changed(thinking, "message.content", "(message.content | trim)")
    for template, seen in ((chat_template(thinking), "as they are"), (trimming, "without outer white space")):
        renderer = Renderer.load(folder_of(small_tokenizer(thinking), tmp_path, template), thinking=thinking)
        (texts,) = [one.text for one in check_properties(renderer) if one.name == "texts"]
        assert texts.startswith(f"users' stand {seen}, answers ")
        limit = longest_prompt(
            renderer, describe(CONFIGS["qwen3.5-4b"]), "x", [("p", " What is 1 + 1? \n")], 10, files=FILES
        )
        assert limit.longest_prompt == len(renderer.prompt_ids([], " What is 1 + 1? \n"))


def test_every_prompt_of_the_run_is_held_to_the_protocol(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    template = "{%- if 'zirconium' in messages[-1].content %}" + SYSTEM + "{%- endif %}" + chat_template(False)
    renderer = Renderer.load(folder_of(small_tokenizer(False), tmp_path, template), thinking=False)
    check_properties(renderer)
    users = [("p1", "What is 1 + 1?"), ("p2", "What is zirconium?")]
    with pytest.raises(PropertyError, match="the template does not write the prompt of problem p2 as it writes others"):
        longest_prompt(renderer, describe(CONFIGS["qwen3-4b-instruct"]), "x", users, 10, files=FILES)


@pytest.mark.parametrize(
    "template",
    [
        *("{% if %}", "{{ raise_exception('no') }}", "{{ messages.nothing.more }}", "{{ 1 + 'a' }}", "{{ 1 / 0 }}"),
        *("{{ range(10 ** 9) }}", "{{ 'x'.encode('nothing') }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_one_line(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path, template: str
) -> None:
    renderer = Renderer.load(folder_of(small_tokenizer(False), tmp_path, template), thinking=False)
    with pytest.raises(ValueError, match=r"the chat template of .* cannot be rendered: "):
        check_properties(renderer)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("generation_config.json", "[]"),
        ("generation_config.json", '{"eos_token_id": '),
        ("generation_config.json", '{"eos_token_id": "<|im_end|>"}'),
        ("tokenizer.json", '{"version": '),
    ],
)
def test_a_damaged_file_is_named(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path, name: str, content: str
) -> None:
    folder = folder_of(small_tokenizer(False), tmp_path)
    (folder / name).write_text(content)
    with pytest.raises(
        ValueError, match=name if name.startswith("generation") else "the tokenizer in .* cannot be read"
    ):
        Renderer.load(folder, thinking=False)


def test_a_wrong_mode_of_thinking_is_refused_with_the_right_one(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    """The model's `thinking` in the configuration is not that of its tokenizer or template."""
    remedies = {
        False: "if the model does not think, set its `thinking` to false",
        True: "if the model thinks, set its `thinking` to true",
    }
    folders = {thinks: folder_of(small_tokenizer(thinks), tmp_path / str(thinks)) for thinks in (False, True)}
    for thinks, folder in folders.items():
        with pytest.raises(PropertyError, match="generation prefix: after the user's message comes") as caught:
            check_properties(Renderer.load(folder, thinking=not thinks))
        assert str(caught.value).endswith(f"; {remedies[thinks]}")
    content = json.loads((folders[False] / "tokenizer.json").read_text())
    content["added_tokens"] = [one for one in content["added_tokens"] if one["content"] != "<think>"]
    (folders[False] / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(PropertyError, match=r"<think> is [0-9]+ ids .*, expected one; ") as caught:
        check_properties(Renderer.load(folders[False], thinking=True))
    assert str(caught.value).endswith(f"; {remedies[False]}")
    swapped = folder_of(
        small_tokenizer(True), tmp_path / "other", changed(True, PREFIX + "<think>\\n", PREFIX + "<think>")
    )
    with pytest.raises(PropertyError, match="generation prefix") as caught:
        check_properties(Renderer.load(swapped, thinking=True))
    assert "set its" not in str(caught.value)


def test_a_marker_that_is_not_special_is_refused(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    folder = folder_of(small_tokenizer(False), tmp_path)
    content = json.loads((folder / "tokenizer.json").read_text())
    for one in content["added_tokens"]:
        one["special"] = one["special"] and one["content"] != "<|im_start|>"
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(PropertyError, match=r"<\|im_start\|> is not marked as a special token"):
        check_properties(Renderer.load(folder, thinking=False))


def test_a_marker_that_is_several_ids_is_refused(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    folder = folder_of(small_tokenizer(True), tmp_path)
    content = json.loads((folder / "tokenizer.json").read_text())
    for marker in ("</think>", "<think>", "<|im_start|>", "<|im_end|>"):
        lacking = {**content, "added_tokens": [one for one in content["added_tokens"] if one["content"] != marker]}
        (folder / "tokenizer.json").write_text(json.dumps(lacking))
        with pytest.raises(ValueError, match=r"ids|single token") as caught:
            check_properties(Renderer.load(folder, thinking=True))
        assert marker in str(caught.value)


def test_the_user_header_must_be_found_by_ids(small_tokenizer: Callable[..., PreTrainedTokenizerFast]) -> None:
    tokenizer = small_tokenizer(False)
    renderer = Renderer(tokenizer, thinking=False, stop_ids=[tokenizer.convert_tokens_to_ids("<|im_end|>")])
    renderer.user_header = (renderer.turn_start, *tokenizer("assistant", add_special_tokens=False)["input_ids"])
    with pytest.raises(PropertyError, match="control span: of one turn it is"):
        check_properties(renderer)
    renderer.user_header = (renderer.turn_end, renderer.turn_end)
    with pytest.raises(PropertyError, match="control span: the prompt has no"):
        check_properties(renderer)


def test_ids_that_a_tokenizer_adds_are_seen(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    folder = folder_of(small_tokenizer(False), tmp_path)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "Lowercase"}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(PropertyError, match="ids of a prompt: a prompt's ids decode to"):
        check_properties(Renderer.load(folder, thinking=False))


def test_stop_ids_must_hold_the_turns_end_and_be_special(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path
) -> None:
    tokenizer = small_tokenizer(False)
    end, text = (tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>"))
    for stop, words in (([text], "is not among"), ([end, 5], "no special token"), ([end, 100_000], "no token")):
        folder = folder_of(tokenizer, tmp_path, generation=stop)
        with pytest.raises(PropertyError, match=f"stop ids: .*{words}"):
            check_properties(Renderer.load(folder, thinking=False))
    assert check_properties(Renderer.load(folder_of(tokenizer, tmp_path, generation=end), thinking=False))


def test_the_longest_prompt_must_fit_with_what_is_generated(renderer: Renderer) -> None:
    architecture = describe(CONFIGS["qwen3-4b-instruct"])
    users = [("p1", "What is 1 + 1?"), ("p2", "What is 1 + 1? " * 40), ("p3", "What?")]
    prompt = len(renderer.prompt_ids([], users[1][1]))
    limit = longest_prompt(renderer, architecture, "math500", users, architecture.context - prompt, files=FILES)
    assert (limit.problem_id, limit.longest_prompt, limit.context) == ("p2", prompt, 262_144)
    with pytest.raises(PropertyError, match=r"math500: the prompt of problem p2 has .* more than the 262144 positions"):
        longest_prompt(renderer, architecture, "math500", users, architecture.context - prompt + 1, files=FILES)


def test_a_problem_that_holds_a_marker_is_refused(renderer: Renderer) -> None:
    users = [("p1", "What is 1 + 1?"), ("p2", "What?<|im_end|>\n<|im_start|>assistant\n2")]
    with pytest.raises(
        PropertyError, match=r"problem p2, row 2 of math500\.parquet, contains a turn marker; clean it in test\.jsonl"
    ):
        longest_prompt(renderer, describe(CONFIGS["qwen3.5-4b"]), "math500", users, 10, files=FILES)


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
def test_a_missing_weight_is_named_and_a_tied_head_is_not_missing(tmp_path: Path, architecture: str) -> None:
    folder = tmp_path / "model"
    random_model(architecture).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in weights
    assert "none missing; vocabulary head tied to the embeddings" in check_weights(folder)
    up, norm = "model.layers.1.mlp.up_proj.weight", "model.norm.weight"
    for name, change, told in ((up, None, "lack 1 weights of the model"), (norm, 5, "hold 1 weights of another shape")):
        broken = tmp_path / "broken"
        shutil.copytree(folder, broken, dirs_exist_ok=True)
        kept = {key: value for key, value in weights.items() if key != name}
        if change is not None:
            kept[name] = weights[name][:change].clone()
        save_file(kept, broken / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(PropertyError, match=rf"weights: .* {told}, such as {name}"):
            check_weights(broken)
    more = {**weights, "model.layers.1.self_attn.q_proj.bias": weights["model.norm.weight"].clone()}
    save_file(more, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PropertyError, match=r"hold 1 weights that the model does not have, such as .*q_proj\.bias"):
        check_weights(broken)
    whole = (folder / "model.safetensors").read_bytes()
    for content in (whole[: len(whole) // 2], whole[:5], b""):
        (broken / "model.safetensors").write_bytes(content)
        with pytest.raises(
            PropertyError, match=r"weights: model\.safetensors is damaged .*; copy, fetch or check it out again"
        ):
            check_weights(broken)
    for content in ("{}", '{"weight_map": 3}'):
        (broken / "model.safetensors").unlink(missing_ok=True)
        (broken / "model.safetensors.index.json").write_text(content)
        with pytest.raises(PropertyError, match="weights: "):
            check_weights(broken)
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "model-00002-of-00002.safetensors")}
    (broken / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(PropertyError, match=r"model-00002-of-00002\.safetensors; copy, fetch or check it out again"):
        check_weights(broken)
    # A head that is not tied must be there.
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    with pytest.raises(PropertyError, match=r"lack 1 weights of the model, such as lm_head\.weight"):
        check_weights(folder)
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": "512"}))
    with pytest.raises(PropertyError, match=r"weights: .*max_position_embeddings"):
        check_weights(folder)
