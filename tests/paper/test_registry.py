"""The registry of tables and figures: what each says of itself is what its builder gives."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper import registry
from stair.paper.labels import Labels
from stair.paper.registry import Source
from stair.paper.stage import assembled, build_figure, places_of
from stair.paper.table_inputs import FIGURES, Place, evaluated_places, shared_t1_tables, tables, tables_of
from stair.paper.tables import shared_t1
from stair.pipeline.inputs import RuleInputs
from stair.statistics.grid import Responses
from tests.statistics.paper_rows import rows_of_evaluation

ROOT = Path(__file__).parents[2]
INSTRUCT = "qwen3-4b-instruct"


@pytest.fixture(scope="module")
def config() -> Config:
    return resolve(ROOT, {"run": "paper"})


def test_a_builder_gives_the_named_table_from_the_named_rows(config: Config) -> None:
    responses = Responses.from_frame(rows_of_evaluation())
    source, places = Source(responses, Labels.of(config), config), places_of(responses)
    built = 0
    for name, shows in tables(config, places, responses.models).items():
        table = registry.table_builder(name)(assembled(source, shows))
        if table is not None:
            built += 1
            assert table.name == name
            assert {Place(*key[:3]) for key in table.sources} <= set(shows(config, places)), name
    assert built == 13


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
    for name in shared_t1_tables(config):
        assert registry.table_builder(name)
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


def test_the_median_bank_is_in_the_units_of_the_text(config: Config, tmp_path: Path) -> None:
    """Of the banks of STAIR at T2; in a file of scored rows that the run's folder has."""
    paths = RunPaths(tmp_path)
    file = paths.shared_t1.scored("qwen3.5-4b", "aime2025", "stair")
    file.parent.mkdir(parents=True)
    columns = {"model": "qwen3.5-4b", "benchmark": "aime2025", "condition": "stair"}
    banks = [(1, 0), (2, 63_000), (2, 63_400), (2, 90_000), (1, 0)]
    pd.DataFrame([columns | {"turn": turn, "bank_tokens": tokens} for turn, tokens in banks]).to_parquet(file)
    (value,) = shared_t1.in_text(config, paths, Labels.of(config))
    assert (value.artifact, value.model, value.metric, value.value, value.unit) == (
        *("app:component-runtime", "qwen3.5-4b", "median bank length, shared-T1 AIME 2025"),
        *(63.4, "K tokens"),
    )


def test_every_figure_has_a_builder() -> None:
    assert FIGURES.keys() == registry.FIGURES.keys()


def test_a_run_without_lora_has_no_tables_of_it(config: Config) -> None:
    without = resolve(ROOT, {"run": "paper", "select": {"conditions": ["vanilla", "native", "stair"]}})
    assert tables_of(config).keys() - tables_of(without).keys() == {"lora_comparison", "lora_turns"}


def test_a_figure_that_is_not_known_names_those_that_are(config: Config) -> None:
    with pytest.raises(ValueError, match=rf"there is no figure 'view' \(there are: {', '.join(FIGURES)}\)"):
        build_figure(config, RunPaths.of(config), "view")
