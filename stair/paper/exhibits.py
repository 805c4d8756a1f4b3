"""The tables and figures of a run, a row for each: its builder, the rows and files that it shows, and its place in the paper.

The inputs of its rule, the names that a run has, the order and captions of the report, the paper's labels and LaTeX's
settings follow from the rows. Imports no builder: `Exhibit.build` names one, which is imported when its job starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from stair.config.controls import T1
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import REPLAY_PARTS
from stair.core import EVALUATION, SHARED_T1, ConditionName, Place, condition_key
from stair.paper import paper_labels

Kind = Literal["table", "figure"]
Rows = Callable[[Config, Sequence[Place]], Iterable[Place]]
"""Of the places that have responses, those that a table or figure shows."""
Groups = dict[str, list[Path]]
Files = Callable[[Config, RunPaths], Groups]
"""Files by group, as the inputs of a rule."""

TABLE_SUFFIXES, FIGURE_SUFFIXES = (".csv", ".md", ".tex", ".html"), (".pdf", ".png", ".csv")
"""The files of a table and of a figure."""

MAIN = ("vanilla", "native", "stair")
"""The conditions of the continuous comparison, in the order of the paper's tables."""
LORA = ("native", "stair", "lora", "lora_stair")

GAINS_FROM = "continuous_summary"
"""The table that STAIR's gains are counted from."""


def _no_files(config: Config, paths: RunPaths) -> Groups:
    return {}


@dataclass(frozen=True)
class Exhibit:
    """A table or figure."""

    kind: Kind
    name: str
    """The name of its files, without an ending."""
    build: str
    """`module:function` in the folder of its kind: its builder, from a `Source` to a `Table` or `Figure`; None where its rows
    give no table."""
    label: str = ""
    """The paper's label of it."""
    title: str = ""
    """What a person calls it."""
    rows: Rows | None = None
    """The places whose scored rows it shows; None: it shows none."""
    study: str = EVALUATION
    """Whose rows these are."""
    files: Files = _no_files
    """The files that it shows besides."""
    model: str = ""
    """Its model, where each model has one."""
    caption: str = ""
    """Of a figure, as plain text with `--` for a dash; tables write their own."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """LaTeX's settings of a table, as `Layout` names them; `rule` is between blocks."""
    reported: bool = True
    """Whether its CSV has numbers that the paper reports."""
    in_paper: bool = False
    """Whether the paper has it, or has it for other models; `exhibits` sets it."""

    @property
    def builder(self) -> Callable[..., Any]:
        """The function `build`."""
        function: Callable[..., Any] = resolve_name(f"stair.paper.{self.kind}s.{self.build}")
        return function

    @property
    def artifact(self) -> str:
        """Its name in CSVs: the paper's label, or its own name."""
        return self.label or self.name

    @property
    def number(self) -> int | None:
        """Its number among the paper's tables or figures."""
        printed = paper_labels.PRINTED_AT.get(self.label)
        return int(printed.split()[-1]) if printed else None

    @property
    def heading(self) -> str:
        """Its number in the paper, if it has one, and its title."""
        return ". ".join(filter(None, (paper_labels.PRINTED_AT.get(self.label), self.title or self.name)))

    @property
    def anchor(self) -> str:
        """Its place on the report page."""
        return f"{self.kind}-{self.name}"

    def file(self, paths: RunPaths, suffix: str = ".csv") -> Path:
        """One of its files."""
        return (paths.table if self.kind == "table" else paths.figure)(self.name, suffix)

    def places(self, config: Config) -> list[Place]:
        """The places of a run whose scored rows it shows, as rows name them."""
        return [] if self.rows is None else list(self.rows(config, evaluated_places(config, self.study)))


def exhibits(config: Config) -> list[Exhibit]:
    """The tables and figures of a run: first the paper's in its order, then all others.

    A table of the run's rows may be empty, and then says so.
    """
    every = _every(config, list(config.models), evaluated_places(config))
    return [each for each in every if each.rows is None or config.conditions_of(each.study)]


def tables_of_rows(config: Config, places: Sequence[Place]) -> list[Exhibit]:
    """The tables of scored rows alone; `places` have rows of the evaluation. The configuration gives orders and labels."""
    models = list(dict.fromkeys(place.model for place in places))
    return [each for each in _every(config, models, places) if each.kind == "table" and each.rows is not None]


def named(config: Config, kind: Kind, name: str) -> Exhibit:
    """The table or figure of this name. Raises ValueError, with the nearest names or all, if there is none."""
    of_kind = {each.name: each for each in exhibits(config) if each.kind == kind}
    if name not in of_kind:
        near = get_close_matches(name, of_kind)
        known = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(of_kind)}"
        raise ValueError(f"there is no {kind} '{name}' ({known})")
    return of_kind[name]


