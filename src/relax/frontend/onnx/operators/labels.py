"""Labels of ai.onnx.ml: class labels, scores of classes, and encoders of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import op
from ....ir import RelaxExpr
from ....runtime.records import dataclass
from ..emitter import Emitter
from ..objects import is_strings, run, strings_constant
from ..registry import converter
from ..values import Array, MapType, Object, SequenceType, Tensor, TensorType, Value
from .strings import encoded

ML = "ai.onnx.ml"

# ------------------------------------------------------------------------------------- classes


@dataclass(frozen=True)
class Classes:
    """The labels of a classifier."""

    labels: Array
    """Strings (dtype object), or int64."""

    @staticmethod
    def of(g: Emitter, attributes: dict[str, Any], ints: str) -> Classes:
        """The labels in the attribute of this name, or in ``classlabels_strings``."""
        texts, numbers = attributes.get("classlabels_strings", ()), attributes.get(ints, ())
        if len(texts) + len(numbers) < 2:
            g.unsupported("a classifier with less than two class labels")
        return Classes(_texts(texts) if texts else np.array(numbers, np.int64))

    def __len__(self) -> int:
        return len(self.labels)


def _texts(items: Any) -> Array:
    texts: Array = np.empty(len(items), dtype=object)
    texts[:] = list(items)
    return texts


def labels_at(g: Emitter, index: RelaxExpr, classes: Classes) -> Value:
    """The labels at a vector of indices."""
    if classes.labels.dtype != object:
        return g.emit(op.take(g.const(classes.labels), index, 0))
    texts = run(g, "strings_take", strings_constant(g, classes.labels), g.emit(index), 0)
    return Object(texts, TensorType("string", 1))


def class_values(g: Emitter, score: RelaxExpr, transform: str, *, complement: bool) -> RelaxExpr:
    """The scores of two classes, shape (rows, 2), of the second one's: the first is 1 - it, or its negative."""
    if transform == "PROBIT":
        g.unsupported("the post transform PROBIT")
    if transform == "LOGISTIC":
        return g.emit(op.concat([op.sigmoid(op.negative(score)), op.sigmoid(score)], 1))
    other = op.subtract(g.const(1.0, "float32"), score) if complement else op.negative(score)
    return g.emit(op.concat([other, score], 1))


_NEAR_ZERO = 1e-7
"""Scores of at most this magnitude are no classes to SOFTMAX_ZERO."""


def post_transformed(g: Emitter, scores: RelaxExpr, transform: str) -> RelaxExpr:
    """Scores, a row for each sample, after a transform that ai.onnx.ml names."""
    match transform:
        case "NONE":
            return g.emit(scores)
        case "LOGISTIC":
            return g.emit(op.sigmoid(scores))
        case "SOFTMAX":
            return g.emit(op.nn.softmax(scores, -1))
        case "SOFTMAX_ZERO":
            scores = g.emit(scores)
            dtype = str(g.dtype(scores))
            most = g.emit(op.max(scores, -1, True))
            present = op.greater(op.abs(scores), g.const(_NEAR_ZERO, dtype))
            present = g.emit(op.logical_or(present, op.isnan(scores)))
            powers = g.emit(op.exp(op.subtract(scores, most)))
            kept = g.emit(op.where(present, powers, g.const(0, dtype)))
            total = g.emit(op.sum(kept, -1, True))
            small = op.multiply(scores, op.exp(op.negative(most)))
            numerators = g.emit(op.where(present, powers, small))
            none = op.equal(total, g.const(0, dtype))
            return g.emit(op.divide(numerators, op.where(none, g.const(1, dtype), total)))
        case _:
            g.unsupported(f"the post transform {transform}")


# ------------------------------------------------------------------------------------- encoders


@converter("LabelEncoder", domain=ML)
def label_encoder_1(
    g: Emitter, x: Value, *, classes_strings: Any, default_int64: int = -1, default_string: str = "_Unused"
) -> Value:
    return _between(g, x, np.arange(len(classes_strings)), classes_strings, default_int64, default_string)


