"""Resolves `config.yaml`, a run's overlay and the command line into one configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from stair.config.model import Config

RESOLVED = "config.resolved.yaml"
"""The resolved configuration's name in a run's folder; every stage reads this file and no other."""

_MAX_EXTENDS = 8


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one readable line that names the key."""


# libyaml's parser, where PyYAML has it, is ten times faster, so every job reads the output of `dump` with it. PyYAML's own
# parser reads files of users: its messages are better, and the same everywhere.
_DUMPED_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, but with 1e-6 read as a number, and a date or 1:00:00 as text.

    A key given twice, a key that is no single value and an alias within itself are refused.
    """

    def construct_document(self, node: yaml.Node) -> Any:
        self.deep_construct = True  # sees the alias within itself
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = set()
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, f"a key must be a name, not a list or a mapping (line {line})", key_node.start_mark
                )
            key = self.construct_object(key_node, deep=True)
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice (line {line})", key_node.start_mark
                )
            keys.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)
_Loader.yaml_implicit_resolvers = {
    first: [
        # YAML 1.1 reads 1:00:00 as 3600.
        (
            tag,
            re.compile(f"(?!.*:)(?:{pattern.pattern})", pattern.flags) if tag.endswith((":int", ":float")) else pattern,
        )
        for tag, pattern in found
        if tag != "tag:yaml.org,2002:timestamp"
    ]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path, *, dumped: bool = False) -> dict[str, Any]:
    """Reads a YAML mapping; an empty file is an empty mapping. `dumped`: this program has written it.

    Raises:
        ConfigError: the file is absent, is not YAML, or holds something else than a mapping.
    """
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_DUMPED_LOADER if dumped else _Loader)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is not a configuration: its lists or mappings lie too deep in each other") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold keys and values, not a {type(value).__name__}")
    return value


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge key by key; anything else replaces; null removes the key, so that its default stands."""
    merged = dict(base)
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        elif isinstance(value, Mapping):
            merged[key] = merge({}, value)
        else:
            merged[key] = value
    return merged