def reported_values(config: Config, paths: RunPaths) -> list[Path]:
    """The CSVs of all numbers that tables and figures report."""
    return [each.file(paths) for each in exhibits(config) if each.reported]


# ---------------------------------------------------------------- the rows


def _every(config: Config, models: Sequence[str], places: Sequence[Place]) -> list[Exhibit]:
    paper = [replace(each, in_paper=True) for each in _of_the_paper(config, models, places)]
    return [*paper, *_further(config)]


table, figure = partial(Exhibit, "table"), partial(Exhibit, "figure")
_SPACED = {"rule": "addlinespace"}
_PLAIN = {"trimmed": False}
_SMALL = {"separation": 3, "size": "footnotesize"}


def _of_the_paper(config: Config, models: Sequence[str], places: Sequence[Place]) -> Iterator[Exhibit]:
    """The paper's tables and figures in its order. A model of the run's own has them beside the paper's models."""
    analyzed, diagrams = bool(analyzed_models(config)), bool(diagram_models(config))
    with_lora = {place.model for place in _beside_lora(config, places)}

    def label(model: str) -> str:
        return config.models[model].label if model in config.models else model

    yield figure(
        "overview",
        "overview:build",
        "fig:overview",
        title="Overview",
        rows=_overview,
        caption="A session of four problems, Native and STAIR at T4, and accuracy. (a) T4 follows three earlier problems. "
        "(b) Native reads their history. (c) STAIR also reads a separate bank of attention keys and values, while it "
        "processes the current prompt. (d) Avg@4: Vanilla at T1, the others over T2--T4.",
    )
    if analyzed:
        yield figure(
            "historical_computation",
            "historical_computation:build",
            paper_labels.HISTORICAL_COMPUTATION,
            title="Computation from earlier problems",
            rows=_transitions,
            files=_replay("attention", "geometry"),
            caption="Computation from earlier problems in replayed histories. (A) The crossed design. (B) Attention mass "
            "on earlier assistant responses, and the displacement of the current problem's state, by layer. (C) Overlap "
            "of nearest problems across histories, with the shuffled control. (D) Native answers that change against "
            "Vanilla.",
        )
    yield table(
        "history_correctness_summary",
        "history:pooled",
        paper_labels.POOLED,
        title="Accuracy by the correctness of T1, pooled",
        rows=_mathematical,
        style={"separation": 3},
    )
    if diagrams:
        yield figure(
            "method",
            "method:build",
            "fig:method",
            title="STAIR in a controlled block",
            files=_controllers,
            caption="STAIR in a controlled block. (a) The difference of two bank reads passes through the frozen output "
            "path and is added to the native attention output. (b) The reads differ in the query alone: as it is, and "
            "reflected along a learned direction.",
            reported=False,
        )
    yield table(
        "continuous_summary",
        "accuracy:summary",
        "tab:continuous-summary",
        title="Continuous evaluation",
        rows=_main,
        style={**_PLAIN, "separation": 3, "stretch": 1.12},
    )
    yield table(
        "shared_t1",
        "shared_t1:build",
        paper_labels.SHARED_T1,
        title="Controls with a shared T1 history",
        rows=_beside_native,
        study=SHARED_T1,
        style={**_PLAIN, "separation": 7, "stretch": 1.12},
    )
    if with_lora:
        yield table(
            "lora_comparison",
            "accuracy:lora_comparison",
            "tab:lora-comparison",
            title="LoRA and joint training",
            rows=_beside_lora,
            style={**_PLAIN, "separation": 6, "stretch": 1.12},
        )
    if config.replay is not None:
        yield table(
            "replay_design",
            "replay_design:build",
            "tab:replay-design",
            title="Design of the replay",
            files=_designs,
            style=_PLAIN,
        )
    if analyzed:
        yield figure(
            "attention",
            "attention:build",
            "fig:appendix-attention",
            title="Attention by source and layer",
            files=_replay("attention"),
            caption="Attention mass by source category and layer, in the design with three-turn histories and problem "
            "coverage.",
        )
        yield figure(
            "neighborhood",
            "neighborhood:build",
            paper_labels.NEIGHBORHOOD,
            title="Overlap of neighborhoods",
            files=_replay("geometry"),
            caption="Overlap of neighborhoods across histories by their size, in original and in whitened coordinates, "
            "with the shuffled control.",
        )
    yield table(
        "native_accuracy",
        "history:transitions",
        "tab:native-accuracy",
        title="Answers that history changes",
        rows=_transitions,
        style=_PLAIN,
    )
    for model in models:
        yield table(
            f"history_{model}",
            "history:history",
            paper_labels.HISTORY_TABLES.get(model, f"tab:history-{model}"),
            title=f"{label(model)} by the correctness of T1",
            rows=_main_of(model),
            model=model,
            style={**_SPACED, "separation": 6},
        )
    if analyzed:
        yield figure(
            "read_prediction",
            "read_prediction:build",
            paper_labels.READ_PREDICTION,
            title="Historical reads as predictors",
            files=_replay("read_prediction"),
            caption="Historical reads as predictors of the next MLP. (A) Incremental R2 of the earlier-assistant read, by "
            "layer. (B) Additions of equal width at the first measured layer.",
        )
    if diagrams:
        yield figure(
            "training_scope",
            "training_scope:build",
            "fig:method-training",
            title="Training",
            files=_controllers_and_curves,
            caption="Training. (a) The read acts on the current prompt; the loss of the response reaches it through the "
            "prompt. (b) T1 provides history, T2--T4 are supervised; each bank contains the turns before.",
            reported=False,
        )
        yield table(
            "controller_configuration",
            "controller_configuration:build",
            "tab:controller-configuration",
            title="Controllers",
            files=_controllers,
            style=_PLAIN,
        )
    if config.conditions:
        yield table(
            "evaluation_decoding",
            "evaluation_decoding:build",
            "tab:evaluation-decoding",
            title="Decoding settings",
            style=_PLAIN,
        )
    yield table(
        "bank_prefix_accuracy",
        "shared_t1:build_prefixes",
        paper_labels.BANK_PREFIXES,
        title="Bank prefixes",
        rows=_prefixes,
        study=SHARED_T1,
        style={**_SPACED, "separation": 8},
    )
    if config.runtime is not None:
        yield table(
            "bank_runtime",
            "bank_runtime:build",
            paper_labels.BANK_RUNTIME,
            title="Runtime by bank prefix",
            files=_measured_runtime,
            style={**_PLAIN, "separation": 4, "stretch": 1.1},
        )
    lora_turns = table(
        "lora_turns",
        "accuracy:lora_turns",
        "tab:lora-turns",
        title="LoRA and joint training by turn",
        rows=_beside_lora,
        style={**_SPACED, "separation": 2},
    )
    for model in models:
        yield table(
            f"turns_{model}",
            "accuracy:turns",
            paper_labels.TURNS_TABLES.get(model, f"tab:turns-{model}"),
            title=f"{label(model)} by turn",
            rows=_main_of(model),
            model=model,
            style={**_SPACED, "separation": 2},
        )
        # After the first model that has LoRA, as in the paper.
        if model in with_lora and not with_lora & {*models[: models.index(model)]}:
            yield lora_turns


