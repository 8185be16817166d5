"""ai.onnx.ml: tree ensembles, linear models, features and labels, equal to ONNX Runtime at several batch sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import relax
from relax.frontend.onnx import from_onnx

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype("float32") / 2


def forest(trees: int, depth: int, targets: int, modes: list[str], seed: int = 1, low: float = -1) -> dict[str, list]:
    """Attributes of random complete trees, each of another depth; a weight for each leaf and target."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, list] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    weights: dict[str, list] = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for tree in range(trees):
        count = 2 ** (1 + tree % depth) - 1
        for node in range(2 * count + 1):
            is_leaf = node >= count
            row = (tree, node, 0, 0.0, "LEAF", 0, 0)
            if not is_leaf:
                value = float(rng.integers(-3, 4)) / 2
                row = (tree, node, int(rng.integers(4)), value, modes[node % len(modes)], 2 * node + 1, 2 * node + 2)
            for name, item in zip(nodes, row, strict=True):
                nodes[name].append(item)
            for target in range(targets) if is_leaf else ():
                for name, item in zip(weights, (tree, node, target, float(rng.uniform(low, 1))), strict=True):
                    weights[name].append(item)
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"WHAT_{k}": v for k, v in weights.items()}


def text_of(attributes: dict[str, object]) -> str:
    """Attributes in ONNX's text form."""

    def shown(value: object) -> str:
        if isinstance(value, list):
            return "[" + ", ".join(map(shown, value)) + "]"
        return f'"{value}"' if isinstance(value, str) else repr(value)

    return ", ".join(f"{name} = {shown(value)}" for name, value in attributes.items())


def tree_model(name: str, attributes: dict[str, object], results: str, width: int | str = 4) -> str:
    kind = "class" if name.endswith("Classifier") else "target"
    named = {key.replace("WHAT", kind): value for key, value in attributes.items()}
    outputs = ", ".join(item.split()[1] for item in results.split(", "))
    return f"agraph (float[N, {width}] x) => ({results}) {{ {outputs} = ai.onnx.ml.{name}<{text_of(named)}>(x) }}"


BATCHES = [rows(n, 4, seed=n) for n in (0, 1, 9)]


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regression_trees(agrees, aggregate):
    attributes = forest(5, 3, 2, MODES) | {"n_targets": 2, "aggregate_function": aggregate, "base_values": [0.5, -1.0]}
    agrees(tree_model("TreeEnsembleRegressor", attributes, "float y"), *BATCHES)


def test_a_level_of_all_trees_is_one_kernel(agrees):
    attributes = forest(6, 3, 1, MODES[:1]) | {"n_targets": 1}
    text = tree_model("TreeEnsembleRegressor", attributes, "float y", width="F")
    mod = agrees(text, *BATCHES)
    assert [name for name in (var.name_hint for var in mod.functions) if "step" in name] == ["tree_step"]
    assert mod.script().count("cls.tree_step") == 3


def test_missing_values_go_where_the_trees_say(agrees):
    attributes: dict[str, object] = forest(4, 2, 1, MODES) | {"n_targets": 1}
    attributes["nodes_missing_value_tracks_true"] = [i % 2 for i in range(len(attributes["nodes_modes"]))]
    x = rows(8, 4)
    x[::2, 1:3] = np.nan
    agrees(tree_model("TreeEnsembleRegressor", attributes, "float y"), x)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_classification_trees(agrees, transform):
    attributes = forest(4, 3, 3, MODES[:2]) | {"post_transform": transform, "classlabels_int64s": [3, 5, 9]}
    agrees(tree_model("TreeEnsembleClassifier", attributes, "int64 label, float scores"), *BATCHES)


@pytest.mark.parametrize(
    ("transform", "low", "used"),
    [("NONE", 0.0, 0), ("NONE", -1.0, 0), ("LOGISTIC", 0.0, 0), ("LOGISTIC", -1.0, 1), ("NONE", 0.0, 1)],
)
def test_two_classes(agrees, transform, low, used):
    attributes = forest(1, 2, 1, MODES[:1], low=low)
    attributes |= {"post_transform": transform, "classlabels_strings": ["no", "yes"]}
    attributes["WHAT_ids"] = [used] * len(attributes["WHAT_ids"])
    agrees(tree_model("TreeEnsembleClassifier", attributes, "string label, float scores"), BATCHES[2])


def test_a_tree_ensemble_with_sets():
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=2,
        membership_values=helper.make_tensor("m", TensorProto.FLOAT, (6,), [1.0, 0.5, -1.0, np.nan, 0.0, np.nan]),
        nodes_modes=helper.make_tensor("k", TensorProto.UINT8, (3,), [6, 0, 6]),
        nodes_splits=helper.make_tensor("s", TensorProto.FLOAT, (3,), [0.0, 0.25, 0.0]),
        nodes_featureids=[0, 1, 2],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 1, 2],
        nodes_trueleafs=[0, 1, 1],
        nodes_falseleafs=[0, 1, 1],
        leaf_weights=helper.make_tensor("w", TensorProto.FLOAT, (3,), [1.0, 10.0, 100.0]),
        leaf_targetids=[0, 1, 0],
        tree_roots=[0],
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 5)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports)
    vm = relax.VirtualMachine(relax.build(from_onnx(model), "llvm"), relax.cpu())
    data = np.array([[1, 0, 0], [0.5, 1, 0], [-1, 0, 9], [2, 0, 0], [0, 0, 1]], "float32")
    assert vm["main"](data).numpy().tolist() == [[1, 0], [0, 10], [1, 0], [1, 0], [100, 0]]