def resolve(root: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a run.

    Args:
        root: the project's folder, with `config.yaml` and `workflow/runs/`.
        overrides: what the command line says, `run` among them; wins over everything.

    Raises:
        ConfigError: naming the key or the file.
    """
    overrides = {key: typed(value) for key, value in (overrides or {}).items()}
    base = read_yaml(root / "config.yaml")
    run = overrides.get("run", base.get("run"))
    if not isinstance(run, str):
        raise ConfigError("run must name a run (an overlay in workflow/runs) or the path of an overlay file")
    values = merge(merge(base, _overlay(root, run)), overrides)
    values["run"] = Path(run).stem
    values = _without_removed(values, base)
    return validate(values, f"the configuration of run '{values['run']}'")


def _without_removed(values: dict[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Removes the names of entries that null removed, and controllers and conditions of removed models or benchmarks alone.

    A name that was never configured stays, and validation rejects it.
    """
    values = _without_mentions(values, _removed("models", values, base), _removed("benchmarks", values, base))
    before = values.get("controllers") or {}
    values["controllers"] = _remaining(before, set(), values, base)
    dropped = set(before) - set(values["controllers"])
    values["conditions"] = _remaining(values.get("conditions") or {}, dropped, values, base)
    saved = {"benchmarks": "benchmark", "conditions": "condition", "controllers": "controller"}
    for section in ("replay", "runtime", "controls"):
        if isinstance(study := values.get(section), Mapping):
            values[section] = _study_of_present(study, saved, values, base)
    controls = values.get("controls")
    if isinstance(controls, Mapping) and isinstance(conditions := controls.get("conditions"), Mapping):
        # The study is there by default: it must not keep an overlay from removing a controller.
        dropped |= _removed("controllers", values, base)
        values["controls"] = {**controls, "conditions": _remaining(conditions, dropped, values, base)}
    return values


def _without_mentions(values: Mapping[str, Any], models: set[str], benchmarks: set[str]) -> dict[str, Any]:
    """Values in which the settings of one model or benchmark, and the lists of several, no longer name the removed ones.

    A list of models that would be empty stays, and so does a single name: the run has to choose another.
    """
    values = dict(values)
    if isinstance(present := values.get("models"), Mapping):
        values["models"] = {key: _within(item, "evaluation_changes", benchmarks) for key, item in present.items()}
    pool = _within(values.get("training_pool"), "exclude_benchmarks", benchmarks)
    if isinstance(pool, Mapping) and isinstance(more := pool.get("exclude_more"), Mapping):
        pool = {**pool, "exclude_more": {key: _dropped(names, benchmarks) for key, names in more.items()}}
    values["training_pool"] = _within(pool, "exclude_more", models)
    evaluation = values.get("evaluation")
    if isinstance(evaluation, Mapping) and isinstance(changes := evaluation.get("engine_changes"), Mapping):
        evaluation = {
            **evaluation,
            "engine_changes": {key: _dropped(item, benchmarks) for key, item in changes.items()},
        }
    values["evaluation"] = _within(evaluation, "engine_changes", models)
    if isinstance(overview := values.get("overview"), Mapping):
        values["overview"] = _only_present(overview, "models", models) or overview
    return {key: value for key, value in values.items() if value is not None}


def _within(item: Any, key: str, removed: set[str]) -> Any:
    """The item with the removed names dropped from the list or mapping under its key."""
    if not isinstance(item, Mapping) or item.get(key) is None:
        return item
    return {**item, key: _dropped(item[key], removed)}


def _dropped(names: Any, removed: set[str]) -> Any:
    """A list or mapping without the removed names; anything else as it is."""
    if isinstance(names, Mapping):
        return {key: value for key, value in names.items() if key not in removed}
    if isinstance(names, list):
        return [name for name in names if not (isinstance(name, str) and name in removed)]
    return names


def _removed(kind: str, values: Mapping[str, Any], base: Mapping[str, Any]) -> set[str]:
    return set(base.get(kind) or {}) - set(values.get(kind) or {})


def _remaining(
    items: Mapping[str, Any], dropped: set[str], values: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, Any]:
    """Controllers or conditions without those for removed names alone, and without those of `dropped` controllers."""
    remaining = {}
    for key, item in items.items():
        for kind in ("models", "benchmarks"):
            item = _only_present(item, kind, _removed(kind, values, base))
        if item is not None and not (isinstance(item, Mapping) and item.get("controller") in dropped):
            remaining[key] = item
    return remaining


def _study_of_present(
    study: Mapping[str, Any], saved: Mapping[str, str], values: Mapping[str, Any], base: Mapping[str, Any]
) -> Any:
    """A study without the removed models; None where none is left, or where what its saved turns are of was removed."""
    # A synthetic study has no saved turns.
    if study.get("synthetic") is None and any(
        study.get(single) in _removed(kind, values, base) for kind, single in saved.items()
    ):
        return None
    return _only_present(study, "models", _removed("models", values, base))


def _only_present(item: Any, kind: str, removed: set[str]) -> Any:
    """The item without the removed names in its list; None if the list would be empty."""
    names = item.get(kind) if isinstance(item, Mapping) else None
    if not isinstance(names, list) or not removed & {str(name) for name in names}:
        return item
    remaining = [name for name in names if name not in removed]
    return {**item, kind: remaining} if remaining else None


def _overlay(root: Path, run: str, depth: int = 0) -> dict[str, Any]:
    """An overlay, merged over the overlays that it extends."""
    path = Path(run) if run.endswith((".yaml", ".yml")) else root / "workflow" / "runs" / f"{run}.yaml"
    if not path.is_file():
        if (own := Path(f"{run}.yaml")).is_file():
            raise ConfigError(f"run '{run}' is an overlay of your own; name the file: {own}")
        runs = sorted(p.stem for p in (root / "workflow" / "runs").glob("*.yaml"))
        raise ConfigError(f"run '{run}' does not exist: there is no {path} (runs: {', '.join(runs)})")
    if depth > _MAX_EXTENDS:
        raise ConfigError(f"{path}: 'extends' forms a circle; remove one of them")
    values = read_yaml(path)
    if "run" in values:
        raise ConfigError(f"{path}: an overlay cannot set 'run', because its file names the run; remove the key")
    extends = values.pop("extends", None)
    if extends is None:
        return values
    if not isinstance(extends, str):
        raise ConfigError(f"{path}: 'extends' must name one run")
    # Removing a key must reach config.yaml, so nulls of the lower overlay stay nulls unless the upper one sets them.
    return _stack(_overlay(root, extends, depth + 1), values)


def _stack(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    stacked = dict(lower)
    for key, value in upper.items():
        if isinstance(value, Mapping) and isinstance(stacked.get(key), Mapping):
            stacked[key] = _stack(stacked[key], value)
        else:
            stacked[key] = value
    return stacked


def typed(value: Any) -> Any:
    """Snakemake hands nested command-line values over as strings: read each as YAML would."""
    if isinstance(value, Mapping):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, str):
        try:
            parsed = yaml.load(value, Loader=_Loader)
        except yaml.YAMLError:
            return value
        return parsed if isinstance(parsed, int | float | bool) or parsed is None else value
    return value


def validate(values: Mapping[str, Any], source: str) -> Config:
    """Validates values against the typed model.

    Raises:
        ConfigError: one line with every wrong key and the reason.
    """
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: " + "; ".join(_explain(item) for item in _causes(error.errors()))) from None


def _causes(errors: Sequence[Any]) -> list[Any]:
    """The errors without those of a list that is too short only because its members are wrong."""
    places = [tuple(error["loc"]) for error in errors]
    return [
        error
        for error in errors
        if not (
            error["type"] == "too_short"
            and any(place[: len(error["loc"])] == tuple(error["loc"]) != place for place in places)
        )
    ]


def _explain(item: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in item["loc"] if part != "[key]")
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        key, names = str(item["loc"][-1]), _names_at([str(part) for part in item["loc"][:-1]])
        near = get_close_matches(key, names, n=1, cutoff=0.7)
        return f"unknown key '{where}'{f' (did you mean {near[0]!r}?)' if near else ''}"
    if item["type"] == "tuple_type":
        message = "must be a list"
    if item["type"] == "missing":
        return f"'{where}' is missing"
    if not where:
        return message
    return (
        f"'{where}': {message[0].lower()}{message[1:]} (given: {item['input']!r})"
        if _short(item)
        else f"'{where}': {message}"
    )


def _names_at(place: Sequence[str]) -> list[str]:
    """The keys that the configuration knows at a place."""
    schema = Config.model_json_schema()

    def kinds(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The mappings that a part of the schema allows."""
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
        inner = [*part.get("anyOf", ()), *part.get("oneOf", ())]
        return [kind for each in inner for kind in kinds(each)] if inner else [part]

    at = kinds(schema)
    for name in place:
        below = [kind["properties"][name] for kind in at if name in kind.get("properties", ())]
        below = below or [each for kind in at for each in kind.get("patternProperties", {}).values()]
        below = below or [
            kind[of] for kind in at for of in ("additionalProperties", "items") if isinstance(kind.get(of), dict)
        ]
        # pydantic also names the kind of which a mapping is, which is no key.
        at = [kind for each in below for kind in kinds(each)] or at
    return [name for kind in at for name in kind.get("properties", ())]


def _short(item: Mapping[str, Any]) -> bool:
    return not isinstance(item["input"], Mapping | list)


def dump(config: Config) -> str:
    """The resolved configuration as YAML, every key present."""
    head = (
        "# Resolved from config.yaml, the run's overlay and the command line; written by the workflow. Do not edit.\n"
    )
    values = config.model_dump(mode="json")
    return head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)


def value_at(config: Config, key: str) -> str:
    """The value under a dotted key (`sglang.device`), as YAML.

    Raises:
        ConfigError: there is no such key.
    """
    value: Any = config.model_dump(mode="json")
    above, rest = "the configuration", key
    while rest:
        names = list(value) if isinstance(value, dict) else []
        # A model's key can contain dots: the longest matching name counts.
        part = max((name for name in names if f"{rest}.".startswith(f"{name}.")), key=len, default=None)
        if part is None:
            has = f"it has: {', '.join(names)}" if isinstance(value, dict) else "it is a value"
            raise ConfigError(f"there is no key '{rest}' in {above} ({has})")
        value, above, rest = value[part], part, rest[len(part) + 1 :]
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120).removesuffix("...\n")


def load_run(folder: Path) -> Config:
    """The configuration of the run that owns a folder.

    Raises:
        ConfigError: the folder holds no resolved configuration, or one of another version of this package.
    """
    path = folder / RESOLVED
    if not path.is_file():
        what = "is not a run's folder: it has no" if folder.is_dir() else "is not a folder, so it has no"
        raise ConfigError(
            f"{folder} {what} {RESOLVED}; name a run's folder (for example results/tiny), or make it: stair reproduce --run "
            "RUN, or without a job: stair config --run RUN --write"
        )
    return validate(read_yaml(path, dumped=True), str(path))
