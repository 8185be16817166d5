"""Sampler: its distributions against a plain definition, its random numbers, and logits that are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from relax.llm import Sampler

INF = math.inf


def softmax(logits):
    powers = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return powers / powers.sum()


def by_mass(order, probabilities, mass):
    """The first tokens of an order whose probabilities reach `mass`, at least one."""
    chosen, total = [], 0.0
    for index in order:
        chosen.append(index)
        total += probabilities[index]
        if total >= mass:
            break
    return chosen


def definition(logits, history=(), *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, window=64,
               repetition=1.0, presence=0.0, frequency=0.0, bias=None):  # fmt: skip
    """The filtered distribution, token by token."""
    logits = np.array(logits, np.float64)
    for index, value in (bias or {}).items():
        logits[index] += value
    recent = list(history)[-window:] if window else []
    for index in set(recent):
        logits[index] = logits[index] / repetition if logits[index] > 0 else logits[index] * repetition
        logits[index] -= presence + frequency * recent.count(index)
    kept = set(range(len(logits)))

    def ordered(key):
        return sorted(kept, key=key)

    def probabilities():
        return softmax(np.where([index in kept for index in range(len(logits))], logits, -INF))

    if top_k:
        kept = set(ordered(lambda index: (-logits[index], index))[:top_k])
    if typical_p < 1:
        p = probabilities()
        surprise = -np.log(np.where(p > 0, p, 1e-300))
        mean = (p * surprise).sum()
        kept = set(by_mass(ordered(lambda index: abs(surprise[index] - mean)), p, typical_p))
    if top_p < 1:
        kept = set(by_mass(ordered(lambda index: (-logits[index], index)), probabilities(), top_p))
    if min_p:
        p = probabilities()
        kept = {index for index in kept if p[index] >= min_p * p.max()}
    mask = np.array([index in kept for index in range(len(logits))])
    return softmax(np.where(mask, logits / temperature, -INF))


def random_logits(seed, size, scale=2.0):
    return (np.random.default_rng(seed).standard_normal(size) * scale).astype(np.float32)


SETTINGS = [
    {},
    {"temperature": 0.3},
    {"temperature": 3.0},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 10_000},
    {"top_p": 0.9},
    {"top_p": 0.999},
    {"top_p": 0.0},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"typical_p": 0.7},
    {"typical_p": 0.2},
    {"top_k": 40, "top_p": 0.8, "min_p": 0.02, "temperature": 0.7},
    {"top_k": 30, "typical_p": 0.9, "top_p": 0.95, "temperature": 1.5},
]


@pytest.mark.parametrize("size", [1, 5, 300, 6000])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_distributions(settings, size):
    for seed in range(3):
        logits = random_logits(seed, size)
        np.testing.assert_allclose(Sampler(**settings).probabilities(logits), definition(logits, **settings), atol=2e-6)


@pytest.mark.parametrize("scale", [0.0, 0.1, 10.0, 1000.0])
def test_flat_and_steep_distributions(scale):
    logits = random_logits(1, 4000, scale)
    for settings in ({"top_p": 0.50003}, {"top_k": 50}, {"min_p": 0.1}, {"temperature": 1e-4}):
        np.testing.assert_allclose(Sampler(**settings).probabilities(logits), definition(logits, **settings), atol=2e-6)


def test_of_equal_logits_the_first_are_kept():
    logits = np.array([0, 1, 1, 1, 0, 1], np.float32)
    assert np.flatnonzero(Sampler(top_k=2).probabilities(logits)).tolist() == [1, 2]
    assert np.flatnonzero(Sampler(top_p=0.4).probabilities(logits)).tolist() == [1, 2]
    repeated = np.tile(logits, 500)
    assert np.flatnonzero(Sampler(top_k=3).probabilities(repeated)).tolist() == [1, 2, 3]


def test_forbidden_tokens_have_no_probability():
    logits = np.array([1, -INF, 2, -INF, 0], np.float32)
    for settings in ({}, {"top_k": 4}, {"top_p": 0.99}, {"typical_p": 0.99}, {"temperature": 5.0}):
        p = Sampler(**settings).probabilities(logits)
        assert p[1] == p[3] == 0
        assert p.sum() == pytest.approx(1)


# ----------------------------------------------------------------------------------- allowed tokens


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("share", [0.001, 0.2, 0.9])
def test_allowed_tokens_are_as_if_there_were_no_others(settings, share):
    for seed in range(3):
        logits = random_logits(seed, 3000)
        allowed = np.random.default_rng(seed).random(3000) < share
        allowed[7] = True
        expected = definition(np.where(allowed, logits, -INF), **settings)
        np.testing.assert_allclose(Sampler(**settings).probabilities(logits, allowed=allowed), expected, atol=2e-6)
        assert allowed[Sampler(seed=seed, **settings).sample(logits, allowed=allowed)]


@pytest.mark.parametrize("mirostat", [1, 2])
def test_mirostat_among_allowed_tokens(mirostat):
    allowed = np.arange(3000) % 7 == 0
    sampler = Sampler(mirostat=mirostat, seed=1)
    assert {sampler.sample(random_logits(seed, 3000), allowed=allowed) % 7 for seed in range(50)} == {0}


def test_log_probabilities_are_those_of_the_model_whatever_is_allowed():
    logits = np.array([3, 2, 1, 0], np.float32)
    allowed = np.array([False, False, True, True])
    choice = Sampler(temperature=0, logprobs=2).choose(logits, allowed=allowed)
    assert choice.token == 2
    assert choice.logprob == pytest.approx(math.log(softmax(logits)[2]))
    assert [token for token, _ in choice.top] == [0, 1]


def test_logits_beyond_the_allowed_ones_are_not_allowed():
    assert Sampler(temperature=0).sample([1.0, 0.0, 5.0], allowed=np.array([True, True])) == 0


def test_allowed_tokens_that_are_refused():
    for allowed in (np.ones(4, bool), np.ones((3, 1), bool), np.ones(3, np.uint8)):
        with pytest.raises(ValueError, match=r"allowed tokens are booleans of shape \(3,\) or shorter, found"):
            Sampler().sample([1.0, 2.0, 3.0], allowed=allowed)
    with pytest.raises(ValueError, match="no token is allowed"):
        Sampler().sample([1.0, 2.0, 3.0], allowed=np.zeros(3, bool))
    with pytest.raises(ValueError, match="all logits are -inf: there is no token to choose"):
        Sampler(logit_bias={1: -INF}).sample([1.0, 2.0, 3.0], allowed=np.array([False, True, False]))


# ----------------------------------------------------------------------------------- penalties and bias


def test_repetition_penalty():
    """Positive logits are divided, negative ones multiplied."""
    logits = np.array([2, -2, 2, 0], np.float32)
    p = Sampler(repetition_penalty=2.0).probabilities(logits, [0, 1, 1])
    np.testing.assert_allclose(p, softmax([1, -4, 2, 0]), atol=1e-6)


def test_presence_and_frequency_penalties():
    logits = np.zeros(4, np.float32)
    p = Sampler(presence_penalty=0.5, frequency_penalty=0.25).probabilities(logits, [3, 1, 1])
    np.testing.assert_allclose(p, softmax([0, -1.0, 0, -0.75]), atol=1e-6)


@pytest.mark.parametrize("window, expected", [(None, [-1, -1, 0]), (2, [0, -1, 0]), (0, [0, 0, 0])])
def test_window_of_penalties(window, expected):
    sampler = Sampler(presence_penalty=1.0, penalty_window=window)
    np.testing.assert_allclose(sampler.probabilities(np.zeros(3, np.float32), [0, 1, 1]), softmax(expected), atol=1e-6)


def test_all_penalties_together():
    random = np.random.default_rng(5)
    for seed in range(5):
        logits, history = random_logits(seed, 200), random.integers(0, 200, 150).tolist()
        sampler = Sampler(repetition_penalty=1.3, presence_penalty=0.2, frequency_penalty=0.1, top_p=0.9)
        expected = definition(logits, history, repetition=1.3, presence=0.2, frequency=0.1, top_p=0.9)
        np.testing.assert_allclose(sampler.probabilities(logits, history), expected, atol=2e-6)


def test_logit_bias():
    logits = np.array([5, 1, 0], np.float32)
    sampler = Sampler(logit_bias={0: -INF, 2: 3.0}, temperature=0)
    assert sampler.sample(logits) == 2
    np.testing.assert_allclose(Sampler(logit_bias={0: -5.0}).probabilities(logits), softmax([0, 1, 0]), atol=1e-6)


def test_logits_are_not_changed():
    logits = np.ones(3, np.float32)
    Sampler(logit_bias={0: 1.0}, repetition_penalty=2.0, temperature=0.5, top_p=0.5).sample(logits, [1])
    assert logits.tolist() == [1, 1, 1]


# ----------------------------------------------------------------------------------- tokens


def test_greedy():
    """Temperature 0: the largest logit, the smallest id of equal ones."""
    sampler = Sampler(temperature=0)
    assert sampler.sample(np.array([1, 3, 2, 3], np.float32)) == 1
    assert sampler.probabilities(np.array([1, 3, 2, 3], np.float32)).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 12}, {"top_p": 0.8}, {"temperature": 2.0}, {"mirostat": 2, "mirostat_eta": 0.0}]
)
def test_tokens_follow_the_distribution(settings):
    """Pearson's test: 6,000 tokens; the bound is exceeded by chance once in 10,000 times, and the seed is fixed."""
    logits = random_logits(3, 20, 1.0)
    sampler = Sampler(seed=11, **settings)
    p = sampler.probabilities(logits)
    counts = np.bincount([sampler.sample(logits) for _ in range(6_000)], minlength=20)
    assert not counts[p == 0].any()
    kept = p > 0
    statistic = ((counts[kept] - 6_000 * p[kept]) ** 2 / (6_000 * p[kept])).sum()
    degrees = int(kept.sum()) - 1
    assert statistic < degrees + 4 * math.sqrt(2 * degrees) + 8