@converter("CategoryMapper", domain=ML)
def category_mapper(
    g: Emitter,
    x: Value,
    *,
    cats_int64s: Any,
    cats_strings: Any,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Value:
    return _between(g, x, np.array(cats_int64s, np.int64), cats_strings, default_int64, default_string)


def _between(g: Emitter, x: Value, numbers: Array, texts: Any, number: int, text: str) -> Value:
    """Strings to integers, or integers to strings."""
    if len(texts) != len(numbers):
        raise g.error(f"{len(texts)} strings do not go with {len(numbers)} integers", code="E6002")
    if is_strings(x):
        return encoded(g, x, _texts(texts), numbers, np.array([number]))
    return encoded(g, x, numbers, _texts(texts), _texts([text]))


_DTYPES = {"int64s": "int64", "floats": "float32"}


@converter("LabelEncoder", since=2, domain=ML)
def label_encoder(g: Emitter, x: Value, **attributes: Any) -> Value:
    keys, values = _listed(g, attributes, "keys"), _listed(g, attributes, "values")
    if keys.size != values.size:
        raise g.error(f"{keys.size} keys do not go with {values.size} values", code="E6002")
    default = attributes.get("default_tensor")
    if default is None and values.dtype == object:
        default = _texts([attributes.get("default_string", "_Unused")])
    elif default is None:
        is_float = values.dtype.kind == "f"
        number = attributes.get("default_float", -0.0) if is_float else attributes.get("default_int64", -1)
        default = np.array([number], values.dtype)
    if default.size != 1 or default.dtype != values.dtype:
        raise g.error("the default must be one element of the dtype of the values", code="E6002")
    return encoded(g, x, keys, values, default)


def _listed(g: Emitter, attributes: dict[str, Any], prefix: str) -> Array:
    """The keys or values: in one of four attributes."""
    tensor = attributes.get(f"{prefix}_tensor")
    if tensor is not None:
        return tensor
    if f"{prefix}_strings" in attributes:
        return _texts(attributes[f"{prefix}_strings"])
    for kind, dtype in _DTYPES.items():
        if f"{prefix}_{kind}" in attributes:
            return np.array(attributes[f"{prefix}_{kind}"], dtype)
    raise g.error(f"the attribute {prefix}_tensor is missing", code="E6002")


@converter("OneHotEncoder", domain=ML)
def one_hot_encoder(g: Emitter, x: Value, *, cats_int64s: Any = (), cats_strings: Any = (), zeros: int = 1) -> Tensor:
    """One-hot encoding of the index of each category; all zeros for an unknown category."""
    if not zeros:
        g.unsupported("an error for unknown categories (zeros = 0)")
    keys = _texts(cats_strings) if is_strings(x) else np.array(cats_int64s, np.int64)
    if is_strings(x):
        count = len(cats_strings)
        positions = encoded(g, x, keys, np.arange(count), np.array([-1]))
    else:
        positions = op.astype(g.tensor(x), "int64")
    table = np.arange(len(keys)) if is_strings(x) else keys
    same = op.equal(op.expand_dims(g.emit(g.tensor(positions)), -1), g.const(table))
    return op.astype(same, "float32")


# ------------------------------------------------------------------------------------- maps


@converter("ZipMap", domain=ML)
def zip_map(g: Emitter, x: Tensor, *, classlabels_int64s: Any = (), classlabels_strings: Any = ()) -> Value:
    """A sequence of maps, from the labels to the numbers of each row."""
    if bool(classlabels_int64s) == bool(classlabels_strings):
        raise g.error("one of classlabels_int64s and classlabels_strings must be given", code="E6002")
    if g.ndim(x) not in (1, 2):
        raise g.error(f"its input must have 1 or 2 dimensions, found {g.ndim(x)}", code="E6003")
    labels = (
        strings_constant(g, _texts(classlabels_strings))
        if classlabels_strings
        else g.const(classlabels_int64s, "int64")
    )
    return Object(run(g, "zip_map", labels, g.emit(x)), SequenceType(MapType()))


@converter("DictVectorizer", "CastMap", domain=ML)
def dict_vectorizer(g: Emitter, x: Value, **attributes: Any) -> Value:
    g.unsupported("a map as an input")
