"""Support vector machines of ai.onnx.ml."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from .... import op
from ....expr import ShapeExpr
from ....ir import RelaxExpr
from ....prim import const
from ....struct_info import TensorStructInfo
from ..emitter import Emitter
from ..objects import run
from ..registry import converter
from ..values import Array, Tensor, Value
from .features import ML, floats, linear
from .labels import Classes, class_values, labels_at, post_transformed


@converter("SVMRegressor", domain=ML)
def svm_regressor(
    g: Emitter,
    x: Tensor,
    *,
    coefficients: Any,
    kernel_params: Any = (0.0, 0.0, 3.0),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Any = (0.0,),
    support_vectors: Any = (),
) -> Tensor:
    if len(rho) != 1 or len(kernel_params) != 3:
        raise g.error(f"it has {len(rho)} of rho and {len(kernel_params)} kernel_params", code="E6002")
    if not n_supports:
        scores = linear(g, x, coefficients, rho, 1)
    else:
        vectors: Array = np.array(support_vectors, "float32")
        weights: Array = np.array(coefficients, "float32")
        if len(weights) != n_supports or len(vectors) % n_supports:
            raise g.error(f"its coefficients and vectors do not go with {n_supports} supports", code="E6002")
        near = _kernel(g, floats(g, x), g.const(vectors.reshape(n_supports, -1)), kernel_type, kernel_params)
        scores = op.matmul(near, g.const(weights.reshape(n_supports, 1)))
        scores = g.emit(op.add(scores, g.const(rho[:1], "float32")))
    if one_class:
        above = op.greater(scores, g.const(0.0, "float32"))
        return op.where(above, g.const(1.0, "float32"), g.const(-1.0, "float32"))
    return post_transformed(g, scores, post_transform)


def _kernel(g: Emitter, x: RelaxExpr, vectors: RelaxExpr, kind: str, params: Any) -> RelaxExpr:
    """The kernel function of each row with each support vector, shape (rows, vectors)."""
    gamma, coef, degree = (g.const(value, "float32") for value in params)
    if kind == "RBF":
        apart = op.subtract(op.expand_dims(x, 1), op.expand_dims(vectors, 0))
        return g.emit(op.exp(op.negative(op.multiply(gamma, op.sum(op.square(apart), -1)))))
    products = op.matmul(x, op.permute_dims(vectors, [1, 0]))
    if kind == "LINEAR":
        return g.emit(products)
    scaled = op.add(op.multiply(products, gamma), coef)
    match kind:
        case "POLY":
            return g.emit(op.power(scaled, degree))
        case "SIGMOID":
            return g.emit(op.tanh(scaled))
        case _:
            raise g.error(f"{kind!r} is no kernel", code="E6002")


# ------------------------------------------------------------------------------------- classes


@converter("SVMClassifier", domain=ML)
def svm_classifier(
    g: Emitter,
    x: Tensor,
    *,
    coefficients: Any,
    kernel_params: Any = (0.0, 0.0, 3.0),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Any = (),
    prob_b: Any = (),
    rho: Any,
    support_vectors: Any = (),
    vectors_per_class: Any = (),
    **labels: Any,
) -> tuple[Value, Value]:
    """With support vectors, each pair of classes is decided by a score, and votes for one; else each class has a score.

    The scores are those of pairs; of classes if `prob_a` and `prob_b` say how a pair's score becomes a probability.
    """
    classes = Classes.of(g, labels, "classlabels_ints")
    rows = floats(g, op.expand_dims(x, 0) if g.ndim(x) == 1 else x)
    if not vectors_per_class:
        return _of_linear_scores(g, rows, coefficients, rho, post_transform, classes, bool(prob_a))
    weights = _weights_of_pairs(g, coefficients, rho, vectors_per_class, len(classes))
    vectors: Array = np.array(support_vectors, "float32")
    if not len(vectors) or len(vectors) % len(weights) or len(kernel_params) != 3:
        raise g.error(
            f"it has {len(vectors)} numbers of {len(weights)} support vectors, {len(kernel_params)} kernel_params",
            code="E6002",
        )
    vectors = vectors.reshape(len(weights), -1)
    near = _kernel(g, rows, g.const(vectors), kernel_type, kernel_params)
    scores = g.emit(op.add(op.matmul(near, g.const(weights)), g.const(rho, "float32")))
    label = labels_at(g, _voted(g, scores, len(classes)), classes)
    if prob_a:
        shares = _probabilities(g, scores, prob_a, prob_b, len(classes))
        return label, post_transformed(g, shares, post_transform)
    if len(classes) == 2:
        return label, class_values(g, scores, post_transform, complement=post_transform != "NONE")
    return label, post_transformed(g, scores, post_transform)


def _of_linear_scores(
    g: Emitter, rows: RelaxExpr, coefficients: Any, rho: Any, transform: str, classes: Classes, has_probabilities: bool
) -> tuple[Value, Value]:
    """The class of the greatest score; the second of two if a score is great enough, as ONNX Runtime decides."""
    if len(rho) != 1:
        raise g.error(f"it has {len(rho)} of rho, expected 1 without support vectors", code="E6002")
    scores = linear(g, rows, coefficients, list(rho) * len(classes), len(classes))
    best = op.argmax(scores, 1)
    if len(classes) == 2 and not has_probabilities:
        greatest = op.max(scores, 1)
        zero, half = g.const(0.0, "float32"), g.const(0.5, "float32")
        sure = op.greater(greatest, zero) if min(coefficients) < 0 else op.greater_equal(greatest, half)
        best = op.where(sure, g.const(1), best)
    return labels_at(g, g.emit(best), classes), post_transformed(g, scores, transform)


def _weights_of_pairs(g: Emitter, coefficients: Any, rho: Any, per_class: Any, classes: int) -> Array:
    """The weight of each support vector in the score of each pair of classes, shape (vectors, pairs).

    A vector has a coefficient for each other class; it counts in the pairs of its own class.
    """
    ends: Array = np.cumsum([0, *per_class])
    pairs = list(combinations(range(classes), 2))
    table: Array = np.array(coefficients, "float32")
    misfit = len(per_class) != classes or min(per_class) < 0 or len(table) != (classes - 1) * ends[-1]
    if misfit or len(rho) != len(pairs):
        raise g.error(
            f"{len(table)} coefficients and {len(rho)} of rho do not go with "
            f"{ends[-1]} support vectors of {classes} classes",
            code="E6002",
        )
    table = table.reshape(classes - 1, -1)
    weights: Array = np.zeros((int(ends[-1]), len(pairs)), "float32")
    for column, (one, other) in enumerate(pairs):
        for own, row in ((one, other - 1), (other, one)):
            vectors = slice(int(ends[own]), int(ends[own + 1]))
            weights[vectors, column] = table[row, vectors]
    return weights


def _voted(g: Emitter, scores: RelaxExpr, classes: int) -> RelaxExpr:
    """The first of the classes with the most votes: a pair votes for its first class if its score is above 0."""
    pairs: Array = np.array(list(combinations(range(classes), 2)))
    firsts, seconds = (np.eye(classes, dtype="float32")[pairs[:, side]] for side in (0, 1))
    won = g.emit(op.astype(op.greater(scores, g.const(0.0, "float32")), "float32"))
    lost = op.subtract(g.const(1.0, "float32"), won)
    votes = op.add(op.matmul(won, g.const(firsts)), op.matmul(lost, g.const(seconds)))
    return g.emit(op.argmax(votes, 1))


def _probabilities(g: Emitter, scores: RelaxExpr, prob_a: Any, prob_b: Any, classes: int) -> RelaxExpr:
    """The probabilities of classes for those of pairs: a logistic function of each pair's score."""
    pairs = classes * (classes - 1) // 2
    a, b = (g.fitting(values, pairs, name) for values, name in ((prob_a, "prob_a"), (prob_b, "prob_b")))
    exponent = op.add(op.multiply(scores, g.const(a, "float32")), g.const(b, "float32"))
    likely = g.emit(op.sigmoid(op.negative(exponent)))
    result = TensorStructInfo(ShapeExpr([g.dims(scores)[0], const(classes, "int64")]), "float32")
    return run(g, "coupled_probabilities", likely, classes, info=result)
