"""Invariants of generated rows: of one condition alone, and of the conditions of a model and benchmark together."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

from stair.config.evaluation import Condition
from stair.core import EngineIdentity
from stair.records.schemas import RESPONSES
from stair.sessions.check import Check, Row, verdict
from stair.sessions.renderer import Renderer
from stair.sessions.spans import last_position

Schedule = Mapping[str, Sequence[str]]
"""A session's problems in turn order, by session."""


Cut = Mapping[tuple[str, int], int]
"""The first missing turn of trajectories that are cut off, by (session, sample)."""


def cut_trajectories(gaps: Iterable[Mapping[str, Any]]) -> Cut:
    """The trajectories that missing responses cut off; `gaps` are a manifest's."""
    cut: dict[tuple[str, int], int] = {}
    for gap in gaps:
        place = gap["session_id"], gap["sample"]
        cut[place] = min(gap["turn"], cut.get(place, gap["turn"]))
    return cut


@dataclass(frozen=True, slots=True)
class CheckedTurn:
    """The part of a response row that the checks keep. Its ids and texts, gigabytes in a whole condition, are read once."""

    condition: str
    session_id: str
    turn: int
    sample: int
    problem_id: str
    seed: int
    finish_reason: str
    response_tokens: int
    ids: int
    """The number of its ids."""
    first_ids: bytes | None
    """SHA-256 of the ids of a T1, by which conditions share it; None at later turns."""
    ends_thinking: bool
    """Whether the text contains `</think>`."""
    history_retokenised: bool
    captured_tokens: int | None
    bank_tokens: int | None
    controlled_tokens: int
    readout_norm: float
    prompt_ids_sha256: str
    bank_sha256: str | None
    engine: EngineIdentity

    @classmethod
    def of(cls, row: Row) -> CheckedTurn:
        ids = row["response_ids"]
        return cls(
            **{name: row[name] for name in _KEPT},
            ids=len(ids),
            first_ids=sha256(array("i", ids).tobytes()).digest() if row["turn"] == 1 else None,
            ends_thinking="</think>" in row["response"],
            engine=EngineIdentity.of_row(row),
        )

    def __str__(self) -> str:
        return f"{self.condition} {self.session_id} turn {self.turn} sample {self.sample}"


_KEPT = tuple(field.name for field in fields(CheckedTurn) if field.name in RESPONSES.names and field.name != "engine")


def condition_checks(
    rows: Sequence[CheckedTurn],
    settings: Condition,
    schedule: Schedule,
    samples: int,
    scope: str,
    *,
    reads: bool,
    acts: bool | None = None,
    cut: Cut | None = None,
) -> list[Check]:
    """The invariants of the rows of one condition.

    `reads`: whether its controller reads a bank. `acts`: whether it acts during prefill (None: as `reads`). `cut`: the
    trajectories that missing responses cut off.
    """
    acts = reads if acts is None else acts
    lacking = len(schedule) * settings.turns * samples - len(rows)
    whole = verdict(
        "every turn of every trajectory once",
        scope,
        len(rows),
        _grid(rows, settings, schedule, samples, cut or {}),
        f"{lacking} missing, as the manifest says" if lacking else "",
    )
    named: dict[str, Callable[[], Iterator[str]]] = {
        "problems follow the schedule": lambda: _follows(rows, schedule),
        "token counts agree with the ids": lambda: _counts(rows),
        "bank tokens equal the sum of captured spans": lambda: _bank(rows, reads),
        "the bank is read after T1 and nowhere else": lambda: _read(rows, settings, acts),
    }
    return [whole, *(verdict(name, scope, len(rows), offenders()) for name, offenders in named.items())]


CAPTURED = "captured spans end where the answers say"


def capture_check(offenders: Sequence[str], rows: int, scope: str) -> Check:
    """The outcome of `wrongly_captured` over all rows of a condition."""
    return verdict(CAPTURED, scope, rows, offenders)


