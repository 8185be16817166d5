"""Results of classifiers: maps of scores, and probabilities of classes from those of pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import tvm_ffi

from .builtin_table import builtin
from .dtypes import Array
from .ops import array_of
from .strings import labels_of
from .tensor import tensor_of_numpy

_STEPS = 100
"""Steps after which probabilities count as settled."""


@builtin("relax.run.zip_map")
def zip_map(labels: Any, scores: Any) -> tuple[Any, ...]:
    """For each row of scores a map, from the labels, strings or integers, to the row's numbers.

    Raises ValueError if there is not a label for each number.
    """
    keys = labels_of(labels, "zip_map").tolist()
    rows: Array = np.atleast_2d(array_of(scores, "zip_map"))
    if rows.shape[1] != len(keys):
        raise ValueError(f"zip_map: {len(keys)} labels do not go with rows of {rows.shape[1]} scores")
    return tuple(tvm_ffi.Map(dict(zip(keys, row, strict=True))) for row in rows.tolist())


@builtin("relax.run.coupled_probabilities")
def coupled_probabilities(pairs: Any, classes: int) -> tvm_ffi.Tensor:
    """The probabilities of classes in each row, from those that the first of two classes has against the second one.

    Solved is the least-squares problem of Wu, Lin and Weng (2004), "Probability estimates for multi-class
    classification by pairwise coupling", by their iteration.
    """
    likely: Array = array_of(pairs, "coupled_probabilities")
    likely = np.minimum(np.maximum(likely, np.float32(1e-7)), np.float32(1 - 1e-7))
    against: Array = np.zeros((len(likely), classes, classes), np.float32)
    for column, (one, other) in enumerate(combinations(range(classes), 2)):
        against[:, one, other] = likely[:, column]
        against[:, other, one] = 1 - likely[:, column]
    form: Array = -against * against.transpose(0, 2, 1)
    for index in range(classes):
        form[:, index, index] = np.sum(np.square(against[:, :, index]), 1)
    shares: Array = np.full((len(likely), classes), 1 / classes, np.float32)
    moving: Array = np.arange(len(likely))
    for _ in range(_STEPS):
        forces: Array = np.einsum("nij,nj->ni", form[moving], shares[moving])
        value: Array = np.sum(shares[moving] * forces, 1)
        far = np.max(np.abs(forces - value[:, None]), 1, initial=0) >= 0.005 / classes
        moving = moving[far]
        if not len(moving):
            break
        shares[moving] = _stepped(form[moving], shares[moving], forces[far], value[far])
    return tensor_of_numpy(shares)


def _stepped(form: Array, shares: Array, forces: Array, value: Array) -> Array:
    """The shares after a step on each coordinate; `forces` is the form's product with them, `value` the form's."""
    for coordinate in range(shares.shape[1]):
        own: Array = form[:, coordinate, coordinate]
        step: Array = (value - forces[:, coordinate]) / own
        value = (value + step * (step * own + 2 * forces[:, coordinate])) / (1 + step) / (1 + step)
        forces = (forces + step[:, None] * form[:, coordinate]) / (1 + step[:, None])
        shares[:, coordinate] += step
        shares = shares / (1 + step[:, None])
    return shares