def test_tokens_of_a_large_vocabulary():
    """Sums of blocks find the same token as a search in all sums."""
    logits = random_logits(4, 5000, 3.0)
    sampler = Sampler(seed=5)
    uniforms = np.random.Generator(np.random.Philox(key=5)).random(300)
    sums = np.cumsum(np.exp(logits - logits.max()), dtype=np.float64)
    expected = [int(np.searchsorted(sums, uniform * sums[-1], side="right")) for uniform in uniforms]
    assert [sampler.sample(logits) for _ in range(300)] == expected


def test_a_seed_determines_the_tokens():
    logits = random_logits(0, 1000)
    one, two, other = Sampler(seed=7), Sampler(seed=7), Sampler(seed=8)
    tokens = []
    for _ in range(30):
        tokens.append(one.sample(logits))
        other.sample(logits)
    assert [two.sample(logits) for _ in range(30)] == tokens
    assert [other.sample(logits) for _ in range(30)] != tokens


def test_a_sampler_without_a_seed_draws_one():
    logits = random_logits(0, 1000)
    sampler = Sampler()
    tokens = [sampler.sample(logits) for _ in range(10)]
    again = Sampler(seed=sampler.seed)
    assert [again.sample(logits) for _ in range(10)] == tokens
    assert Sampler().seed != sampler.seed


