"""Response rows that carry the paper's own counts, so that the tables computed from them must be the paper's."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

PAPER_VALUES = Path(__file__).parents[2] / "stair/paper/paper_values.csv"
MODELS = {"Qwen3-4B-Instruct-2507": "qwen3-4b-instruct", "Qwen3.5-4B": "qwen3.5-4b", "Qwen3.5-9B": "qwen3.5-9b"}
BENCHMARKS = {"MATH-500": "math500", "AIME 2025": "aime2025", "AMC23": "amc23", "GPQA-Diamond": "gpqa_diamond"}
PROBLEMS = {"math500": 500, "aime2025": 30, "amc23": 34, "gpqa_diamond": 198}
CONDITIONS = {
    "Vanilla": "vanilla",
    "Native": "native",
    "STAIR": "stair",
    "LoRA": "lora",
    "LoRA + STAIR": "lora_stair",
    "Random-reflector": "random_reflector",
    "Direct reflected-read": "direct_read",
    "Bank-free": "bank_free",
    "K-V pairing permutation": "kv_permutation",
    "STAIR 2K": "stair_prefix-2048",
    "STAIR 8K": "stair_prefix-8192",
    "STAIR 32K": "stair_prefix-32768",
    "STAIR Full": "stair",
}
SAMPLES = 4
COLUMNS = ["model", "benchmark", "condition", "session_id", "turn", "sample", "problem_id", "seed", "correct"]

Bools = npt.NDArray[np.bool_]


def paper_values(artifact: str) -> pd.DataFrame:
    """The paper's values of the artifacts whose label matches `artifact`, with keys instead of labels."""
    table = pd.read_csv(PAPER_VALUES, dtype={"value": str}, keep_default_na=False)
    table = table[[re.fullmatch(artifact, each) is not None for each in table["artifact"]]]
    return table.replace({"model": MODELS, "benchmark": BENCHMARKS, "condition": CONDITIONS})


def grid_rows(
    model: str, benchmark: str, condition: str, turn: int, correct: Bools, sessions: npt.NDArray[np.int64]
) -> pd.DataFrame:
    """Rows of one turn: `correct` [problems, samples], `sessions` [problems]."""
    count, samples = correct.shape
    problem, sample = (each.ravel() for each in np.indices((count, samples)))
    return pd.DataFrame(
        {
            "model": model,
            "benchmark": benchmark,
            "condition": condition,
            "session_id": [f"session-{each}" for each in sessions[problem]],
            "turn": turn,
            "sample": sample,
            "problem_id": [f"problem-{each}" for each in problem],
            "seed": problem * samples + sample,
            "correct": correct.ravel(),
        },
        columns=COLUMNS,
    )


def grid_with(problems: int, correct: int, passed: int) -> Bools:
    """A grid with so many correct responses on so many problems."""
    grid = np.zeros((problems, SAMPLES), dtype=np.bool_)
    grid[:passed, 0] = True
    rest = [(row, sample) for row in range(passed) for sample in range(1, SAMPLES)][: correct - passed]
    for row, sample in rest:
        grid[row, sample] = True
    assert grid.sum() == correct
    assert grid.any(axis=1).sum() == passed
    return grid


@cache
def rows_of_evaluation() -> pd.DataFrame:
    """The whole evaluation: every table of response rows follows from these rows, with every printed count.

    Made once; nobody may change it.
    """
    lora = rows_by_turn("tab:lora-turns")
    return pd.concat([rows_of_main_conditions(), lora[lora["condition"].isin(["lora", "lora_stair"])]])


