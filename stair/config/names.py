"""The keys that name entries of other sections, `select`, and the check that every name is configured."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from stair.config.field_types import Keys, Strict
from stair.core import SHARED_T1, study_of

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

_STUDIES = ("replay", "runtime", "controls")
_SECTIONS = ("training_pool", "rollouts", "evaluation", "transitions", "overview", *_STUDIES)

_Gone = Mapping[str, Collection[str]]


class Select(Strict):
    """The entries that a run keeps."""

    models: Keys | None = None
    benchmarks: Keys | None = None
    controllers: Keys | None = None
    conditions: Keys | None = None
    controls: Keys | None = None


class _Item(NamedTuple):
    """A section or an entry whose keys can name entries."""

    kind: str
    """The kind of an entry; empty for a section."""
    name: str
    values: dict[str, Any]

    @property
    def place(self) -> str:
        return f"{'controls.conditions' if self.kind == 'controls' else self.kind}.{self.name}".removeprefix(".")

    def naming(self) -> Iterator[tuple[str, Sequence[str]]]:
        """The keys that name entries. Conditions of the study `controls` name one another."""
        without_turns = self[:2] == ("", "runtime") and self.values.get("synthetic") is not None
        for key in ("models",) if without_turns else _NAMING:
            if key in self.values:
                kinds = _NAMING[key]
                yield key, ("controls",) if self.kind == "controls" and kinds == ("conditions",) else kinds

    def needed(self, gone: _Gone) -> str | None:
        """The first key all of whose names are gone."""
        for key, kinds in self.naming():
            names = self.values[key] if isinstance(self.values[key], list) else [self.values[key]]
            if names and not _rest(names, kinds, gone) and key != "exclude_benchmarks":
                return key
        return None


def _items(values: Mapping[str, Any]) -> list[_Item]:
    entries = [(kind, name, item) for kind in Select.model_fields for name, item in entries_of(values, kind).items()]
    found = [*(("", section, values.get(section)) for section in _SECTIONS), *entries]
    return [_Item(kind, name, item) for kind, name, item in found if isinstance(item, dict)]


def entries_of(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return _mapping(_mapping(values.get("controls")).get("conditions") if kind == "controls" else values.get(kind))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def check_entries(layers: Sequence[Mapping[str, Any]]) -> None:
    """Raises ValueError if a layer sets an entry to null, or has a new one that is a misspelt known one."""
    known: dict[str, set[str]] = {kind: set() for kind in Select.model_fields}
    for layer in layers:
        for kind, names in known.items():
            for key, entry in entries_of(layer, kind).items():
                place = _Item(kind, key, {}).place
                if entry is None:
                    raise ValueError(
                        f"{place} is null; to leave an entry out, name those that stay: select: {{{kind}: [...]}}"
                    )
                only = list(_mapping(entry))  # a new entry of any kind has two keys at least
                if key not in names and len(only) == 1 and (near := get_close_matches(key, names, n=1)):
                    raise ValueError(
                        f"{place} has {only[0]} alone, too little for a new entry (did you mean {near[0]!r}?)"
                    )
            names.update(entries_of(layer, kind))


def selection(layers: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The selected names by kind: those of the last layer that selects this kind, and the entries that later layers add."""
    names: dict[str, list[str]] = {}
    for kind in Select.model_fields:
        known = set[str]()
        for layer in layers:
            entries, select = entries_of(layer, kind), _mapping(layer.get("select"))
            if kind in select:
                names.pop(kind, None)
                if isinstance(select[kind], list):  # validation rejects anything else but null
                    names[kind] = [name for name in select[kind] if isinstance(name, str)]
            elif kind in names:
                names[kind] += [key for key in entries if key not in known]
            known |= entries.keys()
    return names


def selected(values: dict[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Plain values with the selected entries alone; changes the given ones.

    Lists and mappings lose the names of other entries. An entry or study that needs one of those is removed too.

    Raises:
        ValueError: a selected name is not configured, or needs an entry that is not selected.
    """
    gone: dict[str, set[str]] = {}

    def remove(kind: str, name: str) -> None:
        (entries_of(values, kind) if kind else values).pop(name, None)  # its study may have gone before
        gone.setdefault(kind, set()).add(name)

    for kind, chosen in names.items():
        if entries := entries_of(values, kind):
            for name in chosen:
                _check(f"select.{kind}", kind, name, entries)
            for name in entries.keys() - set(chosen):
                remove(kind, name)
    while lacking := [(item, key) for item in _items(values) if (key := item.needed(gone)) and _can_go(item)]:
        for item, key in lacking:
            if item.name in names.get(item.kind, ()):
                raise ValueError(
                    f"select.{item.kind} names '{item.name}', whose key {key} names nothing that is selected "
                    f"({item.values[key]!r}); select it too, or take '{item.name}' out"
                )
            remove(item.kind, item.name)
    for item in _items(values):
        if item.needed(gone) is None:  # else its names are the run's to choose
            item.values.update({key: _rest(item.values[key], kinds, gone) for key, kinds in item.naming()})
    return values


def _can_go(item: _Item) -> bool:
    return bool(item.kind) or item.name in _STUDIES


def _rest(value: Any, kinds: Sequence[str], gone: _Gone) -> Any:
    """A list or mapping without the names that are gone; anything else as it is."""
    if not kinds:
        return value
    left_out = gone.get(kinds[0], ())
    if isinstance(value, dict):
        return {key: _rest(each, kinds[1:], gone) for key, each in value.items() if key not in left_out}
    if isinstance(value, list):
        return [name for name in value if not (isinstance(name, str) and name in left_out)]
    return value


def check_names(values: Mapping[str, Any]) -> None:
    """Raises ValueError for the first name in a whole configuration that is not an entry's, with its place."""
    for item in _items(values):
        for key, kinds in item.naming():
            for place, kind, name in _names(f"{item.place}.{key}", item.values[key], kinds):
                _check(place, kind, name, _mapping(values.get(kind)) if kind == "prompts" else entries_of(values, kind))


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
        study, short = study_of(name)
        more = (
            f"; select.controls: [{short}] names that of the study"
            if (where, study) == ("select.conditions", SHARED_T1)
            else ""
        )
        raise ValueError(
            f"{where} names the {what} '{name}', which is not configured (there are: {', '.join(among)}{more})"
        )
