"""Choice of the next token from logits: `Sampler`.

Steps, in the order of llama.cpp's default chain:

    logit bias, penalties                     change logits
    top_k, typical_p, top_p, min_p            keep the likeliest tokens by their probabilities at temperature 1
    temperature                               divides the logits that are left
    one random number                         chooses among them

Mirostat replaces the filters: temperature, then as many of the likeliest tokens as keep the surprise near
`mirostat_tau`.

No step sorts the vocabulary. Numbers are float32 logits; sums of probabilities are float64.
"""

from __future__ import annotations

import math
import operator
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np

from ..runtime.records import dataclass

Array: TypeAlias = "np.ndarray[Any, Any]"

_BINS: Final = 2048
_RANGE: Final = 32.0
"""Distances from the best value that `_best_by_mass` tells apart by bins; exp(-32) is below the last bit of a sum."""
_BLOCK: Final = 64
"""Number of logits in the blocks whose maxima bound the largest logits."""
_SUMMED: Final = 512
"""Number of weights in the blocks whose sums are searched first."""
_MIROSTAT_TOKENS: Final = 100
"""Number of tokens from which Mirostat 1 estimates the exponent of Zipf's law."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Token that was chosen, and log-probabilities under the model's own logits, before any bias, penalty or filter.

    `top` has the likeliest tokens with their log-probabilities, the likeliest first, as many as the sampler's
    `logprobs`. `logprob` is NaN for a sampler without `logprobs`, which does not compute it.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


def scored(logits: Any, token: int, most: int) -> Choice:
    """Return a token with its log-probability under logits (vocabulary,), and the `most` likeliest tokens.

    Raises ValueError as `Sampler.sample` does.
    """
    values = _vector(logits)
    best = _top(values, min(max(most, 1), len(values)))
    best = best[np.argsort(-values[best], kind="stable")]
    greatest = float(values[best[0]])
    total = greatest + math.log(float(np.exp(values - greatest).sum(dtype=np.float64)))
    top = tuple((int(index), float(values[index]) - total) for index in best[:most])
    return Choice(token, float(values[token]) - total, top)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Tokens that can be chosen, ids ascending, and their logits. `ids` is None for the whole vocabulary."""

    ids: Array | None
    logits: Array

    def keep(self, chosen: Array) -> _Candidates:
        """Keep the candidates at the indices `chosen`, which ascend."""
        return _Candidates(chosen if self.ids is None else self.ids[chosen], self.logits[chosen])

    def id(self, index: int) -> int:
        """Id of the candidate at an index."""
        return index if self.ids is None else int(self.ids[index])

    def weights(self) -> Array:
        """Unnormalised probabilities, float32; that of the likeliest candidate is 1."""
        return np.exp(self.logits - self.logits.max())


