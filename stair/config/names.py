"""The keys that name entries of other sections, `select`, and the check that every name is configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

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
"""The kinds of the names under a key. The second one is that of the names within a mapping by the first."""

_STUDIES = ("replay", "runtime", "controls")


class Select(Strict):
    """The entries that a run keeps."""

    models: Keys | None = Field(None, description="Keys of `models`; null keeps all.")
    benchmarks: Keys | None = Field(None, description="Keys of `benchmarks`; null keeps all.")
    controllers: Keys | None = Field(None, description="Keys of `controllers`; null keeps all.")
    conditions: Keys | None = Field(None, description="Keys of `conditions`; null keeps all.")
    controls: Keys | None = Field(None, description="Keys of `controls.conditions`; null keeps all.")


def entries_of(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The entries of a kind in plain values; those of `controls` are the conditions of this study."""
    within = _mapping(values.get("controls")).get("conditions") if kind == "controls" else values.get(kind)
    return dict(_mapping(within))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def reject_null_entries(layer: Mapping[str, Any]) -> None:
    """Checks that a layer sets no entry to null.

    Raises:
        ValueError: it does; the message has the key that mends it.
    """
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


def selected(values: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Plain values with the selected entries alone.

    Lists and mappings lose the names of other entries. An entry or study that needs one of those goes too.

    Raises:
        ValueError: a selected name is not configured, or needs an entry that is not selected.
    """
    values = dict(values)
    gone: dict[str, set[str]] = {"prompts": set()}
    for kind in Select.model_fields:
        entries = entries_of(values, kind)
        chosen = names.get(kind, entries)
        for name in chosen if entries else ():
            _check(f"select.{kind}", kind, name, entries)
        gone[kind] = entries.keys() - set(chosen)
    count = -1
    while count != (count := sum(map(len, gone.values()))):  # an entry that goes can take others with it
        for study in _STUDIES:
            if isinstance(item := values.get(study), Mapping) and _needed(_used(study, item), gone):
                values[study] = None
        for kind in Select.model_fields:
            here = _within(kind, gone)
            for key, item in entries_of(values, kind).items():
                if key in gone[kind] or not (needed := _needed(item, here)):
                    continue
                if key in names.get(kind, ()):
                    raise ValueError(
                        f"select.{kind} names '{key}', whose {needed} {item[needed]!r} is not selected; select it too, "
                        f"or take '{key}' out"
                    )
                gone[kind].add(key)
    return _without(values, gone)


def _within(kind: str, gone: Mapping[str, set[str]]) -> Mapping[str, set[str]]:
    """What is gone, as the entries of a kind see it: conditions of the study `controls` name one another."""
    return {**gone, "conditions": gone["controls"]} if kind == "controls" else gone


def _used(section: str, item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a section that a run uses: a synthetic runtime study has no saved turns and no controller."""
    return {"models": item.get("models")} if section == "runtime" and item.get("synthetic") is not None else item


def _needed(item: Any, gone: Mapping[str, set[str]]) -> str | None:
    """The key under which an item names entries that are all gone."""
    for key, value in _mapping(item).items():
        if key in _NAMING and not isinstance(value, Mapping) and key != "exclude_benchmarks":
            names = value if isinstance(value, list) else [value]
            if names and all(isinstance(name, str) and name in gone[_NAMING[key][0]] for name in names):
                return key
    return None


def _without(values: dict[str, Any], gone: Mapping[str, set[str]]) -> dict[str, Any]:
    """Plain values without the entries that are gone, and without their names in lists and mappings."""
    for kind in ("models", "benchmarks", "controllers", "conditions"):
        kept = {key: _lessened(item, gone) for key, item in entries_of(values, kind).items() if key not in gone[kind]}
        values = {**values, kind: kept} if isinstance(values.get(kind), Mapping) else values
    for section in ("training_pool", "rollouts", "evaluation", "overview", *_STUDIES):
        if isinstance(item := values.get(section), Mapping):
            here = _within(section, gone)
            if section == "overview" and _needed(item, here):
                continue  # its models are the run's to choose
            item = _lessened(item, here)
            if isinstance(missing := item.get("missing"), list):
                item["missing"] = [entry for entry in missing if not _needed(entry, here)]
            if section == "controls" and isinstance(conditions := item.get("conditions"), Mapping):
                item["conditions"] = {k: _lessened(v, here) for k, v in conditions.items() if k not in gone["controls"]}
            values = {**values, section: item}
    return values


def _lessened(item: Any, gone: Mapping[str, set[str]]) -> Any:
    """An item whose lists and mappings have lost the names of entries that are gone."""

    def rest(value: Any, kinds: Sequence[str]) -> Any:
        if kinds and isinstance(value, Mapping):
            return {key: rest(each, kinds[1:]) for key, each in value.items() if key not in gone[kinds[0]]}
        if kinds and isinstance(value, list):
            return [name for name in value if not (isinstance(name, str) and name in gone[kinds[0]])]
        return value

    if not isinstance(item, Mapping):
        return item
    return {key: rest(value, _NAMING.get(key, ())) for key, value in item.items()}


def check_names(values: Mapping[str, Any]) -> None:
    """Checks that every name in the plain values of a whole configuration is that of an entry.

    Raises:
        ValueError: the first name that is not configured, with its place.
    """
    for where, item in _naming_items(values):
        study = where.startswith("controls.")
        for key, value in item.items():
            for place, kind, name in _names(f"{where}.{key}", value, _NAMING.get(key, ())):
                own = study and kind == "conditions"
                _check(place, kind, name, entries_of(values, "controls" if own else kind))


def _naming_items(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The mappings of a configuration whose keys can name entries, with their places."""
    for kind in ("models", "benchmarks", "controllers", "conditions"):
        for key, item in values[kind].items():
            yield f"{kind}.{key}", item
    for section in ("training_pool", "rollouts", "evaluation", "transitions", "overview", *_STUDIES):
        if (item := values[section]) is not None:
            yield section, _used(section, item)
            for number, entry in enumerate(item.get("missing", ())):
                yield f"{section}.missing.{number}", entry
    for key, item in entries_of(values, "controls").items():
        yield f"controls.conditions.{key}", item


def _names(place: str, value: Any, kinds: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The names under a key, with their places and kinds."""
    if not kinds:
        return
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield place, kinds[0], name
            yield from _names(f"{place}.{name}", below, kinds[1:])
    else:
        for name in value if isinstance(value, list) else [value]:
            if name is not None:
                yield place, kinds[0], name


def _check(where: str, kind: str, name: str, among: Mapping[str, Any]) -> None:
    if name not in among:
        what = "condition" if kind == "controls" else kind.removesuffix("s")
        raise ValueError(f"{where} names the {what} '{name}', which is not configured (there are: {', '.join(among)})")