FEATURES = {
    "Scaler": ("float[N, 3] x", "offset = [1.0, 2.0, 3.0], scale = [0.5, 2.0, 1.0]"),
    "Normalizer": ("float[N, 3] x", 'norm = "MAX"'),
    "Normalizer L1": ("float[N, 3] x", 'norm = "L1"'),
    "Normalizer L2": ("float[N, 3] x", 'norm = "L2"'),
    "Imputer": ("float[N, 3] x", "imputed_value_floats = [7.0, 8.0, 9.0], replaced_value_float = 0.5"),
    "Binarizer": ("float[N, 3] x", "threshold = 0.5"),
    "OneHotEncoder": ("float[N, 3] x", "cats_int64s = [1, -1, 0]"),
    "LinearRegressor": ("float[N, 3] x", f"coefficients = {[0.5] * 5 + [2.0]}, intercepts = [1.0, 2.0], targets = 2"),
    "SVMRegressor": (
        "float[N, 3] x",
        f"coefficients = [0.5, -1.0], support_vectors = {[0.5, 1.0, 0.0, -1.0, 2.0, 0.5]}, n_supports = 2, "
        'kernel_type = "RBF", kernel_params = [0.1, 0.0, 3.0], rho = [0.25]',
    ),
}


@pytest.mark.parametrize("case", FEATURES)
def test_features_and_regression(agrees, case):
    parameter, options = FEATURES[case]
    text = f"agraph ({parameter}) => (float y) {{ y = ai.onnx.ml.{case.split()[0]}<{options}>(x) }}"
    agrees(text, *(rows(n, 3, seed=n) for n in (1, 5)))


def test_features_taken_and_put_together(agrees):
    text = """
    agraph (float[N, 3] x, int64[N, 2] z, int64[K] i) => (float y, float w) {
      y = ai.onnx.ml.ArrayFeatureExtractor(x, i)
      w = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 2]>(x, x2)
    }""".replace("w = ", "x2 = ai.onnx.ml.Scaler<scale = [1.0], offset = [0.0]>(z)\n w = ")
    agrees(text, *((rows(n, 3), np.ones((n, 2), "int64"), np.array([2, 0])) for n in (1, 4)))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("models", [1, 3])
def test_linear_classifier(agrees, transform, models):
    options: dict[str, object] = {
        "coefficients": [float(v) for v in rows(models * 3)],
        "intercepts": [0.25, -0.5, 0.0][:models],
        "post_transform": transform,
        "classlabels_ints": [4, 7] if models == 1 else [4, 7, 2],
    }
    text = (
        f"agraph (float[N, 3] x) => (int64 l, float s) {{ l, s = ai.onnx.ml.LinearClassifier<{text_of(options)}>(x) }}"
    )
    agrees(text, *(rows(n, 3, seed=n) for n in (1, 6)))


