"""The claims stage: the paper's claims on a run, or on a folder of scored rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths, shared_t1
from stair.paper.claims.claims_csv import claims_csv, claims_layout, read_claim_lines
from stair.paper.claims.parts import Evidence, parts_of
from stair.paper.claims.statements import read_claims
from stair.paper.claims.verdicts import Judged, judge
from stair.paper.comparison.comparison_csv import structure_line
from stair.paper.comparison.ours import read_ours
from stair.paper.comparison.run_facts import stand_ins
from stair.paper.comparison.stage import read_responses
from stair.paper.layout import Layout, markdown
from stair.paper.table_inputs import evaluated_places, reported_values
from stair.records.files import write_text


def of_run(config: Config, paths: RunPaths) -> list[Judged]:
    """Every claim on a run, from the files of its tables, figures and scored rows."""
    study, files = shared_t1(config, paths)
    rows = [paths.scored(*place) for place in evaluated_places(config)]
    shared = [files.scored(*place) for place in evaluated_places(study)]
    return of_files(config, reported_values(config, paths), rows, shared)


def of_files(config: Config, values: Iterable[Path], rows: Iterable[Path], shared: Iterable[Path]) -> list[Judged]:
    """Every claim; the arguments are those of the comparison."""
    evidence = Evidence(
        config, read_responses(config, rows)[0], read_responses(config, shared)[0], read_ours(values, config)
    )
    return [judge(claim, parts_of(claim, evidence)) for claim in read_claims()]


def layout(path: Path, config: Config) -> Layout:
    """The short table of a claims.csv."""
    return claims_layout(read_claim_lines(path), stand_ins(config), config.note)


def write(judged: Sequence[Judged], config: Config, path: Path) -> None:
    """Writes claims.csv to `path` and the short table beside it as Markdown."""
    foreign = stand_ins(config)
    write_text(path, claims_csv(judged, structure_line(foreign) if foreign else ""))
    write_text(path.with_suffix(".md"), markdown(layout(path, config)))
