"""Sums of products over named dimensions: einsum and outer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .. import topi
from ..expr import Tuple, TupleGetItem
from ..info.text import prim_text
from ..ir import DataType
from ..prim import PrimExpr, Verdict, prove_equal
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..topi.broadcast import full_sizes
from ..topi.contraction import Subscripts, parse_subscripts
from .base import Gradients, Term
from .dims import require_broadcast, require_same_dim, same_dtype, tensor
from .errors import ATTRIBUTES, OPERANDS, SHAPES, OperatorError
from .facts import Exactness, MixedPrecision
from .gradients import apply, is_float, tensor_info
from .operator import Array, Operator, operator
from .padded import sums_dtype
from .pieces import tensor_fields


@operator("relax.einsum")
class Einsum(Operator):
    """Σ of products of the operands' elements, as NumPy's einsum: "ij,jk->ik", "...ij->...ji", "ii".

    Dimensions of one letter broadcast as those of an addition do: their sizes are equal, or 1; so do those of an
    ellipsis, counted from its end. Within one operand they are equal. Products are summed in the operands' dtype, of
    16-bit and narrower floats in float32; of booleans the sum is True where a product is.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.ALWAYS
    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    total = True

    subscripts: str

    def infer(self, operands: TupleStructInfo) -> TensorStructInfo:
        fields = tensor_fields(operands, "operands")
        if not fields:
            raise OperatorError(OPERANDS, "operands must hold at least one tensor", operand="operands")
        dtype = DataType("")
        for i, field in enumerate(fields):
            dtype = same_dtype(dtype, field.dtype, ("operands", f"operands[{i}]"))
        if any(field.ndim == -1 for field in fields):
            return tensor(None, dtype)
        parsed = self.parsed([field.ndim for field in fields])
        sizes = self._sizes(fields, parsed)
        if any(field.dims is None for field in fields):
            return tensor(None, dtype, len(parsed.result))
        result = [size for label in parsed.result if (size := sizes[label]) is not None]
        return tensor(result if len(result) == len(parsed.result) else None, dtype, len(parsed.result))

    def parsed(self, ranks: Sequence[int]) -> Subscripts:
        """Parse the subscripts for operands of these ranks. Raises OperatorError."""
        try:
            return parse_subscripts(self.subscripts, ranks)
        except ValueError as error:
            raise OperatorError(ATTRIBUTES, str(error), hint="write them as 'ij,jk->ik'") from None

    def _sizes(self, fields: Sequence[TensorStructInfo], parsed: Subscripts) -> dict[str, PrimExpr | None]:
        """Return the size of each dimension, None if undecided, after checking that the operands agree."""
        named: dict[str, list[tuple[PrimExpr, str]]] = {}
        for i, (field, labels) in enumerate(zip(fields, parsed.operands, strict=True)):
            own: dict[str, tuple[PrimExpr, str]] = {}
            for d, (size, label) in enumerate(zip(field.dims or (), labels, strict=False)):
                place = f"dimension {d} of operands[{i}]"
                if label in own:
                    other, first = own[label]
                    size, place = require_same_dim(other, size, _mismatch((other, first), (size, place))), first
                own[label] = size, place
            for label, entry in own.items():
                for other in named.setdefault(label, []):
                    require_broadcast(other[0], entry[0], lambda o=other, e=entry: _mismatch(o, e))
                named[label].append(entry)
        return dict(zip(named, full_sizes([[size for size, _ in entries] for entries in named.values()]), strict=True))

    compute = topi.einsum

    def reference(self, operands: Sequence[Array]) -> Array:
        dtype = DataType(operands[0].dtype.name)
        kind = np.dtype(np.float32) if dtype.is_float and dtype.bits < 32 else sums_dtype(dtype)
        result = np.einsum(self.subscripts, *(x.astype(kind) for x in operands))
        return convert_array(np.asarray(result), dtype.numpy())

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        """Gradient of each operand: einsum of the result's gradient and the other operands, if these have all its
        dimensions.
        """
        info = operands[0].struct_info_
        if not isinstance(info, TupleStructInfo) or "." in self.subscripts:
            return None
        fields = tensor_fields(info, "operands")
        projections = [TupleGetItem(operands[0], i) for i in range(len(fields))]
        parsed = self.parsed([field.ndim for field in fields])
        if not _all_one_size(fields, parsed) or not fields[0].dtype.is_float:
            return None
        gradients: list[Term] = []
        for i, labels in enumerate(parsed.operands):
            other_labels = [parsed.result, *(o for j, o in enumerate(parsed.operands) if j != i)]
            if len(set(labels)) < len(labels) or not set(labels) <= {k for o in other_labels for k in o}:
                return None
            subscripts = ",".join("".join(o) for o in other_labels) + "->" + "".join(labels)
            rest = [projection for j, projection in enumerate(projections) if j != i]
            gradients.append(Einsum(subscripts).call(Tuple([grad, *rest])))
        return (Tuple(gradients),)


def _mismatch(one: tuple[PrimExpr, str], other: tuple[PrimExpr, str]) -> OperatorError:
    """Return the error of two dimensions of one letter, each with its place, whose sizes differ."""
    message = f"{other[1]} is {prim_text(other[0])}, and {one[1]} is {prim_text(one[0])}"
    return OperatorError(SHAPES, message, operand="operands")


def _all_one_size(fields: Sequence[TensorStructInfo], parsed: Subscripts) -> bool:
    """True if all dimensions with the same letter are proved equal."""
    sizes: dict[str, PrimExpr] = {}
    for field, labels in zip(fields, parsed.operands, strict=True):
        if field.dims is None:
            return False
        for size, label in zip(field.dims, labels, strict=True):
            if prove_equal(sizes.setdefault(label, size), size) is not Verdict.YES:
                return False
    return True


@operator("relax.outer")
class Outer(Operator):
    """The products of each element of the vector x1 and each of x2, as a matrix."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    exactness: ClassVar[Exactness] = Exactness.IEEE
    total = True

    def infer(self, x1: TensorStructInfo, x2: TensorStructInfo) -> TensorStructInfo:
        for name, info in (("x1", x1), ("x2", x2)):
            self.require(info.ndim in (-1, 1), name, "a tensor of one dimension", code=SHAPES, found=str(info.ndim))
        dtype = same_dtype(x1.dtype, x2.dtype)
        if x1.dims is None or x2.dims is None:
            return tensor(None, dtype, 2)
        return tensor([*x1.dims, *x2.dims], dtype)

    compute = topi.outer

    def reference(self, x1: Array, x2: Array) -> Array:
        return np.expand_dims(x1, 1) * x2

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        x1, x2 = operands
        if not is_float(x1):
            return (None, None)
        if tensor_info(x1).ndim != 1:
            return None
        return (apply("matmul", grad, x2), apply("matmul", x1, grad))
