"""Every score of rows, turn by turn."""

from __future__ import annotations

from stair.statistics.grid import Responses
from stair.statistics.metrics import MEAN, at_turn, metric_names, over_later_turns
from stair.statistics.values import Value


def turn_metrics(responses: Responses) -> list[Value]:
    """Avg@k and Pass@k of every turn that has rows, and the T2-T4 mean of conditions that have later turns."""
    values = []
    for model, benchmark in responses.pairs:
        for condition in responses.conditions(model, benchmark):
            turns = responses.turns(model, benchmark, condition)
            for turn in turns:
                for name, metric in metric_names(responses.samples).items():
                    score = at_turn(metric, responses, model, benchmark, condition, turn)
                    values.append(Value(model, benchmark, condition, f"T{turn}", "", name, score, "%"))
            if max(turns) > 1:
                for name, metric in metric_names(responses.samples).items():
                    score = over_later_turns(metric, responses, model, benchmark, condition)
                    values.append(Value(model, benchmark, condition, MEAN, "", name, score, "%"))
    return values
