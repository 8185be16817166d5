"""Samplers: choices from rows of probabilities.

Uniform numbers are inputs, so that a program is a function. Top-p (nucleus) and top-k keep the most likely classes of
a row: the fewest whose sum reaches top_p, and at most top_k of them.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import op as relax_op
from ..tensor import Tensor, emit
from .lift import lifted

multinomial_from_uniform: Callable[..., Tensor] = lifted("multinomial_from_uniform")


def sample_top_p_top_k_from_sorted_prob(
    sorted_prob: Tensor,
    sorted_index: Tensor,
    top_p: Tensor,
    top_k: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
) -> Tensor:
    """Return a class for each uniform number, drawn from the most likely classes of a row: (n, 1) of int32.

    Parameters
    ----------
    sorted_prob
        Probabilities of each row in descending order, (batch, classes) of float32.
    sorted_index
        Classes in that order, (batch, classes) of int32.
    top_p, top_k
        Limits of each row, (batch, 1): of the sum, and of the number of classes.
    uniform_sample
        Numbers in [0, 1), (n, 1).
    sample_indices
        Row of each number, (n, 1); by default number i uses row i.
    """
    sums = emit(relax_op.cumsum, "cumsum", sorted_prob, 1)
    last = _last_kept(sums, top_p, top_k)
    total = emit(relax_op.gather_elements, "total", sums, last, 1)
    if sample_indices is not None:
        rows = emit(relax_op.squeeze, "rows", sample_indices, [1])
        sums, last, total, sorted_index = (
            emit(relax_op.take, "", value, rows, 0) for value in (sums, last, total, sorted_index)
        )
    reached = emit(relax_op.greater, "reached", sums, uniform_sample * total)
    at_end = emit(relax_op.greater_equal, "at_end", _positions(sums), last)
    chosen = _first_true(emit(relax_op.logical_or, "reached", reached, at_end))
    return emit(relax_op.gather_elements, "sampled", sorted_index, chosen, 1).astype("int32")


def renormalize_top_p_top_k_prob(prob: Tensor, sorted_prob: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Return probabilities with 0 for all but the most likely classes of each row, divided by their sum.

    `prob` and `sorted_prob`, in descending order, are (batch, classes) of float32, `top_p` and `top_k` (batch, 1). All
    classes as likely as the last one that is kept are kept.
    """
    sums = emit(relax_op.cumsum, "cumsum", sorted_prob, 1)
    least = emit(relax_op.gather_elements, "cutoff", sorted_prob, _last_kept(sums, top_p, top_k), 1)
    kept = emit(relax_op.where, "kept", emit(relax_op.greater_equal, "", prob, least), prob, _zero(prob))
    return kept / emit(relax_op.sum, "sum", kept, 1, True)


def _last_kept(sums: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Return the position of the last class that is kept in each row of cumulative sums: (batch, 1) of int64."""
    positions = _positions(sums)
    limit = emit(relax_op.minimum, "limit", top_k.astype("int64"), sums.shape[1])
    enough = emit(relax_op.greater_equal, "enough", sums, top_p)
    full = emit(relax_op.greater_equal, "full", positions + 1, limit)
    return _first_true(emit(relax_op.logical_or, "stops", enough, full))


def _positions(sums: Tensor) -> Tensor:
    return emit(relax_op.arange, "positions", 0, sums.shape[1], 1, "int64")


def _first_true(flags: Tensor) -> Tensor:
    """Return the position of the first true element of each row, (rows, 1) of int64."""
    return emit(relax_op.argmax, "first", flags.astype("int32"), 1, True)


def _zero(like: Tensor) -> Tensor:
    return Tensor.from_scalar(0, like.dtype)
