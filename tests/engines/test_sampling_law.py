"""The sampling law as written, and the batched sampler held to it (docs/protocol.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor
from transformers.generation import logits_process as theirs

from stair.engines import sampling
from stair.engines.base import SamplingSettings
from stair.engines.noise import gumbel
from stair.engines.sampling import UNSOUND, BatchSampler, token_probabilities

CPU = torch.device("cpu")
SIZE = 12

SETTINGS = {
    "plain": SamplingSettings(),
    "cold": SamplingSettings(temperature=0.3),
    "hot": SamplingSettings(temperature=2.0),
    "top_k": SamplingSettings(top_k=4),
    "top_p": SamplingSettings(top_p=0.7),
    "min_p": SamplingSettings(min_p=0.2),
    "presence": SamplingSettings(presence_penalty=1.5),
    "repetition": SamplingSettings(repetition_penalty=1.7),
    "instruct": SamplingSettings(temperature=0.7, top_p=0.8, top_k=5),
    "thinking": SamplingSettings(temperature=1.0, top_p=0.95, top_k=6, presence_penalty=1.5),
    "joint": SamplingSettings(temperature=1.0, top_p=0.6, top_k=6, truncation="joint"),
    "everything": SamplingSettings(0.8, 0.85, 7, 0.05, 0.9, 1.2, "sequential"),
    "everything, joint": SamplingSettings(0.8, 0.85, 7, 0.05, 0.9, 1.2, "joint"),
}
each_setting = pytest.mark.parametrize("law", SETTINGS.values(), ids=SETTINGS.keys())


def random_logits(rows: int, size: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, size, generator=torch.Generator().manual_seed(seed)) * 1.5


def forced(size: int, ids: Tensor) -> Tensor:
    """Logits that leave one token of each row."""
    return torch.full((len(ids), size), -torch.inf).scatter(1, ids[:, None], 0.0)


def drawn_by_the_law(logits: Tensor, generated: list[int], prompt: list[int], law: SamplingSettings, seed: int) -> int:
    """argmax of log-probability plus noise, over the whole vocabulary and one row alone."""
    probabilities = token_probabilities(logits, generated, prompt, law)
    noise = gumbel(torch.tensor([seed]), torch.tensor([len(generated)]), torch.arange(len(logits))[None])[0]
    return int((probabilities.log() + noise).argmax())


@each_setting
def test_frequencies_follow_the_law(law: SamplingSettings) -> None:
    """5,000 responses with seeds of their own, second token: the first was forced, and so penalised."""
    rows = 5_000
    sampler = BatchSampler(rows, SIZE, SIZE, CPU)
    for row in range(rows):
        sampler.start(row, [3, 4], law, seed=1_000_003 * row + 7)
    sampler.draw(forced(SIZE, torch.full((rows,), 5)))
    logits = random_logits(1, SIZE, seed=3)
    counts = torch.bincount(sampler.draw(logits.expand(rows, SIZE)), minlength=SIZE).numpy()
    expected = token_probabilities(logits[0], [5], [3, 4], law).numpy() * rows
    possible = expected > 0
    assert counts[~possible].sum() == 0
    # The numbers are a function of the seeds, so this is no matter of luck once it has passed.
    assert possible.sum() == 1 or chisquare(counts[possible], expected[possible]).pvalue > 1e-3


def test_every_row_of_a_mixed_batch_draws_by_its_own_law() -> None:
    """Eight steps of a batch with all settings at once, token by token as the law draws them."""
    laws = [law for law in SETTINGS.values() for _ in range(6)] + [SamplingSettings(temperature=0.0)]
    size, prompt = 40, [1, 2, 30]
    sampler = BatchSampler(len(laws), size, size, CPU)
    for row, law in enumerate(laws):
        sampler.start(row, prompt, law, seed=row + 1)
    generated: list[list[int]] = [[] for _ in laws]
    for step in range(8):
        logits = random_logits(len(laws), size, seed=step)
        drawn = sampler.draw(logits).tolist()
        for row, law in enumerate(laws):
            assert drawn[row] == drawn_by_the_law(logits[row], generated[row], prompt, law, row + 1), (row, step)
            generated[row].append(drawn[row])
    assert len({tuple(ids) for ids in generated}) > len(laws) / 2


def test_a_rows_draws_do_not_depend_on_the_rest_of_the_batch() -> None:
    logits = random_logits(16, 64)
    laws = list(SETTINGS.values())

    def draws(order: list[int], neighbours: SamplingSettings) -> dict[int, list[int]]:
        sampler = BatchSampler(16, 64, 64, CPU)
        for row in range(16):
            sampler.start(row, [], neighbours, seed=999 - row)
        for row, item in enumerate(order):
            sampler.start(row, [item], laws[item % len(laws)], seed=item)
        found: dict[int, list[int]] = {item: [] for item in order}
        for _ in range(4):
            batch = torch.cat([logits[order], logits[: 16 - len(order)]])
            for row, token in enumerate(sampler.draw(batch).tolist()[: len(order)]):
                found[order[row]].append(token)
        return found

    everything = draws(list(range(16)), SamplingSettings())
    assert draws(list(reversed(range(16))), SamplingSettings()) == everything
    for item in range(16):
        assert draws([item], SamplingSettings(top_k=3))[item] == everything[item]


def test_rows_that_hold_no_response_cost_no_sort_of_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def noise(seeds: Tensor, steps: Tensor, ids: Tensor) -> Tensor:
        sizes.append(ids.shape[1])
        return gumbel(seeds, steps, ids)

    monkeypatch.setattr(sampling, "gumbel", noise)
    sampler, logits = BatchSampler(4, 64, 64, CPU), random_logits(4, 64)
    sampler.start(2, [], SamplingSettings(top_k=5), seed=3)
    sampler.draw(logits)
    sampler.start(0, [], SamplingSettings(), seed=4)
    sampler.draw(logits)
    assert sizes == [5, 64]


def test_a_refilled_row_begins_anew() -> None:
    law = SamplingSettings(presence_penalty=50.0, repetition_penalty=1.3)
    used, fresh = (BatchSampler(1, SIZE, SIZE, CPU) for _ in range(2))
    used.start(0, [1, 2], law, seed=4)
    for step in range(5):
        used.draw(random_logits(1, SIZE, seed=step))
    for sampler in (used, fresh):
        sampler.start(0, [3], law, seed=9)
    for step in range(5):
        logits = random_logits(1, SIZE, seed=10 + step)
        assert used.draw(logits) == fresh.draw(logits)


def probabilities(values: list[float], law: SamplingSettings) -> list[float]:
    found = token_probabilities(torch.tensor(values).log(), [], [], law)
    return [round(value, 4) for value in found.tolist()]


def test_sequential_and_joint_truncation_differ_where_they_should() -> None:
    values = [0.4, 0.3, 0.2, 0.1]
    law = SamplingSettings(top_k=2, top_p=0.5)
    # After the top two are renormalised to 4/7 and 3/7 the first alone reaches one half; of the whole it does not.
    assert probabilities(values, law) == [1.0, 0.0, 0.0, 0.0]
    assert probabilities(values, replace(law, truncation="joint")) == [0.5714, 0.4286, 0.0, 0.0]
    for only in (SamplingSettings(top_k=3), SamplingSettings(top_p=0.65)):
        assert probabilities(values, only) == probabilities(values, replace(only, truncation="joint"))


def test_top_p_keeps_the_token_that_crosses_the_mass() -> None:
    assert probabilities([0.5, 0.3, 0.2], SamplingSettings(top_p=0.6)) == [0.625, 0.375, 0.0]
    assert probabilities([0.5, 0.3, 0.2], SamplingSettings(top_p=1e-9)) == [1.0, 0.0, 0.0]
    assert probabilities([0.5, 0.3, 0.2], SamplingSettings(top_p=1.0)) == [0.5, 0.3, 0.2]


def test_top_p_keeps_no_token_after_its_mass_is_met_exactly() -> None:
    """Of four equal candidates each has exactly a quarter, so two have the mass of one half."""
    law = SamplingSettings(top_k=4, top_p=0.5)
    assert probabilities([0.2] * 5, law) == [0.5, 0.5, 0.0, 0.0, 0.0]
    sampler = BatchSampler(200, 5, 5, CPU)
    for row in range(200):
        sampler.start(row, [], law, seed=row)
    assert set(sampler.draw(torch.zeros(200, 5)).tolist()) == {0, 1}


def test_min_p_is_a_share_of_the_most_probable() -> None:
    assert probabilities([0.5, 0.3, 0.2], SamplingSettings(min_p=0.5)) == [0.625, 0.375, 0.0]


def test_ties_are_ordered_by_id() -> None:
    assert probabilities([0.25] * 4, SamplingSettings(top_k=2)) == [0.5, 0.5, 0.0, 0.0]
    sampler = BatchSampler(200, 8, 8, CPU)
    for row in range(200):
        sampler.start(row, [], SamplingSettings(top_k=3), seed=row)
    assert set(sampler.draw(torch.zeros(200, 8)).tolist()) == {0, 1, 2}


@pytest.mark.parametrize("law", [SamplingSettings(top_k=5), SamplingSettings(0.7, 0.8, 20), SETTINGS["thinking"]])
def test_ties_of_bf16_at_the_edge_of_top_k_are_broken_by_the_law(law: SamplingSettings) -> None:
    """Near 20, logits in BF16 are multiples of 0.125: behind three greater ones, dozens of ids have one value."""
    rows, size = 40, 600
    logits = (random_logits(rows, size, seed=5) * 0.1 + 20.0).clamp(max=20.125).bfloat16()
    logits[:, 7::200] = 20.5
    ties = [int((row == row.float().topk(law.top_k).values[-1]).sum()) for row in logits]
    assert min(ties) > law.top_k + 8
    sampler = BatchSampler(rows, size, size, CPU)
    for row in range(rows):
        sampler.start(row, [], law, seed=row + 1)
    drawn = sampler.draw(logits).tolist()
    assert drawn == [drawn_by_the_law(logits[row], [], [], law, row + 1) for row in range(rows)]


def test_the_candidates_are_those_of_a_stable_sort() -> None:
    """Ties everywhere, both zeros, ids that are ruled out."""
    scores = torch.randint(-3, 4, (50, 97), generator=torch.Generator().manual_seed(2)).float()
    scores[:, 60:] = -torch.inf
    scores[scores == 0.0] *= -1.0
    scores[:, ::2] += 0.0
    for count in (1, 5, 59, 80, 97):
        expected = torch.sort(scores, dim=-1, descending=True, stable=True).indices[:, :count]
        assert torch.equal(sampling._top(scores, count), expected)


def test_the_presence_penalty_counts_generated_tokens_once_and_prompt_tokens_never() -> None:
    logits, law = random_logits(1, SIZE)[0], SamplingSettings(presence_penalty=1.5)
    plain = token_probabilities(logits, [], [], SamplingSettings())
    assert torch.equal(token_probabilities(logits, [], [2, 3], law), plain)
    lower = logits.clone()
    lower[[4, 7]] -= 1.5
    expected = token_probabilities(lower, [], [], SamplingSettings())
    assert torch.allclose(token_probabilities(logits, [4, 7, 4, 4], [2], law), expected)
    sampler = BatchSampler(1, SIZE, SIZE, CPU)
    sampler.start(0, list(range(SIZE)), replace(law, presence_penalty=1e4), seed=0)
    found = [int(sampler.draw(torch.zeros(1, SIZE))) for _ in range(SIZE)]
    assert sorted(found) == list(range(SIZE)), "no token comes twice while there are others"


def test_the_repetition_penalty_counts_prompt_and_response() -> None:
    logits = torch.tensor([2.0, -2.0, 1.0, 0.5])
    law = SamplingSettings(repetition_penalty=2.0)
    expected = token_probabilities(torch.tensor([1.0, -4.0, 1.0, 0.5]), [], [], SamplingSettings())
    assert torch.allclose(token_probabilities(logits, [0], [1], law), expected)


def test_temperature_zero_takes_the_first_greatest_logit_after_the_penalties() -> None:
    law = SamplingSettings(temperature=0.0, presence_penalty=3.0, top_k=2)
    logits = torch.tensor([[1.0, 5.0, 5.0, 4.0]]).repeat(50, 1)
    sampler = BatchSampler(50, 4, 4, CPU)
    for row in range(50):
        sampler.start(row, [], law, seed=row)
    # 1, then 2 (the first has lost 3), then 3 at 4.0.
    for token in (1, 2, 3):
        assert set(sampler.draw(logits).tolist()) == {token}
    assert token_probabilities(logits[0], [1], [], law).tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("law", [SamplingSettings(temperature=0.0), SamplingSettings(top_k=5), SamplingSettings(1.5)])
def test_ids_beyond_the_tokenizer_are_never_drawn(law: SamplingSettings) -> None:
    sampler = BatchSampler(300, 16, 10, CPU)
    for row in range(300):
        sampler.start(row, [], law, seed=row)
    logits = random_logits(300, 16)
    logits[:, 10:] += 50.0
    before = logits.clone()
    for _ in range(3):
        assert int(sampler.draw(logits).max()) < 10
    assert torch.equal(logits, before), "the caller's logits stay as they are"
    assert token_probabilities(logits[0], [], [], law, vocabulary=10)[10:].sum() == 0


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nan_and_infinity_give_no_token_and_leave_other_rows_alone(value: float) -> None:
    samplers = [BatchSampler(3, SIZE, SIZE, CPU) for _ in range(2)]
    logits = random_logits(3, SIZE)
    damaged = logits.clone()
    damaged[[0, 2], 4] = value
    expected, found = (sampler.draw(each).tolist() for sampler, each in zip(samplers, (logits, damaged), strict=True))
    assert found == [UNSOUND, expected[1], UNSOUND]


def test_low_precision_logits_are_taken_in_single_precision() -> None:
    logits = random_logits(1, SIZE).bfloat16()
    law = SamplingSettings(temperature=0.7)
    assert torch.equal(token_probabilities(logits[0], [], [], law), token_probabilities(logits[0].float(), [], [], law))


laws = st.builds(
    SamplingSettings,
    temperature=st.floats(0.05, 4),
    top_p=st.floats(0.01, 1),
    top_k=st.integers(0, 15),
    min_p=st.floats(0, 0.9),
    presence_penalty=st.floats(-2, 2),
    repetition_penalty=st.floats(0.5, 2),
    truncation=st.sampled_from(["sequential", "joint"]),
)


@settings(max_examples=150, deadline=None)
@given(law=laws, seed=st.integers(0, 2**62), generated=st.lists(st.integers(0, 11), max_size=5))
def test_the_law_gives_a_distribution_and_the_sampler_draws_from_it(
    law: SamplingSettings, seed: int, generated: list[int]
) -> None:
    logits = random_logits(1, SIZE, seed=seed % 1000)
    found = token_probabilities(logits[0], generated, [0], law)
    assert found.dtype == torch.float64
    assert float(found.sum()) == pytest.approx(1.0)
    assert law.top_k == 0 or int((found > 0).sum()) <= law.top_k
    sampler = BatchSampler(1, SIZE, SIZE, CPU)
    sampler.start(0, [0], law, seed)
    for token in generated:
        sampler.draw(forced(SIZE, torch.tensor([token])))
    assert int(sampler.draw(logits)) == drawn_by_the_law(logits[0], generated, [0], law, seed)


@settings(max_examples=60, deadline=None)
@given(law=laws, seed=st.integers(0, 1000), seen=st.lists(st.integers(0, 11), min_size=1, max_size=5))
def test_sequential_truncation_is_that_of_transformers(law: SamplingSettings, seed: int, seen: list[int]) -> None:
    """Against Transformers' own processors, which know no presence penalty."""
    law = replace(law, presence_penalty=0.0, truncation="sequential")
    logits, ids = random_logits(1, SIZE, seed), torch.tensor([seen])
    scores = theirs.RepetitionPenaltyLogitsProcessor(law.repetition_penalty)(ids, logits.clone())
    scores = theirs.TemperatureLogitsWarper(law.temperature)(ids, scores)
    if law.top_k:
        scores = theirs.TopKLogitsWarper(law.top_k)(ids, scores)
    if law.top_p < 1:
        scores = theirs.TopPLogitsWarper(law.top_p)(ids, scores)
    scores = theirs.MinPLogitsWarper(law.min_p)(ids, scores)
    expected = scores.double().softmax(-1)[0]
    assert torch.allclose(token_probabilities(logits[0], [], seen, law), expected, atol=2e-6)
