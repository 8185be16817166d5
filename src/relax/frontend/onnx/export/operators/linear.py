"""Products: matmul, einsum, outer, attention."""

from __future__ import annotations

import math
import string
from typing import Any

from .....ir import DataType
from .....prim import IntImm, PrimExpr
from ..graph import Graph
from ..kernels import wide_dtype
from ..registry import writer
from ..tensor import Tensor
from .creation import numbers
from .indexing import index_of
from .reduce import reduced
from .shape import result_rank


def wider_of(first: str, second: str) -> str:
    """The type in which operands of one dtype are multiplied for a result of another."""
    a, b = wide_dtype(first), wide_dtype(second)
    if DataType(a).is_float and DataType(b).is_float:
        return max(a, b, key=lambda name: DataType(name).bits)
    return a if DataType(a).is_float else b


@writer("relax.matmul")
def matmul(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    wide = wider_of(x1.dtype, str(operator.out_dtype) or x1.dtype)
    return g.run("MatMul", x1.to(wide), x2.to(wide), rank=result_rank(g))


@writer("relax.outer")
def outer(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    return x1.wide().ranked(1).unsqueeze(1) * x2.wide().ranked(1).unsqueeze(0)


@writer("relax.einsum")
def einsum(g: Graph, operator: Any, operands: list[Tensor]) -> Tensor:
    """Ellipses become letters, and dimensions of size 1 beside others are dropped: ONNX broadcasts neither."""
    inputs, _, output = operator.subscripts.replace(" ", "").partition("->")
    explicit = "->" in operator.subscripts
    terms = inputs.split(",")
    spare = [letter for letter in string.ascii_letters if letter not in operator.subscripts]
    counts = [
        x.ndim - len(term.replace("...", "")) if "..." in term else 0 for x, term in zip(operands, terms, strict=True)
    ]
    dots = spare[: max(counts, default=0)]
    named = [term.replace("...", "".join(dots[len(dots) - n :])) for term, n in zip(terms, counts, strict=True)]
    letters = "".join(named)
    if explicit:
        result = output.replace("...", "".join(dots))
    else:
        result = "".join(dots) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots))
    sizes = _largest(operands, named)
    squeezed: list[Tensor] = []
    for i, (x, term) in enumerate(zip(operands, named, strict=True)):
        ones = [d for d, letter in enumerate(term) if x.dims is not None and _is_one(x.dims[d]) and not sizes[letter]]
        named[i] = "".join(letter for d, letter in enumerate(term) if d not in ones)
        squeezed.append(x.wide().ranked(x.ndim).squeeze(*ones))
    return g.run_all("Einsum", squeezed, rank=result_rank(g), equation=f"{','.join(named)}->{result}")


def _largest(operands: list[Tensor], terms: list[str]) -> dict[str, bool]:
    """True for each letter all of whose dimensions have size 1."""
    sizes: dict[str, bool] = {}
    for x, term in zip(operands, terms, strict=True):
        for d, letter in enumerate(term):
            sizes[letter] = sizes.get(letter, True) and x.dims is not None and _is_one(x.dims[d])
    return sizes


def _is_one(size: PrimExpr) -> bool:
    return isinstance(size, IntImm) and size.value == 1


# ------------------------------------------------------------------------------------------- attention


def _scores(g: Graph, operator: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled products of queries and keys (batch, heads, m, n), and the number of queries."""
    q, k = query.wide(), key.wide()
    if operator.scale is not None:
        scale = g.const(operator.scale, q.dtype)
    else:
        depth = query.size(3).to(q.dtype)
        scale = 1.0 / g.run("Sqrt", depth)
    left = q.transpose([0, 2, 1, 3])
    product = g.run("MatMul", left, k.transpose([0, 2, 3, 1]), rank=4)
    return product * scale, left


def _weighted(g: Graph, scores: Tensor, value: Tensor, masked: bool) -> Tensor:
    """Values weighted by the softmax of scores; 0 where all of these are -∞."""
    weights = g.run("Softmax", scores, rank=4, axis=3)
    if masked:
        largest = reduced(g, "ReduceMax", scores.ranked(4), [3])
        weights = largest.equal(-math.inf).where(0.0, weights)
        weights = scores.equal(-math.inf).where(0.0, weights)
    out = g.run("MatMul", weights.ranked(4), value.wide().transpose([0, 2, 1, 3]), rank=4)
    return out.transpose([0, 2, 1, 3])


@writer("relax.nn.attention", "relax.nn.attention_bias")
def attention(g: Graph, operator: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    scores, _ = _scores(g, operator, query, key)
    if bias is not None:
        scores = scores + bias.wide()
    if operator.causal_mask is not None:
        m, n = query.size(1), key.size(1)
        seen = _causal(operator, numbers(g, m).unsqueeze(1), numbers(g, n).unsqueeze(0), n - m)
        scores = seen.where(scores, -math.inf)
    every = bias is None and operator.causal_mask is None
    return _weighted(g, scores, value, not every)


def _causal(operator: Any, i: Tensor, j: Tensor, later: Tensor) -> Tensor:
    """True where query i sees key j; `later` is the number of keys beyond that of queries."""
    last = i + later if operator.causal_mask == "BottomRight" else i
    seen = j <= last
    return seen if operator.window_size is None else seen & (j > last - operator.window_size)


@writer("relax.nn.attention_var_len")
def attention_var_len(
    g: Graph, operator: Any, queries: Tensor, keys: Tensor, values: Tensor, starts_q: Tensor, _q: Any,
    starts_k: Tensor | None, _k: Any,
) -> Tensor:  # fmt: skip
    scores, _ = _scores(g, operator, queries, keys)
    first = index_of(starts_q)
    second = first if starts_k is None else index_of(starts_k)
    i, j = numbers(g, queries.size(1)), numbers(g, keys.size(1))
    own, other = _sequence_of(g, i, first).unsqueeze(1), _sequence_of(g, j, second).unsqueeze(0)
    count = starts_q.size(0) - 1
    seen = own.equal(other) & (own >= 0) & (own < count)
    if operator.causal_mask is not None:
        safe = g.run("Max", g.run("Min", own, count - 1), g.const(0, "int64"))
        begin_q, begin_k = (g.run("Gather", starts, safe, rank=2) for starts in (first, second))
        end_q, end_k = (g.run("Gather", starts, safe + 1, rank=2) for starts in (first, second))
        later = (end_k - begin_k) - (end_q - begin_q)
        seen = seen & _causal(operator, i.unsqueeze(1) - begin_q, j.unsqueeze(0) - begin_k, later)
    return _weighted(g, seen.where(scores, -math.inf), values, True)


def _sequence_of(g: Graph, positions: Tensor, starts: Tensor) -> Tensor:
    """The index of the sequence in which each position lies; -1 before the first one."""
    begun = starts.ranked(1).unsqueeze(0) <= positions.unsqueeze(1)
    return reduced(g, "ReduceSum", begun.to("int64").ranked(2), [1], False) - 1
