"""Tree ensembles of ai.onnx.ml: all rows step down all trees together, one kernel call for each level.

The nodes of all trees are rows of one table; a leaf leads to itself::

    at = roots                                                                      # (rows, trees)
    at = where(x[row, feature[at]] <= value[at], true[at], false[at])               # as often as the deepest tree asks
    y  = sum(weights[at], axis=1)                                                   # (rows, targets)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .... import op, te
from ....expr import ShapeExpr
from ....ir import RelaxExpr
from ....prim import IntImm, PrimExpr, Select, intrin
from ....runtime.records import dataclass
from ..emitter import Emitter
from ..registry import converter
from ..values import Array, Tensor, Value
from .labels import Classes, class_values, labels_at, post_transformed

ML = "ai.onnx.ml"

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
LEAF = 7
"""The mode of a leaf."""
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")

_COMPARED: dict[int, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    0: lambda x, value: x <= value,
    1: lambda x, value: x < value,
    2: lambda x, value: x >= value,
    3: lambda x, value: x > value,
    4: lambda x, value: x.equal(value),
    5: lambda x, value: intrin.logical_not(x.equal(value)),
}


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees, one array for each property, and the weights of the leaves."""

    feature: Array
    value: Array
    mode: Array
    true: Array
    false: Array
    missing: Array
    """1 where a NaN goes the way of a condition that holds."""
    roots: Array
    weights: Array
    """Of each node for each target, shape (nodes, targets)."""
    weighted: Array
    """True where a node has a weight, of the same shape."""


# ------------------------------------------------------------------------------------- reading attributes

MOST_WEIGHTS = 1 << 27
"""Nodes times targets."""


def _column(g: Emitter, attributes: dict[str, Any], name: str, count: int = -1) -> Any:
    """An attribute with a value for each of `count` rows. Raises DiagnosticError for another number of them."""
    tensor = attributes.get(f"{name}_as_tensor")
    values = attributes.get(name, ()) if tensor is None else tensor
    if np.ndim(values) != 1 or (tensor is not None and tensor.dtype.kind not in "biuf"):
        raise g.error(f"{name} must be a vector of numbers or names", code="E6002")
    if count not in (-1, len(values)):
        raise g.error(f"{name} has {len(values)} elements, expected {count}", code="E6002")
    return values