def wrongly_captured(
    turn: CheckedTurn, ids: Sequence[int], renderer: Renderer, turns: int, *, reads: bool
) -> Iterator[str]:
    """Yields a violation if a turn gave the bank other states than appendix B.1 names, or should have given none.

    Counted from its `ids`, independently of the code that captures.
    """
    expected = None
    if reads and turn.turn < turns:
        body = renderer.body_ids(ids)
        marker = None if renderer.end_of_thinking is None else last_position(body, renderer.end_of_thinking)
        # Without a marker, what has been processed: the token drawn last has no state.
        expected = min(len(body), max(len(ids) - 1, 0)) if marker is None else marker
    if turn.captured_tokens != expected:
        yield f"{turn} says {turn.captured_tokens} captured tokens, its ids give {expected}"


def shares(rows: Sequence[CheckedTurn], thinking: bool, scope: str) -> list[Check]:
    """How often responses take an unusual path: reported, never a failure."""
    later = [row for row in rows if row.turn > 1]
    checks = [
        _share("share of re-tokenised histories", scope, [row.history_retokenised for row in later]),
        _share("share of responses at the output limit", scope, [row.finish_reason == "length" for row in rows]),
        _share("share of responses with no room left", scope, [row.finish_reason == "context" for row in rows]),
    ]
    if thinking:
        open_ended = [not row.ends_thinking for row in rows]
        checks.append(_share("share of responses without </think>", scope, open_ended))
    return [check for check in checks if check.rows]


def _share(name: str, scope: str, outcomes: Sequence[bool]) -> Check:
    detail = f"{sum(outcomes)} of {len(outcomes)} ({sum(outcomes) / len(outcomes):.1%})" if outcomes else ""
    return Check(name, scope, True, len(outcomes), detail)


ONE_ENGINE = "one engine for the comparison"
MIXED = "mixed, as evaluation.allow_mixed_engines allows: "
"""The beginning of that check's detail if unequal engines are allowed."""


def group_checks(
    rows: Mapping[str, Sequence[CheckedTurn]],
    conditions: Mapping[str, Condition],
    scope: str,
    *,
    allow_mixed: bool = False,
) -> list[Check]:
    """The invariants of all conditions of one model and benchmark together."""
    everything = [row for of_condition in rows.values() for row in of_condition]
    return [
        verdict("T1 responses are shared", scope, len(everything), _shared_first_turns(rows, conditions)),
        verdict("one seed for a problem and sample", scope, len(everything), _seeds(everything)),
        _one_engine(everything, scope, allow_mixed),
    ]


def shared_t1_checks(
    rows: Mapping[str, Sequence[CheckedTurn]], layers: Mapping[str, tuple[int, ...]], scope: str
) -> list[Check]:
    """The invariants of conditions that share one T1 history at T2, beside `group_checks`.

    `layers`: the controlled layers of the conditions that read the bank, whose states a digest covers.
    """
    second = [row for of_condition in rows.values() for row in of_condition if row.turn == 2]
    reading = [row for row in second if row.condition in layers]
    return [
        verdict("T2 prompts are equal", scope, len(second), _unequal(second, lambda row: ("", row.prompt_ids_sha256))),
        verdict(
            "banks are equal",
            scope,
            len(reading),
            _unequal(reading, lambda row: (str(layers[row.condition]), row.bank_sha256)),
        ),
    ]


def _unequal(rows: Sequence[CheckedTurn], digest: Callable[[CheckedTurn], tuple[str, str | None]]) -> Iterator[str]:
    """Rows of one session, sample and kind (the first part of `digest`) whose digests (the second) differ."""
    first: dict[tuple[str, int, str], CheckedTurn] = {}
    for row in rows:
        kind, ours = digest(row)
        other = first.setdefault((row.session_id, row.sample, kind), row)
        if ours is None or ours != digest(other)[1]:
            yield f"{row} has the digest {ours}, {other} has {digest(other)[1]}"


def _one_engine(rows: Sequence[CheckedTurn], scope: str, allow_mixed: bool) -> Check:
    check = verdict(ONE_ENGINE, scope, len(rows), _engines(rows))
    if check.passed or not allow_mixed:
        return check
    names = dict.fromkeys(str(row.engine) for row in rows)
    return Check(ONE_ENGINE, scope, True, len(rows), MIXED + "; ".join(names))


