"""The list of tables and figures: its order, what each is made from, and captions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper import exhibits as rows_of_exhibits
from stair.paper.exhibits import Exhibit, evaluated_places, exhibits, tables_of_rows
from stair.paper.labels import Labels
from stair.paper.latex import escaped
from stair.paper.make import build_figure, places_of
from stair.paper.paper_pdf import document
from stair.paper.report import stage as report
from stair.paper.tables import shared_t1
from stair.pipeline.inputs import RuleInputs
from stair.statistics.grid import Responses
from tests.paper.sources import ROOT, paper_config, table_of
from tests.statistics.paper_rows import rows_of_evaluation

INSTRUCT = "qwen3-4b-instruct"


@pytest.fixture(scope="module")
def config() -> Config:
    return paper_config()


def names(config: Config) -> set[str]:
    return {each.name for each in exhibits(config)}


def test_the_papers_run_has_all_in_the_papers_order(config: Config) -> None:
    every = exhibits(config)
    paper = [(each.kind, each.name) for each in every if each.in_paper]
    assert paper == [
        ("figure", "overview"),
        ("figure", "historical_computation"),
        ("table", "history_correctness_summary"),
        ("figure", "method"),
        ("table", "continuous_summary"),
        ("table", "shared_t1"),
        ("table", "lora_comparison"),
        ("table", "replay_design"),
        ("figure", "attention"),
        ("figure", "neighborhood"),
        ("table", "native_accuracy"),
        ("table", "history_qwen3-4b-instruct"),
        ("table", "history_qwen3.5-4b"),
        ("table", "history_qwen3.5-9b"),
        ("figure", "read_prediction"),
        ("figure", "training_scope"),
        ("table", "controller_configuration"),
        ("table", "evaluation_decoding"),
        ("table", "bank_prefix_accuracy"),
        ("table", "bank_runtime"),
        ("table", "turns_qwen3-4b-instruct"),
        ("table", "lora_turns"),
        ("table", "turns_qwen3.5-4b"),
        ("table", "turns_qwen3.5-9b"),
    ]
    assert [each.in_paper for each in every] == sorted((each.in_paper for each in every), reverse=True)
    assert len(names(config)) == len(every)


@pytest.mark.parametrize("run", ["paper", "tiny", "smoke", "shapes"])
def test_every_row_has_a_builder_and_every_figure_a_caption_that_latex_can_set(run: str) -> None:
    for each in exhibits(resolve(ROOT, {"run": run})):
        assert callable(each.builder)
        if each.kind == "figure":
            assert each.caption.endswith(".")
            assert escaped(each.caption).isascii()


def test_a_figure_without_a_caption_is_shown_all_the_same(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = Exhibit("figure", "mine", "a:b")
    monkeypatch.setattr(rows_of_exhibits, "_further", lambda _: [mine])
    assert exhibits(config)[-1] == mine
    paths = RunPaths(tmp_path)
    for suffix in (".png", ".pdf"):
        mine.file(paths, suffix).parent.mkdir(exist_ok=True)
        mine.file(paths, suffix).touch()
    assert report._part(mine, config, paths)["caption"] == ""
    assert r"\caption{}" in document(config, paths, [mine])


def test_the_papers_rows_give_eleven_of_its_tables(config: Config) -> None:
    frame = rows_of_evaluation()
    of_evaluation = [
        each for each in tables_of_rows(config, places_of(Responses.from_frame(frame))) if each.study == "evaluation"
    ]
    made = [table_of(each.name, frame, Labels.of(config)) for each in of_evaluation if each.label]
    assert sum(table is not None for table in made) == 11


def made_from(config: Config, table: str) -> dict[str, list[Path]]:
    """The files that a table is made from, by the rule's groups."""
    return RuleInputs(config, RunPaths(Path())).table(SimpleNamespace(table=table))


def rows_of(files: dict[str, list[Path]]) -> set[str]:
    """The scored files among them."""
    return {file.relative_to("evaluation").with_suffix("").as_posix() for file in files["rows"]}