def _further(config: Config) -> Iterator[Exhibit]:
    """The tables and figures that the paper does not have."""
    yield table("intervals", "uncertainty:intervals", title="Confidence intervals", rows=everything, style=_SMALL)
    yield table(
        "comparisons", "uncertainty:comparisons", title="Comparisons of conditions", rows=everything, style=_SMALL
    )
    yield table(
        "shared_t1_intervals",
        "uncertainty:shared_t1_intervals",
        title="Confidence intervals with a shared T1 history",
        rows=_beside_native,
        study=SHARED_T1,
        style=_SMALL,
    )
    yield table(
        "shared_t1_comparisons",
        "uncertainty:shared_t1_comparisons",
        title="Comparisons with a shared T1 history",
        rows=_beside_native,
        study="shared_t1",
        style=_SMALL,
    )
    yield table("in_text", "in_text:build", title="Numbers of the text", files=_text, style={**_SPACED, "size": "tiny"})
    trained = {model for key in config.controllers for model in config.trained(key)}
    for model in (model for model in config.models if model in trained):
        yield figure(
            f"training_{model}",
            "training:build",
            "fig:training",
            title=f"Training curves of {config.models[model].label}",
            files=_curves(model),
            model=model,
            caption=f"Training curves of {config.models[model].label}: the objective, and its change on validation sessions.",
            reported=False,
        )


# ---------------------------------------------------------------- which scored rows


def evaluated_places(config: Config, study: str = EVALUATION) -> list[Place]:
    """Every place that a study evaluates, in the order of the configuration, with the condition's name in the study."""
    pairs = {name: config.evaluated(condition_key(study, name)) for name in config.conditions_of(study)}
    return [
        Place(model, benchmark, condition)
        for model in config.models
        for benchmark in config.benchmarks
        for condition in pairs
        if (model, benchmark) in pairs[condition]
    ]


