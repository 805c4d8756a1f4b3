"""The token ids of a replay: saved turns and current problems, rendered as the evaluation renders them (appendix A.1)."""

from __future__ import annotations

from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import user_message
from stair.records.keys import ids_digest
from stair.records.rows import BenchmarkProblem
from stair.records.schemas import BENCHMARK, RESPONSES
from stair.records.tables import SavedRows, rows_as
from stair.sessions.renderer import Exchange, Renderer
from stair.stages.replay.design.histories import History
from stair.stages.replay.measurement.categories import CurrentTurn, Labelled, SourceTokens, label


class Prompts:
    """The prompts of one model's replay.

    Saved answers are rendered as text and encoded again, as in the evaluation; response ids never enter a prompt.
    Raises ValueError if the benchmark or the saved responses cannot be read.
    """

    def __init__(self, config: Config, paths: RunPaths, model: str, renderer: Renderer) -> None:
        assert config.replay is not None
        settings = config.replay
        prompt = config.prompts[config.benchmarks[settings.benchmark].prompt]
        self._users = {
            row.problem_id: user_message(prompt, row.problem)
            for row in rows_as(paths.benchmark(settings.benchmark), BENCHMARK, BenchmarkProblem)
        }
        path = paths.responses(model, settings.benchmark, settings.condition)
        self._rows = SavedRows(path, RESPONSES, ("session_id", "sample", "turn"))
        self._renderer = renderer
        self._turns: dict[str, CurrentTurn] = {}
        self.empty = self._label([], next(iter(self._users))).history
        """The empty history: a system prompt, where the template writes one."""

    def turn(self, problem: str) -> CurrentTurn:
        """A current problem's tokens, which are the same behind every history."""
        if problem not in self._turns:
            self._turns[problem] = self._label([], problem).turn
        return self._turns[problem]

    def sources(self, history: History) -> list[SourceTokens]:
        """A history's prefixes by depth, from one completed turn on; each begins with the one before.

        Raises:
            ValueError: a saved turn is absent, or the prompt of a saved later turn is not the prefix with that turn's problem.
        """
        exchanges: list[Exchange] = []
        prefixes = []
        for depth, problem in enumerate(history.sources, start=1):
            row = self._row(history, depth)
            if row is None or row["problem_id"] != problem:
                raise ValueError(
                    f"{self._rows.path} has no response to {problem} at turn {depth} of {history.name}; design again"
                )
            answer = self._renderer.visible_answer(row["response_ids"])
            exchanges.append(Exchange(self._users[problem], answer))
            # A history is everything before the current user header, so any problem shows it.
            prefix = self._label(exchanges, problem).history
            self._check_next(history, depth, prefix)
            prefixes.append(prefix)
        return prefixes

    def _check_next(self, history: History, depth: int, prefix: SourceTokens) -> None:
        """Holds a prefix, with the session's own next problem, to the prompt that this problem was answered from."""
        row = self._row(history, depth + 1)
        if row is None:
            return
        ids = (*prefix.ids, *self.turn(row["problem_id"]).ids)
        if ids_digest(ids) != row["prompt_ids_sha256"]:
            raise ValueError(
                f"the first {depth} turns of {history.name} with its problem {row['problem_id']} are not the prompt of turn "
                f"{depth + 1} in {self._rows.path}: the prompts, the template or the answers have changed since; make the "
                "responses again"
            )

    def _row(self, history: History, turn: int) -> dict[str, Any] | None:
        return self._rows.get((history.session, history.sample, turn))

    def _label(self, exchanges: list[Exchange], problem: str) -> Labelled:
        return label(self._renderer, exchanges, self._users[problem])