def test_greedy_draws_no_random_number():
    logits = random_logits(0, 100)
    sampler, fresh = Sampler(seed=1), Sampler(seed=1)
    sampler.probabilities(logits)
    assert [sampler.sample(logits) for _ in range(5)] == [fresh.sample(logits) for _ in range(5)]


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_dtypes(dtype):
    import ml_dtypes  # noqa: F401  (registers bfloat16)

    assert Sampler(temperature=0).sample(np.array([1, 3, 2]).astype(dtype)) == 1


def test_tensors_of_the_runtime():
    import relax

    assert Sampler(temperature=0).sample(relax.nd.array(np.array([1, 3, 2], np.float32))) == 1


# ----------------------------------------------------------------------------------- Mirostat


def test_mirostat_2_keeps_tokens_of_little_surprise():
    logits = np.log2(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])).astype(np.float32) * np.float32(math.log(2))
    p = Sampler(mirostat=2, mirostat_tau=1.1).probabilities(logits)
    np.testing.assert_allclose(p, [4 / 6, 2 / 6, 0, 0, 0], atol=1e-6)
    assert Sampler(mirostat=2, mirostat_tau=0.1).probabilities(logits).tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("tau", [2.0, 4.0])
def test_mirostat_approaches_its_surprise(version, tau):
    """The mean surprise of tokens under the model's distribution comes near tau, for logits by Zipf's law."""
    logits = (-1.1 * np.log(np.arange(1, 5001))).astype(np.float32)
    sampler = Sampler(mirostat=version, mirostat_tau=tau, seed=3)
    observed = []
    for _ in range(1500):
        p = sampler.probabilities(logits)
        observed.append(-math.log2(p[sampler.sample(logits)]))
    assert np.mean(observed[500:]) == pytest.approx(tau, abs=0.25)