def where(test: Callable[[Config, Place], bool]) -> Rows:
    """The places that pass a test."""
    return lambda config, places: [place for place in places if test(config, place)]


everything = where(lambda config, place: True)
_main = where(lambda config, place: place.condition in MAIN)
_mathematical = where(
    lambda config, place: (
        place.condition in MAIN
        and place.benchmark in config.benchmarks
        and config.benchmarks[place.benchmark].mathematical
    )
)
_transitions = where(
    lambda config, place: (
        place[:2] == (config.transitions.model, config.transitions.benchmark)
        and place.condition in ("vanilla", "native")
    )
)
_beside_native = where(lambda config, place: place.condition != T1)
_overview = where(lambda config, place: place.condition in MAIN and place.model in config.overview.models)
_stair = where(lambda config, place: place.condition == "stair")


@where
def _prefixes(config: Config, place: Place) -> bool:
    condition = config.conditions_of(SHARED_T1).get(place.condition)
    name = ConditionName.of_key(place.condition) if condition is None else condition.name(place.condition)
    return place.condition in ("native", "stair") or name.prefix is not None


def _beside_lora(config: Config, places: Sequence[Place]) -> list[Place]:
    pairs = {place[:2] for place in places if place.condition in ("lora", "lora_stair")}
    return [place for place in places if place[:2] in pairs and place.condition in LORA]


def _main_of(model: str) -> Rows:
    return where(lambda config, place: place.condition in MAIN and place.model == model)


def bank_lengths(config: Config) -> list[Place]:
    """Rows that know the banks of the study with a shared T1 history: STAIR's."""
    return [place.of(SHARED_T1) for place in _stair(config, evaluated_places(config, SHARED_T1))]


# ---------------------------------------------------------------- which other files


def analyzed_models(config: Config) -> list[str]:
    """The models whose measured replay is analyzed. Figures of the replay show the first one."""
    replay = config.replay
    return [] if replay is None or replay.analysis is None else list(replay.models)


def stair_controller(config: Config) -> str | None:
    """The controller that the condition `stair` reads with; None in a run without one."""
    condition = config.conditions.get("stair")
    return condition.controller if condition is not None and config.reads_bank("stair") else None


def diagram_models(config: Config) -> list[str]:
    """The models that diagrams show: those with STAIR's controller; none in a run without one."""
    controller = stair_controller(config)
    return [] if controller is None else config.trained(controller)


def _controllers(config: Config, paths: RunPaths) -> Groups:
    controller = stair_controller(config)
    assert controller is not None, "no model has a diagram then"
    folders = [paths.controller(model, controller) for model in diagram_models(config)]
    return {"controllers": [folder / "controller.safetensors" for folder in folders]}


def _controllers_and_curves(config: Config, paths: RunPaths) -> Groups:
    controllers = _controllers(config, paths)["controllers"]
    return {"controllers": controllers, "curves": [file.with_name("curve.csv") for file in controllers]}


def _curves(model: str) -> Files:
    return lambda config, paths: {"curves": list(paths.curves(config, model).values())}


def _replay(*parts: str) -> Files:
    return lambda config, paths: {
        "replay": [paths.replay_statistics(analyzed_models(config)[0], part) for part in parts]
    }


def _designs(config: Config, paths: RunPaths) -> Groups:
    models = () if config.replay is None else config.replay.models
    return {
        "design": [file for model in models for file in (paths.replay_problems(model), paths.replay_histories(model))]
    }


def _measured_runtime(config: Config, paths: RunPaths) -> Groups:
    return {"runtime": [] if config.runtime is None else [paths.runtime(model) for model in config.runtime.models]}


def _text(config: Config, paths: RunPaths) -> Groups:
    """What the numbers of the text are made from: the replay, the runtime study, training, gains and banks."""
    reported = [key for key, item in config.controllers.items() if item.kind in ("stair", "lora")]
    trained = [(model, key) for key in reported for model in config.trained(key)]
    banks = [paths.scored(*place) for place in bank_lengths(config)]
    return {
        **_designs(config, paths),
        **_measured_runtime(config, paths),
        "statistics": [
            paths.replay_statistics(model, part) for model in analyzed_models(config) for part in REPLAY_PARTS
        ],
        "cleaning": [] if config.only_measures else [paths.cleaning(model) for model in config.models],
        "controllers": [file for job in trained for file in paths.controller_files(config, *job)],
        "gains": [paths.table(GAINS_FROM)] if config.conditions else [],
        "rows": banks,
        "checks": [paths.checks] if banks else [],
    }