def _grid(
    rows: Sequence[CheckedTurn], settings: Condition, schedule: Schedule, samples: int, cut: Cut
) -> Iterator[str]:
    counts = Counter((row.session_id, row.turn, row.sample) for row in rows)
    for session in schedule:
        for turn in range(1, settings.turns + 1):
            for sample in range(samples):
                if (count := counts.pop((session, turn, sample), 0)) == 1:
                    continue
                if not count and cut.get((session, sample), settings.turns + 1) <= turn:
                    # A trajectory that was cut has nothing behind the cut.
                    later = [t for t in range(turn + 1, settings.turns + 1) if counts[session, t, sample]]
                    if later:
                        yield f"{session} turn {later[0]} sample {sample} stands behind a missing turn"
                    continue
                yield f"{session} turn {turn} sample {sample} stands {count} times"
    yield from (f"{session} turn {turn} sample {sample} is not in the schedule" for session, turn, sample in counts)


def _follows(rows: Sequence[CheckedTurn], schedule: Schedule) -> Iterator[str]:
    for row in rows:
        problems = schedule.get(row.session_id, ())
        if not 1 <= row.turn <= len(problems) or problems[row.turn - 1] != row.problem_id:
            yield f"{row} answers {row.problem_id}"


def _counts(rows: Sequence[CheckedTurn]) -> Iterator[str]:
    for row in rows:
        if row.response_tokens != row.ids:
            yield f"{row} has {row.ids} ids and says {row.response_tokens}"


def _bank(rows: Sequence[CheckedTurn], reads: bool) -> Iterator[str]:
    trajectories: dict[tuple[str, int], list[CheckedTurn]] = defaultdict(list)
    for row in rows:
        trajectories[row.session_id, row.sample].append(row)
    for turns in trajectories.values():
        stored = 0
        for row in sorted(turns, key=lambda row: row.turn):
            expected = stored if reads else None
            if row.bank_tokens != expected:
                yield f"{row} says {row.bank_tokens} bank tokens, its history gives {expected}"
            stored += row.captured_tokens or 0


def _read(rows: Sequence[CheckedTurn], settings: Condition, acts: bool) -> Iterator[str]:
    for row in rows:
        # Where the context had no room left, the prompt was never processed.
        asked = row.finish_reason != "context" or row.response_tokens > 0
        reads = acts and row.turn > 1 and asked
        controlled, norm = row.controlled_tokens, row.readout_norm
        if reads and controlled <= 0:
            yield f"{row} has no controlled token"
        if not reads and (controlled or norm):
            yield f"{row} has {controlled} controlled tokens and the readout norm {norm}, where nothing is read"
        # An empty bank (every earlier answer ended at once) has nothing to read, and of one entry both reads are the same.
        single = 1 in (row.bank_tokens, settings.prefix)
        sound = norm == 0.0 if settings.variant == "zero" else 0 < norm < float("inf") or (norm == 0.0 and single)
        # Bank-free keeps no bank: None, not 0.
        if reads and row.bank_tokens != 0 and not sound:
            yield f"{row} has the readout norm {norm}"


def _shared_first_turns(
    rows: Mapping[str, Sequence[CheckedTurn]], conditions: Mapping[str, Condition]
) -> Iterator[str]:
    for condition, of_condition in rows.items():
        source = conditions[condition].first_turn
        if source is None:
            continue
        saved = {(row.problem_id, row.sample): row.first_ids for row in rows[source]}
        for row in of_condition:
            if row.turn == 1 and row.first_ids != saved.get((row.problem_id, row.sample)):
                yield f"{row} differs from {source}"


def _seeds(rows: Sequence[CheckedTurn]) -> Iterator[str]:
    seeds: dict[tuple[str, int], int] = {}
    for row in rows:
        first = seeds.setdefault((row.problem_id, row.sample), row.seed)
        if row.seed != first:
            yield f"{row} has seed {row.seed}, others of {row.problem_id} have {first}"


def _engines(rows: Sequence[CheckedTurn]) -> Iterator[str]:
    for row in rows:
        if row.engine != rows[0].engine:
            yield f"{row} was made by {row.engine}, others by {rows[0].engine}"