@cache
def rows_of_main_conditions() -> pd.DataFrame:
    """Vanilla, Native and STAIR of all models and benchmarks; made once, and nobody may change it.

    Correct counts by first answer, passed problems by turn, and for Qwen3-4B Instruct on MATH-500
    Native's transitions from Vanilla.
    """
    table = paper_values("tab:history-qwen.*")
    counts = {tuple(row[:6]): int(row[6]) for row in table[table["unit"] == "responses"].iloc[:, 1:].to_numpy()}
    turns = paper_values("tab:turns-.*")
    turns = turns[turns["metric"] == "Pass@4"]
    for model, benchmark, condition, turn, value in turns.iloc[:, [1, 2, 3, 4, 7]].to_numpy():
        counts[model, benchmark, condition, turn, "", "passed"] = round(float(value) / 100 * PROBLEMS[benchmark])
    frames = []
    for model in MODELS.values():
        for benchmark in BENCHMARKS.values():
            frames += _rows_of(model, benchmark, counts)
    return pd.concat(frames, ignore_index=True)


Counts = dict[tuple[str, ...], int]


def _rows_of(model: str, benchmark: str, counts: Counts) -> list[pd.DataFrame]:
    problems = PROBLEMS[benchmark]
    generator = np.random.default_rng(0)
    correct = counts[model, benchmark, "", "T2", "T1 correct", "n"]
    vanilla = grid_with(problems, correct, counts[model, benchmark, "vanilla", "T1", "", "passed"])
    vanilla = generator.permuted(vanilla[generator.permutation(problems)], axis=1)
    identity = np.arange(problems)
    frames = [
        grid_rows(model, benchmark, condition, 1, vanilla, identity) for condition in ("vanilla", "native", "stair")
    ]
    for turn in (2, 3, 4):
        target = counts[model, benchmark, "vanilla", f"T{turn}", "T1 correct", "correct"]
        session = _sessions(vanilla, target, generator)  # the session in which each problem stands at this turn
        opened_correctly = vanilla[session]
        for condition in ("native", "stair"):
            both = _both_correct(model, benchmark, condition, turn)
            # Cells of one class can exchange their correct answers, and every count by class stays.
            classes = 1 * opened_correctly + (2 * vanilla if both is not None else 0)
            correct = np.zeros_like(vanilla)
            remaining = 10**9 if both is None else both
            for group, members in (("T1 wrong", ~opened_correctly), ("T1 correct", opened_correctly)):
                count = counts[model, benchmark, condition, f"T{turn}", group, "correct"]
                remaining -= _place(correct, members, vanilla, count, remaining)
            _pass(correct, classes, counts[model, benchmark, condition, f"T{turn}", "", "passed"])
            frames.append(grid_rows(model, benchmark, condition, turn, correct, session))
    return frames