def support_vectors(classes: int, kernel: str = "LINEAR", negative: bool = True) -> dict[str, object]:
    """Attributes of an SVMClassifier with some support vectors for each class."""
    rng, counts = np.random.default_rng(classes), [2, 3, 1, 2][:classes]
    coefficients = rng.standard_normal((classes - 1) * sum(counts))
    return {
        "coefficients": [float(v if negative else abs(v)) for v in coefficients],
        "support_vectors": [float(v) for v in rng.standard_normal(3 * sum(counts))],
        "vectors_per_class": counts,
        "rho": [float(v) for v in rng.standard_normal(classes * (classes - 1) // 2)],
        "kernel_type": kernel,
        "kernel_params": [0.25, 0.5, 2.0],
        "classlabels_ints": [10, 20, 30, 40][:classes],
    }


def svm(attributes: dict[str, object], labels: str = "int64") -> str:
    call = f"ai.onnx.ml.SVMClassifier<{text_of(attributes)}>(x)"
    return f"agraph (float[N, 3] x) => ({labels} l, float s) {{ l, s = {call} }}"


SAMPLES = [rows(n, 3, seed=n) for n in (1, 7)]


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
@pytest.mark.parametrize("classes", [2, 4])
def test_pairs_of_classes_vote(agrees, classes, kernel):
    agrees(svm(support_vectors(classes, kernel)), *SAMPLES, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_of_pairs_transformed(agrees, classes, transform):
    agrees(svm(support_vectors(classes) | {"post_transform": transform}), *SAMPLES, atol=1e-5)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_probabilities_of_support_vector_machines(agrees, classes, transform):
    pairs = classes * (classes - 1) // 2
    probabilities = {"prob_a": [-1.0] * pairs, "prob_b": [0.25] * pairs, "post_transform": transform}
    agrees(svm(support_vectors(classes) | probabilities), *SAMPLES, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("negative", [False, True])
def test_support_vector_machines_without_vectors(agrees, classes, negative):
    attributes: dict[str, object] = {
        "coefficients": [float(v if negative else abs(v)) for v in rows(classes * 3, seed=classes)],
        "rho": [0.25],
        "kernel_type": "LINEAR",
        "kernel_params": [0.0, 0.0, 3.0],
        "classlabels_strings": ["a", "b", "c"][:classes],
    }
    agrees(svm(attributes, "string"), *SAMPLES)


BROKEN_SVM = {
    "E6002.*7 coefficients and 1 of rho do not go with 5 support vectors of 2 classes": {"coefficients": [1.0] * 7},
    "E6002.*it has 4 numbers of 5 support vectors, 3 kernel_params": {"support_vectors": [1.0] * 4},
    "E6003.*prob_b has 0 elements, expected 1": {"prob_a": [1.0]},
    "E6002.*'COSINE' is no kernel": {"kernel_type": "COSINE"},
    "E6002.*it has 2 of rho, expected 1 without support vectors": {"vectors_per_class": [], "rho": [0.5, 1.0]},
}


@pytest.mark.parametrize("message", BROKEN_SVM)
def test_broken_support_vector_machines_are_refused(imported, message):
    options = support_vectors(2) | BROKEN_SVM[message]
    with pytest.raises(relax.DiagnosticError, match=message):
        imported(svm({name: value for name, value in options.items() if value != []}))


@pytest.mark.parametrize("labels", ["classlabels_int64s = [4, -1]", 'classlabels_strings = ["no", "yes"]'])
def test_scores_by_their_labels(agrees, labels):
    text = f"agraph (float[N, 2] x) => (seq(map(int64, float)) y) {{ y = ai.onnx.ml.ZipMap<{labels}>(x) }}"
    if "strings" in labels:
        text = text.replace("int64, float", "string, float")
    agrees(text, *(rows(n, 2) for n in (0, 1, 3)))


def test_labels_of_scores_must_be_as_many(imported):
    text = "agraph (float[N, K] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [1]>(x) }"
    vm = relax.VirtualMachine(relax.build(imported(text), "llvm"), relax.cpu())
    with pytest.raises(ValueError, match="zip_map: 1 labels do not go with rows of 2 scores"):
        vm["main"](rows(3, 2))
    with pytest.raises(relax.DiagnosticError, match="E6002.*one of classlabels_int64s and classlabels_strings"):
        imported(text.replace("<classlabels_int64s = [1]>", ""))


REFUSED = {
    "CastMap(x)": "a map as an input is not supported",
    "OneHotEncoder<cats_int64s = [1], zeros = 0>(x)": "an error for unknown categories",
    'LinearRegressor<coefficients = [1.0, 2.0], post_transform = "PROBIT">(x)': "the post transform PROBIT",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused(call):
    imports = '"": 18, "ai.onnx.ml": 3'
    text = f"agraph (float[N, 2] x) => (float[N, 2] y) {{ y = ai.onnx.ml.{call} }}"
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{text}")
    with pytest.raises(relax.DiagnosticError, match=f"(?s)E6001.*{REFUSED[call]}"):
        from_onnx(model)


CIRCLE = {
    "nodes_truenodeids": [1, 2, 0],
    "nodes_falsenodeids": [1, 1, 0],
    "nodes_modes": ["BRANCH_LT", "BRANCH_LT", "LEAF"],
}
BROKEN = {
    "E6003.*a tree reads feature 9, the rows have 4": {"nodes_featureids": [9, 0, 0]},
    "E6002.*a feature or a mode of a node is out of range": {"nodes_featureids": [-1, 0, 0]},
    r"E6002.*a tree has no node \(0, 8\)": {"nodes_truenodeids": [8, 0, 0]},
    "E6002.*nodes_truenodeids has 2 elements, expected 3": {"nodes_truenodeids": [1, 0]},
    "E6002.*'BRANCH' is no mode of a node": {"nodes_modes": ["BRANCH", "LEAF", "LEAF"]},
    "E6002.*circle": CIRCLE,
    "E6002.*a leaf has a weight for a target that there is not": {"WHAT_ids": [0, 3]},
    "E6002.*target_weights has 1 elements, expected 2": {"WHAT_weights": [1.0]},
    "E6003.*there cannot be 0 targets for 3 nodes": {"n_targets": 0},
    "E6002.*'MEDIAN' is no aggregate function": {"aggregate_function": "MEDIAN"},
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_trees_are_refused(imported, message):
    attributes = forest(1, 1, 1, MODES[:1]) | BROKEN[message]
    with pytest.raises(relax.DiagnosticError, match=message):
        imported(tree_model("TreeEnsembleRegressor", attributes, "float y"))
