"""Operators that sample from distributions, given uniform random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import topi
from ..ir import DataType
from ..prim import IntImm, Verdict, prove_equal
from ..struct_info import TensorStructInfo
from .base import Gradients, Term
from .dims import check_later, like, require_same_dim
from .errors import SHAPES, OperatorError
from .operands import FLOATS
from .operator import Array, Operator, operator


@operator("relax.multinomial_from_uniform")
class MultinomialFromUniform(Operator):
    """For each uniform number, an index sampled from a row of probabilities: the first at which the cumulative sum of
    the row exceeds the number, or the last index if rounding keeps the total below it.

    `prob` is (rows, classes), `uniform_sample` (n, 1), and `sample_indices`, (n, 1), holds the row of each number;
    without it, number i uses row i.
    """

    takes = FLOATS

    dtype: DataType = DataType("int64")

    def infer(
        self, prob: TensorStructInfo, uniform_sample: TensorStructInfo, sample_indices: TensorStructInfo | None = None
    ) -> TensorStructInfo:
        self.require_attribute(self.dtype.is_integer, "dtype", "an integer dtype")
        self.require_dtype(prob, "prob", *self.takes)
        self.require_dtype(uniform_sample, "uniform_sample", "float")
        self.require(prob.ndim in (-1, 2), "prob", "a matrix", code=SHAPES, found=f"{prob.ndim} dimensions")
        if prob.dims is not None:
            self._require_classes(prob)
        _require_column(uniform_sample, "uniform_sample")
        if sample_indices is not None:
            self.require_dtype(sample_indices, "sample_indices", "int", "uint")
            _require_column(sample_indices, "sample_indices")
        rows, name = (prob, "prob") if sample_indices is None else (sample_indices, "sample_indices")
        if rows.dims is not None and uniform_sample.dims is not None:
            message = f"uniform_sample and {name} must have the same number of rows"
            require_same_dim(
                uniform_sample.dims[0], rows.dims[0], OperatorError(SHAPES, message, operand="uniform_sample")
            )
        return like(uniform_sample, self.dtype)

    def _require_classes(self, prob: TensorStructInfo) -> None:
        message = "prob has no classes to draw from"
        for size in (prob.dims or ())[1:]:
            verdict = prove_equal(size, IntImm("int64", 0))
            if verdict is Verdict.YES:
                raise OperatorError(SHAPES, message, operand="prob")
            if verdict is Verdict.POSSIBLY:
                check_later(size > 0, message)

    compute = topi.multinomial_from_uniform

    def reference(self, prob: Array, uniform_sample: Array, sample_indices: Array | None = None) -> Array:
        dtype = DataType(prob.dtype.name)
        wide = np.float32 if dtype.bits < 32 else dtype.numpy()
        sums = np.cumsum(prob.astype(wide), 1, dtype=wide)
        if sample_indices is not None:
            sums = sums[sample_indices[:, 0]]
        passed = (sums <= uniform_sample.astype(wide)).sum(1, keepdims=True)
        return np.minimum(passed, prob.shape[1] - 1).astype(self.dtype.numpy())

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (None,) * len(operands)


def _require_column(info: TensorStructInfo, name: str) -> None:
    """Raise OperatorError unless a tensor is a matrix of one column."""
    if info.ndim not in (-1, 2):
        message = f"{name} must be a matrix of one column, found {info.ndim} dimensions"
        raise OperatorError(SHAPES, message, operand=name)
    if info.dims is not None:
        error = OperatorError(SHAPES, f"{name} must be a matrix of one column", operand=name)
        require_same_dim(info.dims[1], IntImm("int64", 1), error)