def _no_weights(g: Emitter, nodes: int, targets: int) -> Array:
    if not 0 < targets <= max(MOST_WEIGHTS // max(nodes, 1), 1):
        raise g.error(f"there cannot be {targets} targets for {nodes} nodes", code="E6003")
    return np.zeros((nodes, targets))


def _checked(g: Emitter, forest: Forest) -> Forest:
    """The forest. Raises DiagnosticError for columns of different lengths, and for indices out of range."""
    count = len(forest.mode)
    columns = forest.feature, forest.value, forest.true, forest.false, forest.missing
    if any(len(column) != count for column in columns):
        raise g.error("the attributes nodes_* must have one length", code="E6002")
    for name, rows in (("child", forest.true), ("child", forest.false), ("root", forest.roots)):
        if rows.size and not 0 <= rows.min() <= rows.max() < count:
            raise g.error(f"a {name} of a tree is none of its {count} nodes", code="E6002")
    if not len(forest.roots):
        raise g.error("there is no tree", code="E6002")
    if forest.feature.min() < 0 or not 0 <= forest.mode.min() <= forest.mode.max() <= LEAF:
        raise g.error("a feature or a mode of a node is out of range", code="E6002")
    return forest


def _children(nodes: dict[str, Any], which: str, rows_by_node: dict[tuple[int, int], int]) -> Array:
    """The rows of the children; of a leaf, its own."""
    rows: list[int] = []
    ids = zip(nodes["treeids"], nodes[f"{which}nodeids"], nodes["modes"], strict=True)
    for row, (tree, child, mode) in enumerate(ids):
        rows.append(row if mode == "LEAF" else rows_by_node[tree, child])
    return np.array(rows, np.int64)


def _forest(g: Emitter, attributes: dict[str, Any], kind: str, targets: int, dtype: str) -> Forest:
    """The forest of TreeEnsembleClassifier (`kind` "class") or TreeEnsembleRegressor ("target")."""
    names = "treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids"
    count = len(_column(g, attributes, "nodes_nodeids"))
    nodes: dict[str, Any] = {name: _column(g, attributes, f"nodes_{name}", count) for name in names}
    values = _column(g, attributes, "nodes_values", count)
    leaf_ids = _column(g, attributes, f"{kind}_nodeids")
    leaf_trees = _column(g, attributes, f"{kind}_treeids", len(leaf_ids))
    unknown = set(nodes["modes"]) - {*MODES[:6], "LEAF"}
    if unknown:
        raise g.error(f"{min(unknown)!r} is no mode of a node", code="E6002")
    rows_by_node = {pair: row for row, pair in enumerate(zip(nodes["treeids"], nodes["nodeids"], strict=True))}
    try:
        true, false = (_children(nodes, which, rows_by_node) for which in ("true", "false"))
        rows = [rows_by_node[pair] for pair in zip(leaf_trees, leaf_ids, strict=True)]
    except KeyError as error:
        raise g.error(f"a tree has no node {error}", code="E6002") from None
    inner = np.array([mode != "LEAF" for mode in nodes["modes"]], bool)
    children = {*true[inner].tolist(), *false[inner].tolist()}
    missing = attributes.get("nodes_missing_value_tracks_true") or np.zeros(count)
    forest = Forest(
        feature=np.array(nodes["featureids"], np.int64) * inner,
        value=np.asarray(values, dtype),
        mode=np.array([LEAF if mode == "LEAF" else MODES.index(mode) for mode in nodes["modes"]], np.int64),
        true=true,
        false=false,
        missing=np.asarray(missing, np.int64),
        roots=np.array([row for row in range(count) if row not in children], np.int64),
        weights=_no_weights(g, count, targets).astype(dtype),
        weighted=_no_weights(g, count, targets).astype(bool),
    )
    ids = _column(g, attributes, f"{kind}_ids", len(rows))
    return _with_weights(g, forest, rows, ids, _column(g, attributes, f"{kind}_weights", len(rows)))


def _with_weights(g: Emitter, forest: Forest, rows: Sequence[int], targets: Sequence[int], weights: Any) -> Forest:
    _checked(g, forest)
    if any(not 0 <= target < forest.weights.shape[1] for target in targets):
        raise g.error("a leaf has a weight for a target that there is not", code="E6002")
    for row, target, weight in zip(rows, targets, weights, strict=True):
        forest.weights[row, target] += weight
        forest.weighted[row, target] = True
    return forest


# ------------------------------------------------------------------------------------- stepping down


def depth(g: Emitter, forest: Forest) -> int:
    """The number of steps from the roots to the deepest leaf. Raises DiagnosticError for nodes in a circle."""
    level: Array = forest.roots
    for steps in range(len(forest.mode) + 1):
        level = level[forest.mode[level] != LEAF]
        if not level.size:
            return steps
        level = np.unique(np.concatenate([forest.true[level], forest.false[level]]))
    raise g.error("the nodes of a tree form a circle", code="E6002")


def leaves(g: Emitter, x: RelaxExpr, forest: Forest) -> RelaxExpr:
    """The rows of the leaves that each row of `x` reaches in each tree, shape (rows, trees)."""
    steps = depth(g, forest)
    x, feature = _used_features(g, x, forest.feature)
    modes = sorted(set(forest.mode[forest.mode != LEAF].tolist()))
    misses = bool(forest.missing.any())
    columns = feature, forest.value, forest.mode, forest.true, forest.false, forest.missing
    tables = [g.const(np.ascontiguousarray(column)) for column in columns]
    rows, trees = g.dims(x)[0], len(forest.roots)
    at = g.emit(op.broadcast_to(g.const(forest.roots.reshape(1, -1)), ShapeExpr([rows, trees])))

    def step(x: te.Tensor, at: te.Tensor, *columns: te.Tensor) -> te.Tensor:
        feature, value, mode, true, false, missing = columns

        def moved(row: Any, tree: Any) -> PrimExpr:
            node = at(row, tree)
            read, threshold = x(row, feature(node)), value(node)
            holds = _COMPARED[modes[0]](read, threshold)
            for code in modes[1:]:
                holds = Select(mode(node).equal(code), _COMPARED[code](read, threshold), holds)
            if misses:
                holds = intrin.any(holds, intrin.all(te.isnan(read), missing(node).equal(1)))
            return Select(holds, true(node), false(node))

        return te.compute(at.shape, moved, "tree_step")

    for _ in range(steps):
        at = g.builder.emit_te(step, x, at, *tables, primfunc_name_hint="tree_step")
    return at


def _used_features(g: Emitter, x: RelaxExpr, feature: Array) -> tuple[RelaxExpr, Array]:
    """The rows with the features that trees read; all of them if there are known to be enough."""
    _, width = g.dims(x)
    highest = int(feature.max(initial=0))
    if isinstance(width, IntImm):
        if highest >= width.value:
            raise g.error(f"a tree reads feature {highest}, the rows have {width.value}", code="E6003")
        return x, feature
    used: Array = np.unique(feature)
    columns = {number: column for column, number in enumerate(used.tolist())}
    renamed = np.array([columns[number] for number in feature.tolist()], np.int64)
    return g.emit(op.take(x, g.const(used), 1)), renamed


def _rows_of(g: Emitter, x: RelaxExpr) -> tuple[RelaxExpr, str]:
    """The input as rows of floats, and the dtype trees compare in: that of the input if it is float64."""
    if g.ndim(x) != 2:
        raise g.error(f"its input must have two dimensions, found {g.ndim(x)}", code="E6003")
    dtype = str(g.dtype(x)) if str(g.dtype(x)) in ("float64", "float16") else "float32"
    return g.emit(op.astype(x, dtype)), dtype


def aggregated(g: Emitter, at: RelaxExpr, forest: Forest, aggregate: str) -> RelaxExpr:
    """The weights of the leaves put together over the trees, shape (rows, targets)."""
    if aggregate in ("SUM", "AVERAGE"):
        total = op.sum(op.take(g.const(forest.weights), at, 0), 1)
        count = g.const(len(forest.roots), forest.weights.dtype.name)
        return g.emit(total if aggregate == "SUM" else op.divide(total, count))
    if aggregate not in AGGREGATES:
        raise g.error(f"{aggregate!r} is no aggregate function", code="E6002")
    beyond = np.inf if aggregate == "MIN" else -np.inf
    weights = g.const(np.where(forest.weighted, forest.weights, beyond).astype(forest.weights.dtype))
    reduced = g.emit((op.min if aggregate == "MIN" else op.max)(op.take(weights, at, 0), 1))
    return g.emit(op.where(op.isinf(reduced), g.const(0, weights.dtype), reduced))


# ------------------------------------------------------------------------------------- operators


def _with_base(g: Emitter, scores: RelaxExpr, attributes: dict[str, Any]) -> RelaxExpr:
    base = _base_values(attributes)
    return scores if base is None else g.emit(op.add(scores, g.const(base, str(g.dtype(scores)))))


def _base_values(attributes: dict[str, Any]) -> Array | None:
    tensor = attributes.get("base_values_as_tensor")
    base = np.asarray(attributes.get("base_values", ()) if tensor is None else tensor)
    return base if base.size else None


@converter("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(
    g: Emitter,
    x: Tensor,
    *,
    aggregate_function: str = "SUM",
    n_targets: int = 1,
    post_transform: str = "NONE",
    **attributes: Any,
) -> Tensor:
    rows, dtype = _rows_of(g, x)
    forest = _forest(g, attributes, "target", n_targets, dtype)
    scores = aggregated(g, leaves(g, rows, forest), forest, aggregate_function)
    scores = post_transformed(g, _with_base(g, scores, attributes), post_transform)
    return scores if dtype == "float32" else op.astype(scores, "float32")


@converter("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(
    g: Emitter, x: Tensor, *, post_transform: str = "NONE", **attributes: Any
) -> tuple[Value, Value]:
    classes = Classes.of(g, attributes, "classlabels_int64s")
    rows, dtype = _rows_of(g, x)
    forest = _forest(g, attributes, "class", len(classes), dtype)
    scores = aggregated(g, leaves(g, rows, forest), forest, "SUM")
    if len(classes) == 2:
        return _two_classes(g, scores, forest, classes, attributes, post_transform)
    scores = g.emit(op.astype(_with_base(g, scores, attributes), "float32"))
    return labels_at(g, op.argmax(scores, 1), classes), post_transformed(g, scores, post_transform)


def _two_classes(
    g: Emitter, scores: RelaxExpr, forest: Forest, classes: Classes, attributes: dict[str, Any], transform: str
) -> tuple[Value, Value]:
    """Weights of one class only: the score of class 1 if they are of class 0, and 0.5 or 0 tells the classes apart."""
    used = np.flatnonzero(forest.weighted.any(0)).tolist()
    base = _base_values(attributes)
    if len(used) != 1 or (base is not None and (base.size != 1 or used == [1])):
        g.unsupported(
            "a classifier of two classes with weights or base values for both of them",
            "keep the weights of the positive class, with class id 0",
        )
    score = g.emit(op.astype(op.take(scores, g.const(used, "int64"), 1), "float32"))
    if base is not None:
        score = g.emit(op.add(score, g.const(base, "float32")))
    positive = bool((forest.weights >= 0).all())
    limit = g.const(0.5 if positive else 0.0, "float32")
    chosen = op.astype(op.greater(op.squeeze(score, [1]), limit), "int64")
    if used == [1]:
        pair = g.emit(op.concat([op.zeros_like(score), score], 1))
        return labels_at(g, chosen, classes), post_transformed(g, pair, transform)
    return labels_at(g, chosen, classes), class_values(g, score, transform, complement=positive)


@converter("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(
    g: Emitter,
    x: Tensor,
    *,
    aggregate_function: int = 1,
    post_transform: int = 0,
    n_targets: int = 1,
    **attributes: Any,
) -> Tensor:
    rows, dtype = _rows_of(g, x)
    forest = _joint_forest(g, attributes, n_targets, dtype)
    scores = aggregated(g, leaves(g, rows, forest), forest, _named(g, AGGREGATES, aggregate_function))
    return post_transformed(g, scores, _named(g, TRANSFORMS, post_transform))


def _named(g: Emitter, names: Sequence[str], number: int) -> str:
    if not 0 <= number < len(names):
        raise g.error(f"{number} is none of {', '.join(names)}", code="E6003")
    return names[number]


def _joint_forest(g: Emitter, attributes: dict[str, Any], targets: int, dtype: str) -> Forest:
    """The forest of TreeEnsemble: inner nodes first, then leaves, then nodes for all but one member of each set."""
    named: dict[str, Any] = {
        f"{name}_as_tensor": value for name, value in attributes.items() if isinstance(value, np.ndarray)
    }
    mode = np.asarray(_column(g, named, "nodes_modes"), np.int64)
    leaf_weights = _column(g, named, "leaf_weights")
    inner, count = len(mode), len(leaf_weights)
    own = np.arange(inner, inner + count)

    def children(which: str) -> Array:
        ids = np.asarray(_column(g, attributes, f"nodes_{which}nodeids", inner), np.int64)
        is_leaf = np.asarray(_column(g, attributes, f"nodes_{which}leafs", inner), bool)
        return np.concatenate([np.where(is_leaf, ids + inner, ids), own])

    def padded(values: Any, dtype: str, filling: int = 0) -> Array:
        return np.concatenate([np.asarray(values, dtype), np.full(count, filling, dtype)])

    forest = Forest(
        feature=padded(_column(g, attributes, "nodes_featureids"), "int64"),
        value=padded(_column(g, named, "nodes_splits"), dtype),
        mode=padded(mode, "int64", LEAF),
        true=children("true"),
        false=children("false"),
        missing=padded(attributes.get("nodes_missing_value_tracks_true") or np.zeros(inner), "int64"),
        roots=np.asarray(attributes["tree_roots"], np.int64),
        weights=_no_weights(g, inner + count, targets).astype(dtype),
        weighted=_no_weights(g, inner + count, targets).astype(bool),
    )
    _with_weights(g, forest, own.tolist(), _column(g, attributes, "leaf_targetids", count), leaf_weights)
    return _without_sets(g, forest, attributes.get("membership_values"))


def _without_sets(g: Emitter, forest: Forest, members: Array | None) -> Forest:
    """Each node that asks for membership in a set becomes a chain of nodes, one for each member."""
    nodes: list[int] = np.flatnonzero(forest.mode == MODES.index("BRANCH_MEMBER")).tolist()
    if not nodes:
        return forest
    if members is not None and members.dtype == object:
        raise g.error("membership_values must be numbers, found strings", code="E6002")
    values: Array = np.asarray([] if members is None else members, np.float64)
    sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    sets = [own_set[~np.isnan(own_set)] for own_set in sets][: len(nodes)]
    if len(sets) < len(nodes) or not all(own_set.size for own_set in sets):
        raise g.error("membership_values must hold a set for each BRANCH_MEMBER node", code="E6002")
    mode, value, false = forest.mode.copy(), forest.value.copy(), forest.false.copy()
    mode[nodes] = MODES.index("BRANCH_EQ")
    source: list[int] = []
    added: list[float] = []
    for node, own_set in zip(nodes, sets, strict=True):
        value[node] = own_set[0]
        for member in own_set[1:]:
            source.append(node)
            added.append(member)
    table = replace(forest, mode=mode, value=value, false=false)
    return _chained(table, source, np.asarray(added, value.dtype))


def _chained(forest: Forest, source: list[int], values: Array) -> Forest:
    """A forest with more nodes, each a copy of its source with another value, in chains before the false child."""
    rows = np.concatenate([np.arange(len(forest.mode)), np.asarray(source, np.int64)])
    false = forest.false[rows]
    for index, node in enumerate(source):
        row = len(forest.mode) + index
        false[row], false[node] = false[node], row
    return Forest(
        forest.feature[rows],
        np.concatenate([forest.value, values]),
        forest.mode[rows],
        forest.true[rows],
        false,
        forest.missing[rows],
        forest.roots,
        forest.weights[rows],
        forest.weighted[rows],
    )
