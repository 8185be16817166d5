"""The choice of a next token from logits or probabilities, under TVM's names.

    vm.builtin.sample_top_p_from_logits(logits, temperature, top_p, uniform_sample) -> token
    vm.builtin.sample_top_p_from_prob(prob, top_p, uniform_sample) -> token
    vm.builtin.multinomial_from_uniform(prob, uniform_sample) -> tokens
    vm.builtin.apply_repetition_penalty(logits, token_ids, penalty)                       these change logits in place
    vm.builtin.apply_presence_and_frequency_penalty(logits, token_ids, token_freqs, presence, frequency)
    vm.builtin.apply_softmax_with_temperature(logits, temperature)

Numbers between 0 and 1 that decide come from the caller, so that a choice can be repeated. Sums are float64.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import tvm_ffi

from .builtin_table import Effects, builtin
from .dtypes import Array, canonical_dtype, is_float
from .tensor import numpy_view, tensor_of_numpy
from .values import describe_shape, kind_of

_GREEDY: Final = 1e-6
"""Temperatures below take the greatest logit."""
_IN_PLACE: Final = Effects(writes=(0,))


@builtin("vm.builtin.sample_top_p_from_logits")
def sample_top_p_from_logits(logits: Any, temperature: Any, top_p: Any, uniform_sample: Any) -> int:
    """Return a token by the probabilities softmax(logits / temperature), among the most likely ones of mass `top_p`.

    Parameters
    ----------
    logits
        Logits of one position: (vocabulary,), or with further dimensions of 1 before.
    temperature
        Not negative; below 1e-6 the token with the greatest logit is returned.
    top_p, uniform_sample
        As in `sample_top_p_from_prob`.

    Raises
    ------
    TypeError, ValueError
        For arguments of other kinds and out of range, and logits with NaN or without a finite value.
    """
    scores = _row(logits, "logits")
    heat = _number(temperature, "temperature")
    if not heat >= 0:
        raise ValueError(f"temperature is {heat}, expected a number that is not negative")
    mass, sample = _top_p(top_p), _uniform(uniform_sample)
    if heat < _GREEDY:
        _greatest(scores, "logits")
        return int(scores.argmax())
    return _sampled(_softmax(scores, heat), mass, sample)


@builtin("vm.builtin.sample_top_p_from_prob")
def sample_top_p_from_prob(prob: Any, top_p: Any, uniform_sample: Any) -> int:
    """Return a token by its probability, among the most likely ones that together have at least `top_p`.

    Parameters
    ----------
    prob
        Probabilities of one position: (vocabulary,), or with further dimensions of 1 before.
    top_p
        In (0, 1]. The most likely token is always among those chosen from; equal ones are taken by their numbers.
    uniform_sample
        In [0, 1): the share of the mass, from the most likely token on, at which the chosen token is found.

    Raises
    ------
    TypeError, ValueError
        For arguments of other kinds and out of range, and what are no probabilities.
    """
    weights = _row(prob, "prob")
    mass, sample = _top_p(top_p), _uniform(uniform_sample)
    _check_probabilities(weights)
    return _sampled(weights, mass, sample)


@builtin("vm.builtin.multinomial_from_uniform")
def multinomial_from_uniform(prob: Any, uniform_sample: Any) -> tvm_ffi.Tensor:
    """Return for each row of probabilities (n, vocabulary) the token at a share of their sum, int64 of shape (n, 1).

    `uniform_sample` has a share in [0, 1) for each row: (n, 1) or (n,). Raises TypeError and ValueError for other
    arguments, and for rows that are no probabilities.
    """
    weights = _floats(prob, "prob")
    _floats(uniform_sample, "uniform_sample")
    shares = numpy_view(uniform_sample).astype(np.float64)
    if weights.ndim != 2 or not weights.shape[1]:
        raise ValueError(f"prob has the shape {describe_shape(weights.shape)}, expected (n, vocabulary)")
    rows = weights.shape[0]
    if shares.size != rows:
        raise ValueError(f"uniform_sample has the shape {describe_shape(shares.shape)}, expected ({rows}, 1)")
    if not ((shares >= 0) & (shares < 1)).all():
        raise ValueError("uniform_sample has numbers outside of [0, 1)")
    tokens: Array = np.empty((rows, 1), np.int64)
    for i, (row, share) in enumerate(zip(weights, shares.reshape(-1).tolist(), strict=True)):
        _check_probabilities(row)
        tokens[i, 0] = _at_share(row, share)
    return tensor_of_numpy(tokens)


@builtin("vm.builtin.apply_repetition_penalty", _IN_PLACE, pure=False)
def apply_repetition_penalty(logits: Any, token_ids: Any, penalty: Any) -> None:
    """Make tokens less likely: divide their positive logits by `penalty`, multiply the others by it.

    `token_ids` (int32 or int64) may name a token several times; it counts once. Raises TypeError and ValueError for
    arguments of other kinds, ids out of range, and a penalty that is not positive.
    """
    scores = _writable_row(logits)
    ids = _ids(token_ids, scores.size)
    factor = _number(penalty, "penalty")
    if not factor > 0:
        raise ValueError(f"penalty is {factor}, expected a positive number")
    chosen = scores[ids].astype(np.float32)
    scores[ids] = np.where(chosen > 0, chosen / np.float32(factor), chosen * np.float32(factor))


@builtin("vm.builtin.apply_presence_and_frequency_penalty", _IN_PLACE, pure=False)
def apply_presence_and_frequency_penalty(
    logits: Any, token_ids: Any, token_freqs: Any, presence_penalty: Any, frequency_penalty: Any
) -> None:
    """Subtract from the logit of each token `presence_penalty`, and `frequency_penalty` times its frequency.

    `token_ids` and `token_freqs` are of one length; a frequency of 0 changes nothing. Raises TypeError and ValueError
    for arguments of other kinds, and ids that are out of range or named twice.
    """
    scores = _writable_row(logits)
    ids = _ids(token_ids, scores.size)
    counts = _integers(token_freqs, "token_freqs")
    presence, frequency = _number(presence_penalty, "presence_penalty"), _number(frequency_penalty, "frequency_penalty")
    if counts.size != ids.size:
        raise ValueError(f"there are {counts.size} frequencies of {ids.size} tokens")
    if len(np.unique(ids)) != ids.size:
        raise ValueError("token_ids names a token twice")
    penalties = counts * frequency + (counts > 0) * presence
    scores[ids] = (scores[ids].astype(np.float32) - penalties).astype(scores.dtype)


@builtin("vm.builtin.apply_softmax_with_temperature", _IN_PLACE, pure=False)
def apply_softmax_with_temperature(logits: Any, temperature: Any) -> None:
    """Replace logits by the probabilities softmax(logits / temperature).

    Raises TypeError and ValueError for arguments of other kinds, a temperature that is not positive, and logits with
    NaN or without a finite value.
    """
    scores = _writable_row(logits)
    heat = _number(temperature, "temperature")
    if not heat > 0:
        raise ValueError(f"temperature is {heat}, expected a positive number")
    weights = _softmax(scores.astype(np.float32), heat)
    scores[...] = weights / weights.sum(dtype=np.float64)


# ---------------------------------------------------------------------------------------------- choices


def _softmax(scores: Array, temperature: float) -> Array:
    """Return the weights exp((scores - max) / temperature), float32 with 1 as the greatest."""
    shifted: Array = (scores - _greatest(scores, "logits")) * np.float32(1 / temperature)
    return np.exp(shifted)


def _sampled(weights: Array, top_p: float, sample: float) -> int:
    """Return the token at a share of the mass of the most likely tokens.

    Most tokens are so unlikely that only a few have to be sorted: those above a threshold, which is lowered until they
    have the mass that is asked for.
    """
    total = float(weights.sum(dtype=np.float64))
    if top_p >= 1:
        return _at_share(weights, sample)
    threshold = float(weights.max()) / 64
    likely = _above(weights, threshold)
    while likely.size < weights.size and weights[likely].sum(dtype=np.float64) < top_p * total:
        threshold = threshold / 64 if threshold > total * 1e-12 else 0.0
        likely = _above(weights, threshold)
    chosen: Array = weights[likely]
    order: Array = np.argsort(-chosen, kind="stable")
    masses: Array = np.cumsum(chosen[order], dtype=np.float64)
    count = min(_position(masses, top_p * total, "left") + 1, masses.size)
    at = _position(masses[:count], sample * float(masses[count - 1]), "right")
    return int(likely[order[min(at, count - 1)]])


def _position(masses: Array, mass: float, side: Literal["left", "right"]) -> int:
    """Return where a mass belongs among ascending ones: before equal ones (left), or behind them."""
    return int(np.searchsorted(masses, mass, side=side))


def _above(weights: Array, threshold: float) -> Array:
    """Return the tokens whose weights are not below a threshold, in order."""
    return np.flatnonzero(weights >= threshold)


def _at_share(weights: Array, share: float) -> int:
    """Return the first index at which the weights so far are more than a share of their sum."""
    masses: Array = np.cumsum(weights, dtype=np.float64)
    at = _position(masses, share * float(masses[-1]), "right")
    if at < weights.size:
        return at
    last: Array = np.flatnonzero(weights)  # the share was rounded to the whole sum
    return int(last[-1])


# ---------------------------------------------------------------------------------------------- arguments


def _floats(value: Any, name: str) -> Array:
    """Return a tensor of floats as float32, a view if it is that. Raises TypeError for another value."""
    if not isinstance(value, tvm_ffi.Tensor):
        raise TypeError(f"expected a tensor as {name}, found {kind_of(value)}")
    dtype = canonical_dtype(value.dtype)
    if not is_float(dtype):
        raise TypeError(f"{name} has the dtype {dtype}, expected floats")
    return numpy_view(value).astype(np.float32, copy=False)


def _row(value: Any, name: str) -> Array:
    """Return the numbers of one position, float32 (vocabulary,)."""
    return _of_one_position(_floats(value, name), name)


def _writable_row(value: Any) -> Array:
    """Return the logits of one position, as a view in their own dtype."""
    _floats(value, "logits")
    return _of_one_position(numpy_view(value), "logits")


def _of_one_position(array: Array, name: str) -> Array:
    if not array.ndim or not array.size or array.shape[-1] != array.size:
        raise ValueError(f"{name} has the shape {describe_shape(array.shape)}, expected that of one position")
    return array.reshape(-1)


def _integers(value: Any, name: str) -> Array:
    """Return integers as an int64 vector. Raises TypeError for another value."""
    if not isinstance(value, tvm_ffi.Tensor):
        raise TypeError(f"expected a tensor as {name}, found {kind_of(value)}")
    array = numpy_view(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has the dtype {value.dtype}, expected integers")
    return array.astype(np.int64).reshape(-1)


def _ids(value: Any, vocabulary: int) -> Array:
    """Return token ids. Raises ValueError for one that is out of range."""
    ids = _integers(value, "token_ids")
    wrong: Array = ids[(ids < 0) | (ids >= vocabulary)]
    if wrong.size:
        raise ValueError(f"token_ids has the id {int(wrong[0])}, expected one from 0 to {vocabulary - 1}")
    return ids


def _number(value: Any, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"expected a number as {name}, found {kind_of(value)}")
    return float(value)


def _top_p(value: Any) -> float:
    mass = _number(value, "top_p")
    if not 0 < mass <= 1:
        raise ValueError(f"top_p is {mass}, expected a number in (0, 1]")
    return mass


def _uniform(value: Any) -> float:
    share = _number(value, "uniform_sample")
    if not 0 <= share < 1:
        raise ValueError(f"uniform_sample is {share}, expected a number in [0, 1)")
    return share


def _greatest(scores: Array, name: str) -> Any:
    """Return the greatest number. Raises ValueError if it is NaN (one of them is) or infinite."""
    greatest = scores.max()
    if not np.isfinite(greatest):
        raise ValueError(f"{name} have the greatest value {float(greatest)}, expected a finite one")
    return greatest


def _check_probabilities(weights: Array) -> None:
    """Raise ValueError for numbers that are no probabilities, up to a factor."""
    least, greatest = float(weights.min()), float(weights.max())
    if not (least >= 0 and 0 < greatest < np.inf):
        raise ValueError(f"prob has values from {least} to {greatest}, expected probabilities")