def _sessions(vanilla: Bools, target: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """A permutation under which `target` responses are right both at T1 of their session and in Vanilla.

    Swaps two problems whenever that does not lead away from the target.
    """
    session = generator.permutation(len(vanilla))
    overlap = int((vanilla & vanilla[session]).sum())
    while overlap != target:
        i, j = generator.integers(len(vanilla), size=2)
        swapped = session.copy()
        swapped[i], swapped[j] = session[j], session[i]
        changed = int((vanilla & vanilla[swapped]).sum())
        if abs(changed - target) <= abs(overlap - target):
            session, overlap = swapped, changed
    return session


def _both_correct(model: str, benchmark: str, condition: str, turn: int) -> int | None:
    """How many responses are to be right in Vanilla and in the condition; None where the paper gives no count."""
    table = paper_values("tab:native-accuracy")
    keys = {"model": model, "benchmark": benchmark, "condition": condition, "turn": f"T{turn}"}
    keys["metric"] = "correct to correct"
    match = table[np.logical_and.reduce([table[name] == key for name, key in keys.items()])]
    return int(match["value"].iloc[0]) if len(match) else None


def _place(correct: Bools, members: Bools, vanilla: Bools, count: int, both: int) -> int:
    """Makes `count` of the members correct, up to `both` of them where Vanilla is right too; returns how many."""
    shared, other = np.argwhere(members & vanilla), np.argwhere(members & ~vanilla)
    first = min(count, len(shared), both)
    first = max(first, count - len(other))
    for row, sample in [*shared[:first], *other[: count - first]]:
        correct[row, sample] = True
    return first


def _pass(correct: Bools, classes: npt.NDArray[np.int64], target: int) -> None:
    """Moves correct answers between cells of one class until `target` problems have one. Changes `correct`."""
    while (passed := int(correct.any(axis=1).sum())) != target:
        sums = correct.sum(axis=1)
        if passed < target:
            moves = ([cell] for cell in np.argwhere(correct & (sums > 1)[:, None]))
            free = ~correct & (sums == 0)[:, None]
        else:
            order = [row for row in np.argsort(sums, kind="stable") if sums[row]]
            moves = ([(row, sample) for sample in np.flatnonzero(correct[row])] for row in order)
            free = ~correct & (sums > 0)[:, None]
        for cells in moves:
            if _moved(correct, classes, cells, free):
                break
        else:
            raise AssertionError(f"no frame passes {target} problems; {passed} is the nearest")


def _moved(correct: Bools, classes: npt.NDArray[np.int64], cells: Sequence[Sequence[int]], free: Bools) -> bool:
    """Moves the cells' correct answers to free cells of other problems; False, and no change, where that is impossible."""
    room = free.copy()
    room[cells[0][0]] = False
    goals = []
    for row, sample in cells:
        candidates = np.argwhere(room & (classes == classes[row, sample]))
        if not len(candidates):
            return False
        goals.append(candidates[-1])
        room[tuple(candidates[-1])] = False
    for (row, sample), goal in zip(cells, goals, strict=True):
        correct[row, sample], correct[tuple(goal)] = False, True
    return True


def rows_by_turn(artifact: str) -> pd.DataFrame:
    """One grid for each pair of Avg@4 and Pass@4 of a single turn that the table gives."""
    table = paper_values(artifact)
    table = table[table["turn"].str.fullmatch("T[1-4]") & table["metric"].isin(["Avg@4", "Pass@4"])]
    frames = []
    for (model, benchmark, condition, turn), cells in table.groupby(
        ["model", "benchmark", "condition", "turn"], sort=False
    ):
        problems = PROBLEMS[benchmark]
        share = dict(zip(cells["metric"], cells["value"].astype(float) / 100, strict=True))
        grid = grid_with(problems, round(share["Avg@4"] * problems * SAMPLES), round(share["Pass@4"] * problems))
        frames.append(grid_rows(model, benchmark, condition, int(turn[1]), grid, pd.RangeIndex(problems).to_numpy()))
    return pd.concat(frames, ignore_index=True)


def shared_t1_rows() -> pd.DataFrame:
    """The shared-T1 study and its bank prefixes; prefixes cut as many banks as in the paper.

    Random-reflector's 37.22 and K--V pairing's 33.06 are 134 and 119 of 360 responses; 63.33 and
    61.11 are 57 and 55 of 90 problems.
    """
    rows = rows_by_turn("tab:shared-t1")
    seeded = {"random_reflector": [(44, 18), (45, 19), (45, 20)], "kv_permutation": [(39, 18), (40, 18), (40, 19)]}
    frames = [rows[~rows["condition"].isin(seeded)]]
    frames.append(rows_by_turn("tab:bank-prefix-accuracy").query("condition.str.startswith('stair_prefix')"))
    for family, counts in seeded.items():
        for seed, (correct, passed) in enumerate(counts):
            grid = grid_with(30, correct, passed)
            frames.append(grid_rows("qwen3.5-4b", "aime2025", f"{family}-{seed}", 2, grid, np.arange(30)))
    whole = pd.concat(frames, ignore_index=True)
    lengths = np.repeat([5_000, 20_000, 60_000], [120 - 114, 114 - 81, 81])
    return whole.assign(bank_tokens=[lengths[seed] for seed in whole["seed"]])


def write_rows(rows: pd.DataFrame, folder: Path) -> None:
    """Rows as files of scored rows, one a model, benchmark and condition."""
    for (model, benchmark, condition), part in rows.groupby(["model", "benchmark", "condition"], sort=False):
        (folder / model / benchmark).mkdir(parents=True, exist_ok=True)
        part.to_parquet(folder / model / benchmark / f"{condition}.parquet")