@pytest.mark.parametrize(
    "logits", [np.zeros(50), np.array([0.0]), np.array([0.0, -INF]), np.array([50.0, 0, 0])], ids=len
)
def test_mirostat_1_on_other_distributions(logits):
    sampler = Sampler(mirostat=1, seed=1)
    for _ in range(50):
        assert np.isfinite(logits[sampler.sample(logits.astype(np.float32))])


# ----------------------------------------------------------------------------------- log-probabilities


def test_log_probabilities():
    """They are those of the model, whatever is sampled from."""
    logits = random_logits(2, 1000)
    expected = np.log(softmax(logits))
    choice = Sampler(temperature=0, logit_bias={17: 100.0}, logprobs=3).choose(logits)
    assert choice.token == 17
    assert choice.logprob == pytest.approx(expected[17], abs=1e-5)
    best = np.argsort(-logits, kind="stable")[:3]
    assert [index for index, _ in choice.top] == best.tolist()
    np.testing.assert_allclose([value for _, value in choice.top], expected[best], atol=1e-5)


def test_without_log_probabilities():
    choice = Sampler(temperature=0).choose(np.array([0, 1], np.float32))
    assert (choice.token, choice.top) == (1, ())
    assert math.isnan(choice.logprob)


def test_more_log_probabilities_than_tokens():
    assert len(Sampler(logprobs=9).choose(np.zeros(4, np.float32)).top) == 4


# ----------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    "settings", [{"temperature": 0}, {}, {"top_k": 1}, {"top_p": 0.5}, {"mirostat": 1}, {"mirostat": 2}]
)
@pytest.mark.parametrize(
    "logits, message",
    [
        ([1, math.nan, 2], "the logits have NaN: the model computed no probabilities"),
        ([1, INF, 2], "a logit is inf: its probability is not defined"),
        ([-INF, -INF], "all logits are -inf: there is no token to choose"),
        ([[1, 2]], r"logits have the shape \(1, 2\), expected \(vocabulary,\)"),
        ([], r"logits have the shape \(0,\)"),
    ],
)
def test_wrong_logits(settings, logits, message):
    with pytest.raises(ValueError, match=message):
        Sampler(**settings).sample(np.array(logits, np.float32))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"temperature": -1}, "temperature is -1, expected at least 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 1.5}, "top_p is 1.5, expected between 0 and 1"),
        ({"min_p": -0.1}, "min_p is -0.1"),
        ({"typical_p": 2}, "typical_p is 2"),
        ({"mirostat": 3}, "mirostat is 3, expected 0, 1 or 2"),
        ({"mirostat_tau": 0}, "mirostat_tau is 0"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0, expected above 0"),
        ({"presence_penalty": INF}, "presence_penalty is inf"),
        ({"penalty_window": -1}, "penalty_window is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"logprobs": -1}, "logprobs is -1"),
        ({"logit_bias": {3: math.nan}}, "logit_bias of token 3 is nan"),
        ({"logit_bias": {-3: 1.0}}, "logit_bias of token -3"),
    ],
    ids=str,
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampler(**settings)


def test_tokens_outside_of_the_vocabulary():
    logits = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="the history has the token 9, which is outside of the vocabulary of 4 tokens"):
        Sampler(presence_penalty=1.0).sample(logits, [1, 9])
    with pytest.raises(ValueError, match="the history has the token -1"):
        Sampler(presence_penalty=1.0).sample(logits, [-1])
    with pytest.raises(ValueError, match="logit_bias has the token 4"):
        Sampler(logit_bias={4: 1.0}).sample(logits)
