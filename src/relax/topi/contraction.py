"""Sums of products over named dimensions: einsum and outer.

    einsum([a, b], "ij,jk->ik")      Σ_j a[i, j] · b[j, k]

Operands are contracted from left to right; each dimension is summed once no later operand has it. Dimensions of one
letter broadcast; if it is undecided at compile time which of two sizes is 1, the kernel selects at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import IntImm, PrimExpr
from ..runtime.records import dataclass
from .broadcast import broadcast_index, broadcast_size, full_sizes
from .util import accumulator_dtype, sum_of, times

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Subscripts:
    """Dimension labels of the operands and of the result; those of an ellipsis are "0", "1", … from the end."""

    operands: tuple[Labels, ...]
    result: Labels


def parse_subscripts(text: str, ranks: Sequence[int]) -> Subscripts:
    """Parse subscripts in NumPy's notation for operands of these ranks. Raises ValueError if they are invalid."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"subscripts {text!r} name {len(terms)} operands, found {len(ranks)}")
    operands = [_labels(term, rank, i) for i, (term, rank) in enumerate(zip(terms, ranks, strict=True))]
    every = [label for labels in operands for label in labels]
    dots = sorted({label for label in every if label.isdigit()}, key=int, reverse=True)
    if arrow:
        result = _expanded(right, dots)
    else:
        single = sorted(label for label in set(every) if not label.isdigit() and every.count(label) == 1)
        result = (*dots, *single)
    missing = [label for label in dict.fromkeys(result) if label not in every]
    if missing:
        raise ValueError(f"subscripts {text!r}: no operand has the dimension {missing[0]!r} of the result")
    if len(set(result)) < len(result):
        raise ValueError(f"subscripts {text!r} name a dimension of the result twice")
    return Subscripts(tuple(operands), result)


def _labels(term: str, rank: int, operand: int) -> Labels:
    names = len(term.replace("...", ""))
    spread = rank - names
    if spread < 0 or (spread > 0 and "..." not in term):
        raise ValueError(f"subscripts {term!r} name {names} dimensions, but operand {operand} has {rank}")
    return _expanded(term, [str(d) for d in reversed(range(spread))])


def _expanded(term: str, dots: Sequence[str]) -> Labels:
    """Labels of a term, with `dots` substituted for its ellipsis."""
    before, ellipsis, after = term.partition("...")
    if not all(label.isalpha() and label.isascii() for label in before + after):
        raise ValueError(f"subscripts {term!r}: dimensions are letters, and at most one ellipsis")
    return (*before, *(dots if ellipsis else ()), *after)


def einsum(operands: Sequence[te.Tensor], subscripts: str) -> te.Tensor:
    """Σ of products of elements, over the dimensions missing from the result. A size of 1 broadcasts."""
    parsed = parse_subscripts(subscripts, [x.ndim for x in operands])
    dtype = operands[0].dtype
    sizes = _broadcast_sizes(operands, parsed)
    total, labels = operands[0], parsed.operands[0]
    rest = list(zip(operands[1:], parsed.operands[1:], strict=True))
    if not rest:
        return _rounded(_product([(total, labels)], parsed.result, sizes), dtype)
    while rest:
        pair = [(total, labels), rest.pop(0)]
        needed = {*parsed.result, *(label for _, others in rest for label in others)}
        present = dict.fromkeys(label for _, others in pair for label in others)
        labels = tuple(label for label in present if label in needed) if rest else parsed.result
        total = _product(pair, labels, sizes)
    return _rounded(total, dtype)


def _broadcast_sizes(operands: Sequence[te.Tensor], parsed: Subscripts) -> dict[str, PrimExpr]:
    """Return the size to which the dimensions of each letter broadcast."""
    columns: dict[str, list[PrimExpr]] = {}
    for x, labels in zip(operands, parsed.operands, strict=True):
        for label, size in _own_sizes(x, labels).items():
            columns.setdefault(label, []).append(size)
    full = zip(columns.items(), full_sizes(list(columns.values())), strict=True)
    return {label: reduce(broadcast_size, sizes) if size is None else size for (label, sizes), size in full}


def _own_sizes(x: te.Tensor, labels: Labels) -> dict[str, PrimExpr]:
    """Return the size of each letter in one operand, a constant one if the letter comes twice."""
    sizes: dict[str, PrimExpr] = {}
    for label, size in zip(labels, x.shape, strict=True):
        if label not in sizes or isinstance(size, IntImm):
            sizes[label] = size
    return sizes


def _product(factors: Sequence[tuple[te.Tensor, Labels]], kept: Labels, sizes: dict[str, PrimExpr]) -> te.Tensor:
    """Product of one or two tensors, summed over the dimensions that are not kept."""
    wide = accumulator_dtype(factors[0][0].dtype)
    present = dict.fromkeys(label for _, labels in factors for label in labels)
    summed = {label: te.reduce_axis((0, sizes[label]), f"k{label}") for label in present if label not in kept}

    def element(*i: Any) -> PrimExpr:
        index = {**dict(zip(kept, i, strict=True)), **{label: axis.var for label, axis in summed.items()}}
        terms = [_read(x, labels, index, sizes).astype(wide) for x, labels in factors]
        value = terms[0] if len(terms) == 1 else times(terms[0], terms[1])
        return sum_of(value, list(summed.values())) if summed else value

    return te.compute([sizes[label] for label in kept], element, "einsum", varargs_names=[f"i{k}" for k in kept])


def _read(x: te.Tensor, labels: Labels, index: dict[str, Any], sizes: dict[str, PrimExpr]) -> PrimExpr:
    own = _own_sizes(x, labels)
    used = tuple(own)
    stretched = broadcast_index(list(own.values()), [sizes[k] for k in used], [index[k] for k in used])
    place = dict(zip(used, stretched, strict=True))
    return x(*(place[k] for k in labels))


def _rounded(x: te.Tensor, dtype: DataType) -> te.Tensor:
    if x.dtype == dtype:
        return x
    return te.compute(x.shape, lambda *i: x(*i).astype(dtype), "einsum_cast", tag="elemwise")


def outer(x1: te.Tensor, x2: te.Tensor) -> te.Tensor:
    """The products of each element of one vector and each of another."""
    wide = accumulator_dtype(x1.dtype)

    def element(i: Any, j: Any) -> PrimExpr:
        return times(x1(i).astype(wide), x2(j).astype(wide)).astype(x1.dtype)

    return te.compute((x1.shape[0], x2.shape[0]), element, "T_outer", tag="broadcast")
