"""Features and linear models of ai.onnx.ml."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import op
from ....ir import RelaxExpr
from ..emitter import Emitter
from ..registry import converter
from ..values import Array, Tensor, Value
from .labels import Classes, class_values, labels_at, post_transformed

ML = "ai.onnx.ml"


def floats(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """A tensor of numbers in float32."""
    return g.emit(op.astype(x, "float32"))


# ------------------------------------------------------------------------------------- features


@converter("Scaler", domain=ML)
def scaler(g: Emitter, x: Tensor, *, offset: Any = (0.0,), scale: Any = (1.0,)) -> Tensor:
    moved = op.subtract(floats(g, x), g.const(offset, "float32"))
    return op.multiply(moved, g.const(scale, "float32"))


@converter("Normalizer", domain=ML)
def normalizer(g: Emitter, x: Tensor, *, norm: str = "MAX") -> Tensor:
    rows = floats(g, x)
    match norm:
        case "MAX":
            size = op.max(rows, -1, True)
        case "L1":
            size = op.sum(op.abs(rows), -1, True)
        case "L2":
            size = op.sqrt(op.sum(op.square(rows), -1, True))
        case _:
            raise g.error(f"{norm!r} is no norm", code="E6002")
    size = g.emit(size)
    none = op.equal(size, g.const(0.0, "float32"))
    return op.divide(rows, op.where(none, g.const(1.0, "float32"), size))


@converter("Imputer", domain=ML)
def imputer(
    g: Emitter,
    x: Tensor,
    *,
    imputed_value_floats: Any = (),
    imputed_value_int64s: Any = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    dtype = g.dtype(x)
    values = imputed_value_floats if dtype.is_float else imputed_value_int64s
    replaced = replaced_value_float if dtype.is_float else replaced_value_int64
    if not values:
        raise g.error(f"it has no values for an input of {dtype}", code="E6002")
    absent = op.isnan(x) if dtype.is_float and math.isnan(replaced) else op.equal(x, g.const(replaced, str(dtype)))
    return op.where(absent, g.const(values, str(dtype)), x)


@converter("Binarizer", domain=ML)
def binarizer(g: Emitter, x: Tensor, *, threshold: float = 0.0) -> Tensor:
    dtype = str(g.dtype(x))
    if not g.dtype(x).is_float:
        g.unsupported(f"an input of {dtype}")
    return op.astype(op.greater(x, g.const(threshold, dtype)), dtype)


@converter("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    rows = op.expand_dims(x, 0) if g.ndim(x) == 1 else x
    return op.take(rows, op.flatten(y), -1)


@converter("FeatureVectorizer", domain=ML)
def feature_vectorizer(g: Emitter, *inputs: Tensor, inputdimensions: Any = ()) -> Tensor:
    rows = [op.expand_dims(x, 0) if g.ndim(x) == 1 else x for x in (floats(g, tensor) for tensor in inputs)]
    return rows[0] if len(rows) == 1 else op.concat(rows, 1)


# ------------------------------------------------------------------------------------- linear models


def linear(g: Emitter, x: RelaxExpr, coefficients: Any, intercepts: Any, targets: int) -> RelaxExpr:
    """Scores of linear models, shape (rows, targets); a row of coefficients is one model."""
    rows = floats(g, op.expand_dims(x, 0) if g.ndim(x) == 1 else x)
    if targets <= 0 or len(coefficients) % targets or len(intercepts) not in (0, targets):
        raise g.error(
            f"{len(coefficients)} coefficients and {len(intercepts)} intercepts do not go with {targets} targets",
            code="E6002",
        )
    weights: Array = np.array(coefficients, "float32")
    scores = op.matmul(rows, g.const(np.ascontiguousarray(weights.reshape(targets, -1).T)))
    return g.emit(op.add(scores, g.const(intercepts, "float32")) if intercepts else scores)


@converter("LinearRegressor", domain=ML)
def linear_regressor(
    g: Emitter,
    x: Tensor,
    *,
    coefficients: Any = (),
    intercepts: Any = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    return post_transformed(g, linear(g, x, coefficients, intercepts, targets), post_transform)


@converter("LinearClassifier", domain=ML)
def linear_classifier(
    g: Emitter,
    x: Tensor,
    *,
    coefficients: Any,
    intercepts: Any = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
    **labels: Any,
) -> tuple[Value, Value]:
    classes = Classes.of(g, labels, "classlabels_ints")
    targets = len(intercepts) or len(classes)
    scores = linear(g, x, coefficients, intercepts, targets)
    if targets == 1 and len(classes) == 2:
        positive = op.greater(op.squeeze(scores, [1]), g.const(0.0, "float32"))
        pair = class_values(g, scores, post_transform, complement=True)
        return labels_at(g, op.astype(positive, "int64"), classes), pair
    if targets != len(classes):
        raise g.error(f"{targets} targets do not go with {len(classes)} class labels", code="E6002")
    return labels_at(g, op.argmax(scores, 1), classes), post_transformed(g, scores, post_transform)
