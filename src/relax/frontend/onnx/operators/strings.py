"""Operators on tensors of strings, which run in the runtime: no kernel reads strings."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from .... import op
from ....expr import ShapeExpr
from ....ir import RelaxExpr
from ....struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from ..emitter import Emitter
from ..model import dtype_name
from ..objects import is_strings, lowered, ndim_of, run, strings_constant, strings_dims
from ..registry import converter
from ..values import Array, Elements, Ints, Object, Tensor, TensorType, Value
from .activation import product

# ------------------------------------------------------------------------------------- moving


def _strings(g: Emitter, name: str, *args: Any, ndim: int = -1) -> Object:
    """The tensor of strings that a builtin of the runtime gives."""
    return Object(run(g, f"strings_{name}", *args), TensorType("string", ndim))


def _operand(g: Emitter, value: Value, name: str = "input") -> RelaxExpr:
    """A tensor of strings as an expression. Raises DiagnosticError for another value."""
    if not is_strings(value):
        raise g.error(f"{name} must be a tensor of strings")
    return lowered(g, value)


def _rank(g: Emitter, value: Value) -> int:
    ndim = ndim_of(g, value)
    if ndim < 0:
        g.unsupported("a tensor of strings whose rank is not known")
    return ndim


def _info(g: Emitter, dtype: str, ndim: int) -> TensorStructInfo:
    return TensorStructInfo(ShapeExpr([]) if ndim == 0 else None, dtype, None, ndim)


def _shaped(g: Emitter, name: str, x: Value, *args: Any, dtype: str) -> Tensor:
    """A tensor of numbers that has the shape of a tensor of strings."""
    return run(g, f"strings_{name}", _operand(g, x), *args, info=_info(g, dtype, ndim_of(g, x)))


@converter("Shape", objects=True)
def shape(g: Emitter, data: Value, *, start: int = 0, end: int | None = None) -> Elements:
    return Elements.of(list(strings_dims(g, data))[start:end])


@converter("Size", objects=True)
def size(g: Emitter, data: Value) -> Elements:
    return Elements.of(product(strings_dims(g, data)))


@converter("Reshape", since=5, objects=True)
def reshape(g: Emitter, data: Value, shape: Tensor, *, allowzero: int = 0) -> Object:
    sizes = g.dims(shape)
    ndim = Elements.of(sizes).ints() or (-1,)
    return _strings(g, "reshape", _operand(g, data), shape, allowzero, ndim=ndim[0])


@converter("Unsqueeze", objects=True)
def unsqueeze(g: Emitter, data: Value, axes: Ints) -> Object:
    ndim = _rank(g, data) + len(axes)
    return _strings(g, "unsqueeze", _operand(g, data), ShapeExpr(g.axes(axes, ndim)), ndim=ndim)


@converter("Squeeze", objects=True)
def squeeze(g: Emitter, data: Value, axes: Ints) -> Object:
    ndim = _rank(g, data)
    return _strings(g, "squeeze", _operand(g, data), ShapeExpr(g.axes(axes, ndim)), ndim=ndim - len(axes))


@converter("Transpose", objects=True)
def transpose(g: Emitter, data: Value, *, perm: Ints | None = None) -> Object:
    ndim = _rank(g, data)
    order = tuple(reversed(range(ndim))) if perm is None else g.axes(perm, ndim)
    return _strings(g, "transpose", _operand(g, data), ShapeExpr(order), ndim=ndim)


@converter("Gather", objects=True)
def gather(g: Emitter, data: Value, indices: Tensor, *, axis: int = 0) -> Object:
    ndim = ndim_of(g, data)
    rank = ndim - 1 + g.ndim(indices) if ndim >= 0 else -1
    return _strings(g, "take", _operand(g, data), indices, axis, ndim=rank)


@converter("Concat", since=4, objects=True)
def concat(g: Emitter, *inputs: Value, axis: int) -> Object:
    return _strings(g, "join", axis, *(_operand(g, x) for x in inputs), ndim=ndim_of(g, inputs[0]))


@converter("Where", objects=True)
def where(g: Emitter, condition: Tensor, x: Value, y: Value) -> Object:
    ndims = g.ndim(condition), ndim_of(g, x), ndim_of(g, y)
    ndim = -1 if -1 in ndims else max(ndims)
    return _strings(g, "where", condition, _operand(g, x), _operand(g, y), ndim=ndim)


@converter("Equal", objects=True)
def equal(g: Emitter, a: Value, b: Value) -> Tensor:
    ndims = ndim_of(g, a), ndim_of(g, b)
    info = _info(g, "bool", -1 if -1 in ndims else max(ndims))
    return run(g, "strings_equal", _operand(g, a), _operand(g, b), info=info)


@converter("Cast", objects=True)
def cast(g: Emitter, x: Value, *, to: int) -> Value:
    dtype = dtype_name(to)
    if dtype == "string":
        return x
    if dtype == "bool" or dtype.startswith(("complex", "float8", "float4", "int2", "int4", "uint2", "uint4")):
        g.unsupported(f"a conversion of strings to {dtype}")
    return _shaped(g, "to_numbers", x, dtype, dtype=dtype)


# ------------------------------------------------------------------------------------- text


@converter("StringConcat", since=20)
def string_concat(g: Emitter, x: Value, y: Value) -> Object:
    ndims = ndim_of(g, x), ndim_of(g, y)
    ndim = -1 if -1 in ndims else max(ndims)
    return _strings(g, "concat", _operand(g, x), _operand(g, y), ndim=ndim)


@converter("StringSplit", since=20)
def string_split(g: Emitter, x: Value, *, delimiter: str = "", maxsplit: int = -1) -> Any:
    ndim = ndim_of(g, x)
    info = TupleStructInfo([ObjectStructInfo(), _info(g, "int64", ndim)])
    parts, counts = g.parts(run(g, "strings_split", _operand(g, x), delimiter, maxsplit, info=info))
    return Object(parts, TensorType("string", ndim + 1 if ndim >= 0 else -1)), counts


@converter("StringNormalizer", since=10)
def string_normalizer(
    g: Emitter, x: Value, *, case_change_action: str = "NONE", is_case_sensitive: int = 0, stopwords: Any = ()
) -> Object:
    if case_change_action not in ("NONE", "LOWER", "UPPER"):
        raise g.error(f"{case_change_action!r} is no action", code="E6002")
    words = json.dumps(list(stopwords), ensure_ascii=False)
    operands = _operand(g, x), case_change_action, is_case_sensitive, words
    return _strings(g, "normalize", *operands, ndim=ndim_of(g, x))


@converter("RegexFullMatch", since=20)
def regex_full_match(g: Emitter, x: Value, *, pattern: str) -> Tensor:
    try:
        re.compile(pattern)
    except re.error as error:
        raise g.error(f"the pattern {pattern!r} cannot be read: {error}", code="E6003") from None
    return _shaped(g, "match", x, pattern, dtype="bool")


@converter("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    g: Emitter,
    x: Value,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Ints,
    ngram_indexes: Ints,
    pool_int64s: Ints = (),
    pool_strings: Any = (),
    weights: Any = (),
) -> Tensor:
    ndim = ndim_of(g, x)
    pooled = len(pool_strings) if is_strings(x) else len(pool_int64s)
    _check_ngrams(g, ngram_counts, ngram_indexes, pooled)
    if mode not in ("TF", "IDF", "TFIDF") or not 1 <= min_gram_length <= max_gram_length:
        lengths = f"{min_gram_length} to {max_gram_length}"
        raise g.error(f"its mode is {mode!r}, for n-grams of {lengths} items", code="E6002")
    if is_strings(x):
        data = lowered(g, x)
        pool = strings_constant(g, np.array(list(pool_strings), dtype=object))
        dims = strings_dims(g, x)
    else:
        data = g.emit(op.astype(g.tensor(x), "int64"))
        pool = g.const(pool_int64s, "int64")
        dims = g.dims(data)
    if ndim not in (1, 2):
        raise g.error(f"its input must have one or two dimensions, found {ndim}", code="E6003")
    counts = run(
        g,
        "count_ngrams",
        data,
        pool,
        ShapeExpr(ngram_counts),
        ShapeExpr(ngram_indexes),
        min_gram_length,
        max_gram_length,
        max_skip_count,
        info=TensorStructInfo(ShapeExpr([*dims[:-1], max(ngram_indexes, default=-1) + 1]), "float32"),
    )
    scale = _weights(g, weights, ngram_indexes)
    if mode == "TF":
        return counts
    if mode == "IDF":
        present = op.greater(counts, g.const(0, "float32"))
        return op.where(present, g.const(scale), g.const(0, "float32"))
    return op.multiply(counts, g.const(scale))


MOST_COLUMNS = 1 << 24
"""Maximum number of columns of n-grams."""


def _check_ngrams(g: Emitter, starts: Ints, columns: Ints, pooled: int) -> None:
    """Raise DiagnosticError if a pool of so many items does not hold an n-gram for each column."""
    if not starts:
        raise g.error("ngram_counts is empty", code="E6002")
    if max(columns, default=0) >= MOST_COLUMNS:
        g.unsupported(f"an n-gram in column {max(columns)}")
    ends = (*starts[1:], pooled)
    count = sum(max(end - begin, 0) // size for size, (begin, end) in enumerate(zip(starts, ends, strict=True), 1))
    if list(starts) != sorted(starts) or min((*starts, *columns), default=0) < 0 or count != len(columns):
        raise g.error(f"its pool has {count} n-grams for {len(columns)} columns", code="E6002")


def _weights(g: Emitter, weights: Any, columns: Ints) -> Array:
    """The weight of each column: that of its n-gram, 1 without weights."""
    scale = np.ones(max(columns, default=-1) + 1, "float32")
    if not weights:
        return scale
    if len(weights) != len(columns):
        raise g.error(f"it has {len(weights)} weights for {len(columns)} n-grams", code="E6003")
    scale[list(columns)] = np.asarray(weights, "float32")
    if not np.array_equal(scale[list(columns)], np.asarray(weights, "float32")):
        g.unsupported("a column with n-grams of several weights")
    return scale


# ------------------------------------------------------------------------------------- labels


def encoded(g: Emitter, x: Value, keys: Array, values: Array, default: Array) -> Value:
    """The value beside the key of each label; arrays of strings have the dtype object."""
    data = lowered(g, x) if is_strings(x) else g.tensor(x)
    if is_strings(x) != (keys.dtype == object):
        raise g.error("its input and its keys must be both strings or both numbers", code="E6003")
    if not is_strings(x) and str(g.dtype(data)) != keys.dtype.name:
        raise g.error(f"its input of {g.dtype(data)} does not go with keys of {keys.dtype}", code="E6003")
    operands = data, _labels(g, keys), _labels(g, values), _labels(g, default)
    ndim = ndim_of(g, x)
    if values.dtype == object:
        return Object(run(g, "encode_labels", *operands), TensorType("string", ndim))
    info: Any = TensorStructInfo(None, values.dtype.name, None, ndim)
    if not is_strings(x) and ndim >= 0:
        info = TensorStructInfo(ShapeExpr(g.dims(data)), values.dtype.name)
    return run(g, "encode_labels", *operands, info=info)


def _labels(g: Emitter, array: Array) -> RelaxExpr:
    return strings_constant(g, array) if array.dtype == object else g.const(array)
