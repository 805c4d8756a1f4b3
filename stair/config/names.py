"""The keys that name entries of other sections, `select`, and the check that every name is configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stair.config.field_types import Keys, Strict

_NAMING = {
    "model": ("models",),
    "models": ("models",),
    "benchmark": ("benchmarks",),
    "benchmarks": ("benchmarks",),
    "exclude_benchmarks": ("benchmarks",),
    "evaluation_changes": ("benchmarks",),
    "exclude_more": ("models", "benchmarks"),
    "engine_changes": ("models", "benchmarks"),
    "controller": ("controllers",),
    "condition": ("conditions",),
    "first_turn": ("conditions",),
    "repeats": ("conditions",),
    "prompt": ("prompts",),
}
"""What the names under a key are: a name, a list, or the keys of a mapping. A second kind is that of names below those keys."""

_SECTIONS = ("training_pool", "rollouts", "evaluation", "transitions", "overview", "replay", "runtime", "controls")
_STUDIES = ("replay", "runtime", "controls")

_Naming = Mapping[str, tuple[str, ...]]


class Select(Strict):
    """The entries that a run keeps."""

    models: Keys | None = None
    benchmarks: Keys | None = None
    controllers: Keys | None = None
    conditions: Keys | None = None
    controls: Keys | None = None


def entries_of(values: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return _mapping(_mapping(values.get("controls")).get("conditions") if kind == "controls" else values.get(kind))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def reject_null_entries(layer: Mapping[str, Any]) -> None:
    """Raises ValueError, with the key that mends it, if a layer sets an entry to null."""
    for kind in Select.model_fields:
        for key, entry in entries_of(layer, kind).items():
            if entry is None:
                section = "controls.conditions" if kind == "controls" else kind
                raise ValueError(
                    f"{section}.{key} is null; to leave an entry out, name those that stay: select: {{{kind}: [...]}}"
                )


def selection(layers: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The selected names by kind: those of the last layer that selects this kind, and the entries that later layers add."""
    names: dict[str, list[str]] = {}
    known: dict[str, set[str]] = {kind: set() for kind in Select.model_fields}
    for layer in layers:
        select = _mapping(layer.get("select"))
        for kind in known:
            entries = entries_of(layer, kind)
            if kind in select:
                names.pop(kind, None)
                if isinstance(select[kind], list):  # validation rejects anything else but null
                    names[kind] = [name for name in select[kind] if isinstance(name, str)]
            elif kind in names:
                names[kind] += [key for key in entries if key not in known[kind]]
            known[kind] |= entries.keys()
    return names


def selected(values: dict[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Plain values with the selected entries alone; changes the given ones.

    Lists and mappings lose the names of other entries. An entry or study that needs one of those is removed too.

    Raises:
        ValueError: a selected name is not configured, or needs an entry that is not selected.
    """
    gone: dict[str, set[str]] = {"prompts": set()}
    for kind in Select.model_fields:
        entries = entries_of(values, kind)
        chosen = names.get(kind, entries)
        for name in chosen if entries else ():
            _check(f"select.{kind}", kind, name, entries)
        gone[kind] = entries.keys() - set(chosen)
    count = -1
    while count != (count := sum(map(len, gone.values()))):  # an entry that goes can take others with it
        for where, item, naming in _naming_items(values):
            key = _needed(item, naming, gone)
            kind, _, name = where.replace("controls.conditions.", "controls.").partition(".")
            if key is None:
                continue
            if where in _STUDIES:
                values[where] = None
            elif name in names.get(kind, ()) and name not in gone[kind]:
                raise ValueError(
                    f"select.{kind} names '{name}', whose key {key} names nothing that is selected ({item[key]!r}); "
                    f"select it too, or take '{name}' out"
                )
            elif name in entries_of(values, kind):
                gone[kind].add(name)
    for where, item, naming in _naming_items(values):
        if where != "overview" or _needed(item, naming, gone) is None:  # else its models are the run's to choose
            item.update({key: _rest(item[key], kinds, gone) for key, kinds in naming.items() if key in item})
    for kind in Select.model_fields:
        for key in gone[kind] & entries_of(values, kind).keys():
            del (values["controls"]["conditions"] if kind == "controls" else values[kind])[key]
    return values


def _naming_items(values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], _Naming]]:
    """The mappings of a configuration that can name entries: their places, and their keys that do so."""
    for section in _SECTIONS:
        if isinstance(item := values.get(section), dict):
            synthetic = section == "runtime" and item.get("synthetic") is not None  # no saved turns, no controller
            yield section, item, {"models": ("models",)} if synthetic else _NAMING
    for kind in Select.model_fields:
        place = "controls.conditions" if kind == "controls" else kind
        for key, item in entries_of(values, kind).items():
            if isinstance(item, dict):
                yield f"{place}.{key}", item, _naming(kind)


def _naming(section: str) -> _Naming:
    """The keys that name entries. The conditions of the study `controls` name one another."""
    if section != "controls":
        return _NAMING
    return {key: ("controls",) if kinds == ("conditions",) else kinds for key, kinds in _NAMING.items()}


def _needed(item: Mapping[str, Any], naming: _Naming, gone: Mapping[str, set[str]]) -> str | None:
    for key, kinds in naming.items():
        value = item.get(key)
        names = value if isinstance(value, list) else [value]
        left = _rest(names, kinds, gone)
        if names and not left and key != "exclude_benchmarks":
            return key
    return None


def _rest(value: Any, kinds: Sequence[str], gone: Mapping[str, set[str]]) -> Any:
    """A list or mapping without the names that are gone; anything else as it is."""
    if kinds and isinstance(value, dict):
        return {key: _rest(each, kinds[1:], gone) for key, each in value.items() if key not in gone[kinds[0]]}
    if kinds and isinstance(value, list):
        return [name for name in value if not (isinstance(name, str) and name in gone[kinds[0]])]
    return value


def check_names(values: Mapping[str, Any]) -> None:
    """Raises ValueError for the first name in a whole configuration that is not an entry's, with its place."""
    for where, item, naming in _naming_items(values):
        for key, kinds in naming.items():
            for place, kind, name in _names(f"{where}.{key}", item.get(key), kinds):
                _check(place, kind, name, entries_of(values, kind))


def _names(place: str, value: Any, kinds: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    if not kinds or value is None:
        return
    for name in value if isinstance(value, dict | list) else [value]:
        yield place, kinds[0], name
        if isinstance(value, dict):
            yield from _names(f"{place}.{name}", value[name], kinds[1:])


def _check(where: str, kind: str, name: str, among: Mapping[str, Any]) -> None:
    if name not in among:
        what = "condition" if kind == "controls" else kind.removesuffix("s")
        raise ValueError(f"{where} names the {what} '{name}', which is not configured (there are: {', '.join(among)})")
