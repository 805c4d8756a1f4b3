"""Resolves `config.yaml`, a run's overlay and the command line into one configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from stair.config.field_types import NAME
from stair.config.model import Config
from stair.config.names import Select, check_entries, selected, selection

RESOLVED = "config.resolved.yaml"
"""The resolved configuration's name in a run's folder; every stage reads this file and no other."""

_MAX_EXTENDS = 8


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one readable line that names the key."""


# libyaml's parser, where PyYAML has it, is ten times faster, so every job reads the output of `dump` with it. PyYAML's own
# parser reads files of users: its messages are better, and the same everywhere.
_DUMPED_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, but with 1e-6 read as a number. A key given twice is refused."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # merge keys (`<<`) are not resolved yet
        names = [key.value for key, _ in node.value]
        for key, _ in reversed(node.value):
            if names.count(key.value) > 1:
                raise yaml.YAMLError(f"the key '{key.value}' stands twice (line {key.start_mark.line + 1})")
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def read_yaml(path: Path, *, dumped: bool = False) -> dict[str, Any]:
    """Reads a YAML mapping; an empty file is an empty mapping. `dumped`: this program has written it."""
    try:
        with open(path, encoding="utf-8") as file:  # its errors name the file
            value = yaml.load(file, Loader=_DUMPED_LOADER if dumped else _Loader)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is not a configuration: its lists or mappings lie too deep in each other") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold keys and values, not a {type(value).__name__}")
    return value


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge key by key; anything else replaces, null too."""
    merged = dict(base)
    for key, value in change.items():
        if isinstance(value, Mapping):
            below = merged.get(key)
            value = merge(below if isinstance(below, Mapping) else {}, value)
        merged[key] = value
    return merged


def without_null(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys whose value is null, so that their defaults stand."""
    return {
        key: without_null(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def resolve(root: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a run.

    Args:
        root: the project's folder.
        overrides: the settings of the command line, `run` among them; they take precedence over all files.

    Raises:
        ConfigError: naming the key or the file.
    """
    overrides = {key: typed(value) for key, value in (overrides or {}).items()}
    base = read_yaml(root / "config.yaml")
    run = overrides.get("run", base.get("run"))
    if not isinstance(run, str):
        raise ConfigError("run must name a run: an overlay in workflow/runs, the path of one, or a run's folder")
    if not _overlay(root, run).is_file() and (Path(run) / RESOLVED).is_file():
        return _resolved_again(Path(run), overrides)
    layers = [base, *_overlays(root, run), overrides]
    values: dict[str, Any] = {}
    for layer in layers:
        values = merge(values, layer)
    values["run"] = Path(run).stem
    if not re.fullmatch(NAME, values["run"]):
        raise ConfigError(
            f"{run}: the file's name is that of the run and of its folder; use lower-case letters, digits, '_', '.' and '-' only"
        )
    source = f"the configuration of run '{values['run']}'"
    try:
        _reject_unknown_keys(values)
        check_entries(layers)
        values = selected(without_null(values), selection(layers))
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
    return validate(values, source).model_copy(update={"select": Select()})  # it has been applied


def _resolved_again(folder: Path, overrides: Mapping[str, Any]) -> Config:
    """The configuration of the run in a folder, perhaps a copy, with changes."""
    place = folder if folder.name else folder.absolute()
    values = load_run(folder).model_dump(mode="json") | {"results": str(place.parent)}
    changes = {key: value for key, value in overrides.items() if key != "run"}
    return validate(merge(values, changes) | {"run": place.name}, str(folder / RESOLVED))


def _overlay(root: Path, run: str) -> Path:
    return Path(run) if run.endswith((".yaml", ".yml")) else root / "workflow" / "runs" / f"{run}.yaml"


def _overlays(root: Path, run: str, depth: int = 0) -> list[dict[str, Any]]:
    path = _overlay(root, run)
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
        return [values]
    if not isinstance(extends, str):
        raise ConfigError(f"{path}: 'extends' must name one run")
    return [*_overlays(root, extends, depth + 1), values]


def typed(value: Any) -> Any:
    """Snakemake hands nested command-line values over as strings: read each as YAML would."""
    if isinstance(value, Mapping):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, str):
        try:
            parsed = yaml.load(value, Loader=_Loader)
        except (yaml.YAMLError, ValueError):
            return value
        return parsed if isinstance(parsed, int | float | bool) or parsed is None else value
    return value


def validate(values: Mapping[str, Any], source: str) -> Config:
    """Raises ConfigError with every wrong key and the reason in one line."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: {explained(error)}") from None


def _reject_unknown_keys(values: Mapping[str, Any]) -> None:
    """Raises ValueError with the keys that do not exist. In YAML, `{samples=8}` is such a key, and its value is null."""
    try:
        Config.model_validate(values)
    except ValidationError as error:
        unknown = [_explain(item, Config) for item in error.errors() if item["type"] == "extra_forbidden"]
        if unknown:
            raise ValueError("; ".join(unknown)) from None


def explained(error: ValidationError, model: type[BaseModel] = Config) -> str:
    """Every wrong key of a mapping for this typed model, with the reason, in one line."""
    return "; ".join(_explain(item, model) for item in error.errors())


def _explain(item: Mapping[str, Any], model: type[BaseModel]) -> str:
    place = [str(part) for part in item["loc"] if part != "[key]"]
    where, message = ".".join(place), item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        near = get_close_matches(place[-1], _keys_at(place[:-1], model), n=1, cutoff=0.7)
        return f"unknown key '{where}'{f' (did you mean {near[0]!r}?)' if near else ''}"
    if item["type"] == "missing":
        return f"'{where}' is missing"
    if item["type"] == "tuple_type":
        message = "must be a list"
    if not where:
        return message
    if isinstance(item["input"], Mapping | list):
        return f"'{where}': {message}"
    return f"'{where}': {message[0].lower()}{message[1:]} (given: {item['input']!r})"


def _keys_at(place: Sequence[str], model: type[BaseModel]) -> list[str]:
    kinds = [model]
    for name in place:
        below = [kind.model_fields[name].annotation for kind in kinds if name in kind.model_fields]
        # The name of an entry and a number in a list lead nowhere.
        kinds = [kind for each in below for kind in _models_in(each)] or kinds
    return [name for kind in kinds for name in kind.model_fields]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def dump(config: Config) -> str:
    """The resolved configuration as YAML, every key present."""
    head = (
        "# Resolved from config.yaml, the run's overlay and the command line; written by the workflow. Do not edit.\n"
    )
    values = config.model_dump(mode="json")
    return head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)


def unlike_its_overlay(config: Config, root: Path) -> list[str]:
    """The settings of a run that its overlay does not have, as `evaluation.seed: again`; none without a valid overlay."""
    overlay = config.run if _overlay(root, config.run).is_file() else f"{config.run}.yaml"
    try:
        asked = resolve(root, {"run": overlay}).model_dump(mode="json")
    except ConfigError:
        return []

    def changed(own: Any, other: Any, key: str) -> Iterator[str]:
        if isinstance(own, dict) and isinstance(other, dict):
            for name in own | other:
                yield from changed(own.get(name), other.get(name), f"{key}.{name}".lstrip("."))
        elif own != other and key != "results":
            yield f"{key}: {own}"

    return list(changed(config.model_dump(mode="json"), asked, ""))


def value_at(config: Config, key: str) -> str:
    """The value under a dotted key (`sglang.device`), as YAML. Raises ConfigError without it."""
    value: Any = config.model_dump(mode="json")
    above, rest = "the configuration", key
    while rest:
        names = list(value) if isinstance(value, dict) else []
        # A model's key can contain dots: the longest matching name counts.
        part = max((name for name in names if f"{rest}.".startswith(f"{name}.")), key=len, default=None)
        if part is None:
            near = get_close_matches(rest.partition(".")[0], names, n=1, cutoff=0.7)
            has = f"it has: {', '.join(names)}" if isinstance(value, dict) else "it is a value"
            has = f"did you mean '{near[0]}'?" if near else has
            raise ConfigError(f"there is no key '{rest}' in {above} ({has})")
        value, above, rest = value[part], part, rest[len(part) + 1 :]
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120).removesuffix("...\n")


def run_around(path: Path) -> Path | None:
    """The run's folder that a path is, or is in; None outside of runs."""
    place = path.resolve()
    return next((folder for folder in (place, *place.parents) if (folder / RESOLVED).is_file()), None)


def load_run(folder: Path) -> Config:
    """The configuration of the run in a folder.

    Raises:
        ConfigError: the folder holds no resolved configuration, or one that is damaged or of another version of this package.
    """
    path = folder / RESOLVED
    if not path.is_file():
        what = "is not a run's folder: it has no" if folder.is_dir() else "is not a folder, so it has no"
        raise ConfigError(
            f"{folder} {what} {RESOLVED}; name a run's folder (for example results/tiny), or make it: stair reproduce --run "
            "RUN, or without a job: stair config --run RUN --write"
        )
    try:
        return validate(read_yaml(path, dumped=True), str(path))
    except ConfigError as error:
        first, *more = str(error).split("; ")
        raise ConfigError(
            f"{first}{f' (and {len(more)} more errors)' if more else ''}; if the file was cut off, or another version of the "
            "project wrote it, write it again: "
            "stair config --write --run RUN, with the run's name or overlay"
        ) from None