def test_a_table_is_made_from_the_rows_that_it_shows(config: Config) -> None:
    def rows(table: str) -> set[str]:
        return rows_of(made_from(config, table))

    assert rows("native_accuracy") == {f"{INSTRUCT}/math500/vanilla", f"{INSTRUCT}/math500/native"}
    lora = {f"{INSTRUCT}/aime2025/{condition}" for condition in ("native", "stair", "lora", "lora_stair")}
    assert rows("lora_turns") == rows("lora_comparison") == lora
    turns = rows(f"turns_{INSTRUCT}")
    assert len(turns) == 4 * 3 and all(name.startswith(f"{INSTRUCT}/") for name in turns)
    assert not any("gpqa" in name for name in rows("history_correctness_summary"))
    assert len(rows("intervals")) == len(evaluated_places(config))
    overview = RuleInputs(config, RunPaths(Path())).figure(SimpleNamespace(figure="overview"))
    assert len(rows_of(overview)) == len(config.overview.models) * 4 * 3


def test_tables_of_the_shared_t1_are_made_from_its_own_rows(config: Config) -> None:
    folder = Path("shared_t1/qwen3.5-4b/aime2025")
    of_study = [each.name for each in exhibits(config) if each.study == "shared_t1"]
    assert len(of_study) == 4
    for name in of_study:
        files = made_from(config, name)["rows"]
        assert {file.parent for file in files} == {folder}
        conditions = {file.stem for file in files}
        assert "t1" not in conditions
        prefixes = {"stair_prefix-2048", "stair_prefix-8192", "stair_prefix-32768"}
        if name == "bank_prefix_accuracy":
            assert conditions == {"native", "stair", *prefixes}
        else:
            assert len(conditions) == 15
    assert made_from(config, "in_text")["rows"] == [folder / "stair.parquet"]
    assert not [
        each for each in exhibits(resolve(ROOT, {"run": "paper", "controls": None})) if each.study != "evaluation"
    ]


def test_the_median_bank_is_in_the_units_of_the_text(config: Config, tmp_path: Path) -> None:
    """Of the banks of STAIR at T2; in a file of scored rows that the run's folder has."""
    paths = RunPaths(tmp_path)
    file = paths.scored("qwen3.5-4b", "aime2025", "shared_t1/stair")
    file.parent.mkdir(parents=True)
    columns = {"model": "qwen3.5-4b", "benchmark": "aime2025", "condition": "stair"}
    banks = [(1, 0), (2, 63_000), (2, 63_400), (2, 90_000), (1, 0)]
    pd.DataFrame([columns | {"turn": turn, "bank_tokens": tokens} for turn, tokens in banks]).to_parquet(file)
    (value,) = shared_t1.in_text(config, paths, Labels.of(config))
    assert (value.artifact, value.model, value.metric, value.value, value.unit) == (
        *("app:component-runtime", "qwen3.5-4b", "median bank length, shared-T1 AIME 2025"),
        *(63.4, "K tokens"),
    )


def test_a_run_without_a_part_has_no_tables_and_figures_of_it(config: Config) -> None:
    def lost(**changes: object) -> set[str]:
        return names(config) - names(resolve(ROOT, {"run": "paper", **changes}))

    assert lost(select={"conditions": ["vanilla", "native", "stair"]}) == {"lora_comparison", "lora_turns"}
    of_replay = {"historical_computation", "attention", "neighborhood", "read_prediction"}
    assert lost(replay=None) == {"replay_design", *of_replay}
    assert lost(replay={"analysis": None}) == of_replay
    diagrams = {"method", "training_scope", "controller_configuration"}
    assert diagrams <= lost(select={"conditions": ["vanilla", "native"]})
    assert names(resolve(ROOT, {"run": "shapes"})) >= {"bank_runtime", "in_text"}


def test_diagrams_are_made_from_nothing_but_controllers(config: Config) -> None:
    inputs = RuleInputs(config, RunPaths.of(config))
    for name in ("method", "training_scope"):
        files = [file for group in inputs.figure(SimpleNamespace(figure=name)).values() for file in group]
        assert {file.parent.name for file in files} == {"stair"}
        assert {file.name for file in files} <= {"controller.safetensors", "curve.csv"}
        assert len({file.parent for file in files}) == len(config.models)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [("view", r"did you mean overview\?"), ("xyz", "there are: overview, historical_computation, ")],
)
def test_a_figure_that_is_not_known_names_those_that_are(config: Config, given: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=rf"there is no figure '{given}' \({remedy}"):
        build_figure(config, RunPaths.of(config), given)