@final
class Sampler:
    """Choose tokens from logits. One sampler serves one sequence: it has a state of its own.

    `temperature` 0 takes the token of the largest logit, of equal ones the smallest id. `top_k` keeps that many tokens
    (0: all), `typical_p` tokens of typical surprise, `top_p` the likeliest ones with this total probability, `min_p`
    those with at least this share of the largest probability. Penalties concern the last `penalty_window` tokens of
    the history (None: all): a positive logit is divided by `repetition_penalty`, a negative one multiplied; then
    `presence_penalty`, and `frequency_penalty` for each occurrence, are subtracted. `logit_bias` is added to the logits
    of some tokens; -inf forbids a token. `mirostat` is 0 (off), 1 or 2. `logprobs` is the number of tokens whose
    log-probabilities `choose` returns.

    A `seed` determines the random numbers, one for each token, whatever else runs. Without one, `seed` is drawn from
    the system. Raises ValueError for a parameter outside of its range.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        mirostat: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        penalty_window: int | None = 64,
        logit_bias: Mapping[int, float] | None = None,
        seed: int | None = None,
        logprobs: int = 0,
    ) -> None:
        _check("temperature", temperature, 0 <= temperature < math.inf, "at least 0")
        _check("top_k", top_k, operator.index(top_k) >= 0, "at least 0")
        for name, value in (("top_p", top_p), ("min_p", min_p), ("typical_p", typical_p)):
            _check(name, value, 0 <= value <= 1, "between 0 and 1")
        _check("mirostat", mirostat, mirostat in (0, 1, 2), "0, 1 or 2")
        _check("mirostat_tau", mirostat_tau, 0 < mirostat_tau < math.inf, "above 0")
        _check("mirostat_eta", mirostat_eta, 0 <= mirostat_eta < math.inf, "at least 0")
        _check("repetition_penalty", repetition_penalty, 0 < repetition_penalty < math.inf, "above 0")
        _check("presence_penalty", presence_penalty, math.isfinite(presence_penalty), "finite")
        _check("frequency_penalty", frequency_penalty, math.isfinite(frequency_penalty), "finite")
        _check("penalty_window", penalty_window, penalty_window is None or penalty_window >= 0, "at least 0, or None")
        _check("seed", seed, seed is None or 0 <= operator.index(seed) < 1 << 128, "from 0 to 2**128 - 1")
        _check("logprobs", logprobs, operator.index(logprobs) >= 0, "at least 0")
        self.temperature, self.top_k, self.top_p, self.min_p = (
            float(temperature),
            int(top_k),
            float(top_p),
            float(min_p),
        )
        self.typical_p, self.mirostat = float(typical_p), mirostat
        self.mirostat_tau, self.mirostat_eta = float(mirostat_tau), float(mirostat_eta)
        self.repetition_penalty, self.presence_penalty = float(repetition_penalty), float(presence_penalty)
        self.frequency_penalty, self.penalty_window = float(frequency_penalty), penalty_window
        self.logprobs = int(logprobs)
        self.seed: int = secrets.randbits(64) if seed is None else operator.index(seed)
        bias = dict(logit_bias or {})
        for index, value in bias.items():
            _check(f"logit_bias of token {index}", value, index >= 0 and value < math.inf, "a number below inf")
        self._bias_ids = np.array(list(bias), np.int64)
        self._bias = np.array(list(bias.values()), np.float32)
        self._penalized = repetition_penalty != 1 or presence_penalty != 0 or frequency_penalty != 0
        self._random = np.random.Generator(np.random.Philox(key=self.seed))
        self._surprise = 2 * self.mirostat_tau
        """Largest surprise in bits of a token that Mirostat keeps."""

    def sample(self, logits: Any, history: Sequence[int] | Array = (), allowed: Array | None = None) -> int:
        """Return the id of the next token, for logits of shape (vocabulary,) and the tokens before, prompt included.

        `allowed`, booleans of shape (vocabulary,), is True for the tokens among which one is chosen; None: all. It may
        be shorter than the logits, whose remainder is not allowed then. Raises ValueError for logits of another shape,
        with NaN or +inf, or without a token that can be chosen, and for ids outside of the vocabulary in the history or
        the bias.
        """
        return self._sampled(_candidates(self._changed(_vector(logits), history), allowed))

    def _sampled(self, candidates: _Candidates) -> int:
        if self.temperature == 0:
            return candidates.id(_greatest(candidates.logits))
        candidates = self._filtered(candidates)
        weights = candidates.weights()
        index = _drawn(weights, float(self._random.random()))
        if self.mirostat:
            observed = -math.log2(float(weights[index]) / float(weights.sum(dtype=np.float64)))
            self._surprise -= self.mirostat_eta * (observed - self.mirostat_tau)
        return candidates.id(index)

    def choose(self, logits: Any, history: Sequence[int] | Array = (), allowed: Array | None = None) -> Choice:
        """Return the next token as `sample` does, with log-probabilities if the sampler has `logprobs`.

        Log-probabilities are those of the whole vocabulary, whichever tokens are allowed.
        """
        values = _vector(logits)
        token = self.sample(values, history, allowed)
        return scored(values, token, self.logprobs) if self.logprobs else Choice(token, math.nan, ())

    def probabilities(self, logits: Any, history: Sequence[int] | Array = (), allowed: Array | None = None) -> Array:
        """Return the distribution from which `sample` would draw, float64 of shape (vocabulary,), changing no state.

        Raises ValueError as `sample` does.
        """
        values = _vector(logits)
        candidates = _candidates(self._changed(values, history), allowed)
        result = np.zeros(len(values))
        if self.temperature == 0:
            result[candidates.id(_greatest(candidates.logits))] = 1
            return result
        candidates = self._filtered(candidates)
        weights = candidates.weights().astype(np.float64)
        result[slice(None) if candidates.ids is None else candidates.ids] = weights / weights.sum()
        return result

    def _changed(self, values: Array, history: Sequence[int] | Array) -> Array:
        """Apply bias and penalties, to a copy if there are any."""
        if not self._penalized and not len(self._bias):
            return values
        values = np.array(values)
        if len(self._bias):
            _check_ids("logit_bias", self._bias_ids, len(values))
            values[self._bias_ids] += self._bias
        window = self.penalty_window
        if self._penalized and window != 0 and len(history):
            recent = np.asarray(history if window is None else history[-window:], np.int64)
            ids, counts = np.unique(recent, return_counts=True)
            _check_ids("the history", ids, len(values))
            found = values[ids]
            scale = np.float32(self.repetition_penalty)
            found = np.where(found > 0, found / scale, found * scale)
            penalty = self.presence_penalty + self.frequency_penalty * counts
            values[ids] = found - penalty.astype(np.float32)
        return values

    def _filtered(self, candidates: _Candidates) -> _Candidates:
        """Return the tokens among which a random number chooses, with logits divided by the temperature."""
        values = _finite(candidates.logits)
        if self.mirostat:
            candidates = _Candidates(candidates.ids, _divided(values, self.temperature))
            return (
                _mirostat1(candidates, self._surprise) if self.mirostat == 1 else _mirostat2(candidates, self._surprise)
            )
        if 0 < self.top_k < len(values):
            candidates = candidates.keep(_top(values, self.top_k))
        if self.typical_p < 1:
            candidates = candidates.keep(_typical(candidates, self.typical_p))
        if self.top_p < 1:
            candidates = _nucleus(candidates, self.top_p)
        if self.min_p > 0:
            candidates = candidates.keep(np.flatnonzero(candidates.weights() >= np.float32(self.min_p)))
        return _Candidates(candidates.ids, _divided(candidates.logits, self.temperature))


def _check(name: str, value: object, valid: bool, expected: str) -> None:
    """Raise ValueError for a parameter outside of its range."""
    if not valid:
        raise ValueError(f"{name} is {value!r}, expected {expected}")


def _check_ids(subject: str, ids: Array, size: int) -> None:
    if ids.min() < 0 or ids.max() >= size:
        wrong = int(ids[(ids < 0) | (ids >= size)][0])
        raise ValueError(f"{subject} has the token {wrong}, which is outside of the vocabulary of {size} tokens")


def _vector(logits: Any) -> Array:
    """Return logits as a vector of float32."""
    values: Array = np.asarray(logits.numpy() if hasattr(logits, "numpy") else logits)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"logits have the shape {values.shape}, expected (vocabulary,)")
    return values if values.dtype == np.float32 else values.astype(np.float32)


def _candidates(values: Array, allowed: Array | None) -> _Candidates:
    """Return the tokens that are allowed. Raises ValueError if there are none, and for what are no booleans of them."""
    if allowed is None:
        return _Candidates(None, values)
    if allowed.dtype != np.bool_ or allowed.ndim != 1 or len(allowed) > len(values):
        found = f"{allowed.dtype} of shape {allowed.shape}"
        raise ValueError(f"allowed tokens are booleans of shape ({len(values)},) or shorter, found {found}")
    ids = np.flatnonzero(allowed)
    if not len(ids):
        raise ValueError("no token is allowed")
    return _Candidates(ids, values[ids])


def _greatest(values: Array) -> int:
    """Return the index of the largest logit. NumPy takes NaN for larger than all numbers, so that it is found here."""
    index = int(values.argmax())
    _check_greatest(float(values[index]))
    return index


def _finite(values: Array) -> Array:
    """Return logits of which the largest is a finite number."""
    _check_greatest(float(values.max()))
    return values


def _check_greatest(value: float) -> None:
    """Raise ValueError if the largest logit is not finite."""
    if math.isnan(value):
        raise ValueError("the logits have NaN: the model computed no probabilities (relax.find_nan finds the operator)")
    if value == math.inf:
        raise ValueError("a logit is inf: its probability is not defined")
    if value == -math.inf:
        raise ValueError("all logits are -inf: there is no token to choose")


def _divided(logits: Array, temperature: float) -> Array:
    """Return distances to the largest logit, which becomes 0, by the temperature; small ones do not overflow so."""
    if temperature == 1:
        return logits
    with np.errstate(over="ignore"):
        return (logits - logits.max()) / np.float32(max(temperature, 1e-30))


def _drawn(weights: Array, uniform: float) -> int:
    """Return the index at which the running sum of weights exceeds the share `uniform` (0 to below 1) of the total.

    Sums of blocks find the block, within which weights are added one by one.
    """
    count = len(weights)
    whole = count // _SUMMED * _SUMMED
    parts: Array = np.sum(np.reshape(weights[:whole], (-1, _SUMMED)), axis=1, dtype=np.float64)
    if whole < count:
        parts = np.append(parts, weights[whole:].sum(dtype=np.float64))
    sums = np.cumsum(parts)
    place = uniform * float(sums[-1])
    block = min(int(np.searchsorted(sums, place, side="right")), int(np.flatnonzero(parts)[-1]))
    inside = weights[block * _SUMMED : (block + 1) * _SUMMED]
    running = np.cumsum(inside, dtype=np.float64) + (float(sums[block - 1]) if block else 0.0)
    index = min(int(np.searchsorted(running, place, side="right")), int(np.flatnonzero(inside)[-1]))
    return block * _SUMMED + index


def _top(values: Array, count: int) -> Array:
    """Return the indices of the `count` largest values, ascending; of equal values, the first ones.

    The largest values of `count` blocks are at least as large as the bound, below which no value need be looked at.
    """
    size = len(values)
    blocks = size // _BLOCK
    places: Array | None = None
    found = values
    if blocks >= 2 * count:
        maxima: Array = np.max(np.reshape(values[: blocks * _BLOCK], (blocks, _BLOCK)), axis=1)
        bound = np.partition(maxima, blocks - count)[blocks - count]
        places = np.flatnonzero(values >= bound)
        found = values[places]
    least = np.partition(found, len(found) - count)[len(found) - count]
    above, equal = np.flatnonzero(found > least), np.flatnonzero(found == least)
    chosen = np.sort(np.concatenate([above, equal[: count - len(above)]]))
    return chosen if places is None else places[chosen]


def _best_by_mass(distances: Array, weights: Array, mass: float) -> Array:
    """Return the indices, ascending, of the smallest distances whose weights reach the share `mass` of all weights.

    At least one is kept; of equal distances, the first ones. Values are put into bins, of which only the one where the
    sum is reached is sorted.
    """
    needed = mass * float(weights.sum(dtype=np.float64))
    bins = np.minimum(distances * np.float32(_BINS / _RANGE), np.float32(_BINS - 1)).astype(np.intp)
    sums = np.cumsum(np.bincount(bins, weights, _BINS))
    last = min(int(np.searchsorted(sums, needed)), _BINS - 1)
    inside = np.flatnonzero(bins == last)
    order = inside[np.argsort(distances[inside], kind="stable")]
    before = float(sums[last - 1]) if last else 0.0
    within = np.cumsum(weights[order], dtype=np.float64) + before
    chosen = bins < last
    chosen[order[: int(np.searchsorted(within, needed)) + 1]] = True
    return np.flatnonzero(chosen)


def _nucleus(candidates: _Candidates, mass: float) -> _Candidates:
    """Keep the likeliest candidates that have the share `mass` of all probability.

    Candidates so unlikely that all of them together could not have the remaining share are dropped first.
    """
    weights = candidates.weights()
    total = float(weights.sum(dtype=np.float64))
    likely = weights >= np.float32((1 - mass) * total / len(weights))
    if 2 * np.count_nonzero(likely) < len(weights):
        places = np.flatnonzero(likely)
        candidates, weights = candidates.keep(places), weights[places]
    share = min(mass * total / float(weights.sum(dtype=np.float64)), 1.0)
    return candidates.keep(_best_by_mass(candidates.logits.max() - candidates.logits, weights, share))


def _typical(candidates: _Candidates, mass: float) -> Array:
    """Return the indices of the candidates whose surprise is nearest to its mean (Meister et al. 2022)."""
    logits, weights = candidates.logits, candidates.weights()
    total = float(weights.sum(dtype=np.float64))
    surprise = (logits.max() - logits) + np.float32(math.log(total))
    finite = np.where(weights > 0, surprise, np.float32(0))
    mean = float((finite * weights).sum(dtype=np.float64)) / total
    return _best_by_mass(np.abs(surprise - np.float32(mean)), weights, mass)


def _mirostat2(candidates: _Candidates, largest: float) -> _Candidates:
    """Keep the candidates of at most this surprise in bits; the likeliest one in any case."""
    weights = candidates.weights()
    bound = 2.0**-largest * float(weights.sum(dtype=np.float64))
    return candidates.keep(np.flatnonzero(weights >= np.float32(min(bound, 1.0))))


def _mirostat1(candidates: _Candidates, largest: float) -> _Candidates:
    """Keep as many of the likeliest candidates as Zipf's law allows for this surprise in bits (Basu et al. 2021)."""
    logits, size = candidates.logits, len(candidates.logits)
    best = np.sort(logits[_top(logits, min(_MIROSTAT_TOKENS, size))])[::-1].astype(np.float64)
    best = best[np.isfinite(best)]
    ranks = np.arange(1, len(best), dtype=np.float64)
    steps = np.log((ranks + 1) / ranks)
    slope = float((steps * (best[:-1] - best[1:])).sum() / (steps * steps).sum()) if len(best) > 1 else 0.0
    excess = slope - 1
    if slope <= 0:
        return candidates
    if abs(excess) < 1e-6:  # the limit of the quotient
        scale = 1 / math.log(size) if size > 1 else 1.0
    else:
        scale = excess / (1 - size**-excess)
    power = (largest + math.log2(scale)) / slope
    count = size if power >= math.log2(size) else max(int(2.0**power), 1)
    return candidates if count >= size else candidates.keep(_top(logits, count))
