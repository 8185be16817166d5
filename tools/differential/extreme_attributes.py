"""Extreme attributes: each attribute of each ONNX operator in turn, with values that no exporter writes.

    python tools/differential/extreme_attributes.py                    all operators; prints what is neither a module nor a diagnostic
    python tools/differential/extreme_attributes.py Slice Resize       operators of these names

The table is finite. Its nodes are those of ONNX's own test cases, and of `MORE` for operators without a case. In each, one
attribute of the schema or of the converter is replaced: by 0, -1, 2**32, the greatest and the least integer, NaN, infinity, a value
of another type, or an empty one; an attribute may stand in the place of an input. The inputs whose elements a converter
reads at import become constants of such values, too.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.backend.test.case import node

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx_backend
from differential import mutate_onnx
from differential.bounds import place_of
from relax.frontend.onnx import registry
from relax.frontend.onnx.graph import domain_of
from relax.frontend.onnx.validity import Signatures

Key = tuple[str, str]

MOST_CASES = 3
"""Number of nodes for each operator: those with the most different sets of inputs and attributes."""

INTS = (0, -1, 1, 2**32, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 1e30, 1e-40, float("nan"), float("inf"), float("-inf"))
TEXTS = ("", "q")

HEADER = '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1, "ai.onnx.ml": 3]>\n'

MORE = """
g (float[N, 2, 4] x) => (float[A, B, C] y) { y = GlobalLpPool(x) }
g (float[2, 3] x) => (float[A, B] y) { s = SequenceConstruct(x, x)  y = ConcatFromSequence<axis = 0>(s) }
g (float[N, 2] x) => (float[A, B] y) { o = Optional(x)  y = OptionalGetElement(o) }
g () => (float[2, 3] y) { y = RandomNormal<shape = [2, 3]>() }
g () => (float[2, 3] y) { y = RandomUniform<shape = [2, 3]>() }
g (float[2, 3] x) => (float[2, 3] y) { y = RandomNormalLike(x) }
g (float[2, 3] x) => (float[2, 3] y) { y = RandomUniformLike(x) }
g (float[2, 3] x) => (int32[2, K] y) { y = Multinomial<sample_size = 4>(x) }
g (float[1, 2, 6, 6] x, float[2, 5] r) => (float[A, B, C, D] y) { y = MaxRoiPool<pooled_shape = [2, 2]>(x, r) }
g (float[1, 1, 4, 4] x) => (float[A, B, C, D] y) { y = ai.onnx.ml.Scaler<offset = [0.0], scale = [1.0]>(x) }
g (float[N, 2] x) => (float[N, 2] y) { y = ai.onnx.ml.Normalizer<norm = "L2">(x) }
g (float[N, 2] x) => (float[N, 2] y) { y = ai.onnx.ml.Imputer<imputed_value_floats = [1.0], replaced_value_float = 0.0>(x) }
g (float[N, 2] x, float[N, 1] z) => (float[N, 3] y) { y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [2, 1]>(x, z) }
g (int64[N] x) => (float[N, 3] y) { y = ai.onnx.ml.OneHotEncoder<cats_int64s = [1, 2, 3]>(x) }
g (int64[N] x) => (string[N] y) { y = ai.onnx.ml.CategoryMapper<cats_int64s = [1, 2], cats_strings = ["a", "b"]>(x) }
g (float[N, 2] x) => (float[N, 2] y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [1, 2]>(x) }
g (float[N, 2] x) => (float[N, 3] y) {
  y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts = [0.5, 0.5, 0.5], targets = 3>(x) }
g (float[N, 2] x) => (int64[N] l, float[N, 3] y) {
  l, y = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts = [0.5, 0.5, 0.5],
    classlabels_ints = [0, 1, 2]>(x) }
g (float[N, 2] x) => (float[N, 1] y) {
  y = ai.onnx.ml.SVMRegressor<coefficients = [1.0, 2.0], support_vectors = [1.0, 2.0, 3.0, 4.0], n_supports = 2, rho = [0.5],
    kernel_type = "RBF", kernel_params = [0.5, 0.0, 3.0]>(x) }
g (float[N, 2] x) => (int64[N] l, float[N, 2] y) {
  l, y = ai.onnx.ml.SVMClassifier<coefficients = [1.0, 2.0], support_vectors = [1.0, 2.0, 3.0, 4.0], vectors_per_class = [1, 1],
    rho = [0.5], kernel_type = "RBF", kernel_params = [0.5, 0.0, 3.0], classlabels_ints = [0, 1]>(x) }
g (float[N, 2] x) => (int64[N] l, float[N, 2] y) {
  l, y = ai.onnx.ml.TreeEnsembleClassifier<classlabels_int64s = [0, 1], nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
    nodes_featureids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_missing_value_tracks_true = [0, 0, 0],
    class_treeids = [0, 0], class_nodeids = [1, 2], class_ids = [0, 1], class_weights = [1.0, 2.0]>(x) }
g (float[N, 2] x) => (float[N, 1] y) {
  y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
    nodes_featureids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_missing_value_tracks_true = [0, 0, 0],
    target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]>(x) }
g (float[N, 2] x) => (float[N, 2] y) { y = Affine<alpha = 2.0, beta = 1.0>(x) }
g (float[N, 2] x) => (float[N, 2] y) { y = Scale<scale = 2.0>(x) }
g (float[N, 2] x) => (float[N, 2] y) { y = ScaledTanh<alpha = 2.0, beta = 1.0>(x) }
g (float[N, 2] x) => (float[N, 2] y) { y = ParametricSoftplus<alpha = 2.0, beta = 1.0>(x) }
g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) { y = ImageScaler<bias = [1.0, 2.0], scale = 2.0>(x) }
g (float[1, 2, 4, 4] x) => (float[A, B, C, D] y) { y = Crop<border = [1, 1, 1, 1], scale = [2, 2]>(x) }
g () => (float[2, 3] y) { y = ConstantFill<shape = [2, 3], value = 1.0, dtype = 1>() }
g (int64[2] s) => (float[A, B, C] y) { y = ConstantFill<input_as_shape = 1, extra_shape = [3]>(s) }
g (float[2, 4, 8] x, float[8] s) => (float[2, 4, 8] y) { y = SimplifiedLayerNormalization<axis = -1>(x, s) }
g (float[2, 4] x) => (float[2, 4] y) { y = com.microsoft.Gelu(x) }
g (float[2, 1, 3] x) => (float[A, B, C, D] y) <int8[1, 3, 8] w, int8[1, 2, 8] r, float[1] s, int8[1] z> {
  y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 2>(x, w, r, , , , , , s, z, s, z) }
g (float[2, 4] x) => (float[2, 4] y) { y = com.microsoft.QuickGelu<alpha = 1.5>(x) }
g (float[2, 4] x, float[2, 4] b) => (float[2, 4] y) { y = com.microsoft.BiasSoftmax<axis = 1, is_inner_broadcast = 1>(x, b) }
g (float[2, 3, 4] x, float[2, 3, 4] z) => (float[2, 3, 3] y) { y = com.microsoft.FusedMatMul<alpha = 0.5, transB = 1>(x, z) }
g (float[2, 3, 4] x, float[2, 3, 4] z) => (float[2, 3, 3] y) { y = com.microsoft.TransposeMatMul<transB = 1>(x, z) }
g (float[2, 4] x, float[4, 3] z, float[3] b) => (float[2, 3] y) { y = com.microsoft.FusedGemm<activation = "Relu">(x, z, b) }
g (float[1, 2, 6, 6] x, float[3, 2, 3, 3] w) => (float[A, B, C, D] y) {
  y = com.microsoft.FusedConv<activation = "Relu", kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w) }
g (float[2, 32] x) => (float[2, 3] y) <uint8[3, 1, 16] w, float[3] s> {
  y = com.microsoft.MatMulNBits<K = 32, N = 3, bits = 4, block_size = 32, accuracy_level = 4>(x, w, s) }
g (float[2, 40] x) => (float[2, 3] y) <uint8[3, 3, 8] w, float[9] s, uint8[3, 2] z, float[3] b> {
  y = com.microsoft.MatMulNBits<K = 40, N = 3, bits = 4, block_size = 16>(x, w, s, z, , b) }
g (int64[2] i) => (float[2, 64] y) <uint8[9, 32] w, float[9, 2] s> {
  y = com.microsoft.GatherBlockQuantized<bits = 4, block_size = 32, gather_axis = 0, quantize_axis = 1>(w, i, s) }
g (float[2, 4, 8] x, float[8] s) => (float[2, 4, 8] y) { y = com.microsoft.SimplifiedLayerNormalization<axis = -1>(x, s) }
g (float[2, 4, 8] x, float[8] s, float[8] b) => (float[2, 4, 8] y) {
  y = com.microsoft.SkipLayerNormalization<epsilon = 0.001>(x, x, s, b) }
g (float[2, 4, 8] x, float[8] s) => (float[2, 4, 8] y) {
  y = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.001>(x, x, s) }
g (int32[2, 4] i, float[9, 8] w, float[6, 8] p, float[8] s) => (float[2, 4, 8] y) {
  y = com.microsoft.EmbedLayerNormalization<epsilon = 0.001>(i, , w, p, , s, s) }
g (float[2, 4, 8] x, float[8, 24] w, float[24] b) => (float[2, 4, 8] y) {
  y = com.microsoft.Attention<num_heads = 2, unidirectional = 1>(x, w, b) }
g (float[2, 4, 8] x) => (float[2, 4, 8] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2>(x, x, x) }
g (float[1, 2, 8] x, float[1, 2, 4, 4] p, int32[1] s, int32[1] t) => (float[1, 2, 8] y, float[A, B, C, D] k, float[E, F, G, H] v) {
  y, k, v = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 2>(x, x, x, p, p, s, t) }
g (float[1, 2, 3, 4] x, int64[1, 3] p, float[6, 2] c) => (float[1, 2, 3, 4] y) { y = com.microsoft.RotaryEmbedding(x, p, c, c) }
g (float[2, 3] x, float s, uint8 z) => (uint8[2, 3] y) { y = com.microsoft.QuantizeLinear<axis = 1>(x, s, z) }
g (uint8[2, 3] x, float s, uint8 z) => (float[2, 3] y) { y = com.microsoft.DequantizeLinear<axis = 1>(x, s, z) }
g (uint8[2, 3] x, float s, uint8 z) => (uint8[2, 3] y) { y = com.microsoft.QLinearLeakyRelu<alpha = 0.1>(x, s, z, s, z) }
g (uint8[2, 3] x, float s, uint8 z) => (uint8[2, 3] y) { y = com.microsoft.QLinearSoftmax<axis = 1, opset = 13>(x, s, z, s, z) }
g (uint8[1, 2, 3, 3] x, float s, uint8 z) => (uint8[1, 2, 1, 1] y) {
  y = com.microsoft.QLinearGlobalAveragePool<channels_last = 0>(x, s, z, s, z) }
g (uint8[2, 3] x, uint8[3, 4] w, float s, uint8 z) => (uint8[2, 4] y) { y = com.microsoft.QGemm<alpha = 1.0>(x, s, z, w, s, z, , s, z) }
"""
"""Nodes of operators for which ONNX has no test case."""

OLD = """
g (float[4, 5] x) => (float[A, B] y) { y = Slice<starts = [0, 1], ends = [2, 3], axes = [0, 1]>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = Pad<pads = [1, 0, 0, 1], mode = "constant", value = 1.0>(x) }
g (float[1, 1, 4, 5] x) => (float[A, B, C, D] y) { y = Upsample<scales = [1.0, 1.0, 2.0, 2.0]>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = TopK<k = 2, axis = 1>(x) }
g (float[4, 5] x) => (float[A, B] y, float[C, D] z) { y, z = Split<axis = 0, split = [1, 3]>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = ReduceSum<axes = [1], keepdims = 1>(x) }
g (float[1, 4] x) => (float[A] y) { y = Squeeze<axes = [0]>(x) }
g (float[4] x) => (float[A, B] y) { y = Unsqueeze<axes = [0]>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = Clip<max = 1.0, min = 0.0>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = Dropout<ratio = 0.5>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = Softmax<axis = 1>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = Hardmax<axis = 1>(x) }
g (float[4, 5] x) => (float[A, B] y) { y = LogSoftmax<axis = 1>(x) }
g (float[2, 3, 4] x, float[3] s) => (float[A, B, C] y) { y = BatchNormalization<momentum = 0.5>(x, s, s, s, s) }
g (float[4, 5] x, int64[4, 5] i) => (float[A, B] y) { y = Scatter<axis = 0>(x, i, x) }
"""
"""Nodes of old opsets, in which attributes stand for what are inputs today."""


# ------------------------------------------------------------------------------------- nodes


def key_of(node: NodeProto) -> Key:
    """The domain and name of a node's operator."""
    return domain_of(node), node.op_type


@cache
def seeds() -> dict[Key, list[ModelProto]]:
    """Small valid models by operator, of which a node is the first with that operator."""
    found: dict[Key, dict[Any, ModelProto]] = {}
    for model in _models():
        for each in model.graph.node:
            form = tuple(bool(name) for name in each.input), tuple(sorted(a.name for a in each.attribute))
            found.setdefault(key_of(each), {}).setdefault(form, model)
    return {key: list(forms.values())[:MOST_CASES] for key, forms in sorted(found.items())}


def _models() -> Iterator[ModelProto]:
    for header, texts in ((HEADER, MORE), (HEADER.replace("20", "8"), OLD)):
        for text in ("g (" + part for part in texts.split("\ng (")[1:]):
            model = onnx.parser.parse_model(header + text)
            for item in model.graph.value_info:
                shape = [dim.dim_value for dim in item.type.tensor_type.shape.dim]
                dtype = helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
                model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, dtype), item.name))
            del model.graph.value_info[:]
            yield model
    prefix = f"{node.__name__}."
    modules = [module.name.removeprefix(prefix) for module in pkgutil.walk_packages(node.__path__, prefix)]
    cases = onnx_backend.load_node_cases(modules)
    yield from (case.model for case in cases if case.model is not None)


# ------------------------------------------------------------------------------------- values


def variants(model: ModelProto, key: Key) -> Generator[tuple[str, ModelProto]]:
    """Models in which one attribute or constant of the node of operator `key` is extreme, each with a description."""
    index = next(i for i, each in enumerate(model.graph.node) if key_of(each) == key)
    opset = next(
        (item.version for item in model.opset_import if registry.ALIASES.get(item.domain, item.domain) == key[0]), 1
    )
    entry = registry.find(*key, opset)
    written = {attribute.name: attribute for attribute in model.graph.node[index].attribute}
    places = {} if entry is None else {item.name: i for i, item in enumerate(entry.inputs) if not item.variadic}
    signature = Signatures().get(*key, opset)
    types: Mapping[str, tuple[str, ...]] = {} if signature is None else signature.attributes
    for name in sorted({*types, *written}):
        for value in _values(name, types.get(name, ()), written.get(name)):
            changed = _copy(model)
            target = changed.graph.node[index]
            kept = [attribute for attribute in written.values() if attribute.name != name]
            del target.attribute[:]
            target.attribute.extend([*kept, value])
            if places.get(name, len(target.input)) < len(target.input):
                target.input[places[name]] = ""
                while target.input and not target.input[-1]:
                    del target.input[-1]
            yield f"{name} = {helper.printable_attribute(value)}", changed
    if entry is not None:
        for item in entry.inputs:
            if item.kind != "Tensor" and places.get(item.name, 1 << 31) < len(model.graph.node[index].input):
                yield from _constants(model, index, places[item.name])


def _copy(model: ModelProto) -> ModelProto:
    changed = ModelProto()
    changed.CopyFrom(model)
    return changed


def _values(name: str, types: Sequence[str], written: AttributeProto | None) -> Iterator[AttributeProto]:
    """Extreme values of an attribute of `types`, and one of each other type; lists as long as the written one."""
    length = max(1, len(written.ints), len(written.floats), len(written.strings)) if written is not None else 1
    numbers = {"INT": INTS, "FLOAT": FLOATS, "STRING": TEXTS}
    for single, values in numbers.items():
        yield from (helper.make_attribute(name, value) for value in (values if single in types else values[-1:]))
        chosen = values if f"{single}S" in types else values[-1:]
        yield from (helper.make_attribute(name, [value] * length) for value in chosen)
    for empty in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        yield AttributeProto(name=name, type=empty)
    yield helper.make_attribute(name, [1] * (length + 1))
    tensors = list(_tensors((length,)))
    yield from (helper.make_attribute(name, tensor) for tensor in (tensors if "TENSOR" in types else tensors[-3:]))
    yield helper.make_attribute(name, helper.make_graph([], "g", [], []))
    if written is not None and len(written.ints) > 1:
        for i in range(len(written.ints)):
            for value in INTS:
                changed = AttributeProto()
                changed.CopyFrom(written)
                changed.ints[i] = value
                yield changed


def _tensors(shape: Sequence[int]) -> Iterator[TensorProto]:
    for value in INTS:
        yield numpy_helper.from_array(np.full(shape, value, "int64"))
    yield numpy_helper.from_array(np.full(shape, 2**64 - 1, "uint64"))
    for number in FLOATS:
        yield numpy_helper.from_array(np.full(shape, number).astype("float32"))
    yield numpy_helper.from_array(np.ones(shape, "bool"))
    yield numpy_helper.from_array(np.full(shape, "q", object))
    yield numpy_helper.from_array(np.ones((0,), "int64"))
    yield numpy_helper.from_array(np.ones((2, 0), "float32"))


def _constants(model: ModelProto, index: int, place: int) -> Iterator[tuple[str, ModelProto]]:
    """Models in which an input is a constant of extreme elements."""
    name = model.graph.node[index].input[place]
    shape = next((_shape(item) for item in model.graph.input if item.name == name), None)
    if shape is None:
        return
    for tensor in _tensors(shape):
        changed = _copy(model)
        inputs = [item for item in changed.graph.input if item.name != name]
        del changed.graph.input[:]
        changed.graph.input.extend(inputs)
        tensor.name = name
        changed.graph.initializer.append(tensor)
        yield f"input {name} = {numpy_helper.to_array(tensor)!r}", changed


def _shape(item: Any) -> list[int]:
    return [dim.dim_value if dim.HasField("dim_value") else 2 for dim in item.type.tensor_type.shape.dim]


# ------------------------------------------------------------------------------------- checks


def failures(key: Key) -> dict[str, str]:
    """One variant for each unexpected exception of an operator, by its type and place."""
    found: dict[str, str] = {}
    for model in seeds().get(key, []):
        for described, changed in variants(model, key):
            try:
                mutate_onnx.verdict(changed)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
                sort = f"{type(error).__name__} at {place_of(error)}"
                found.setdefault(sort, f"{described}: {str(error)[:100]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Extreme attributes: each must be a module or a diagnostic.")
    parser.add_argument("names", nargs="*", help="operators (default: all)")
    names = parser.parse_args().names
    os.environ["RELAX_RAISE_UNEXPECTED"] = "1"
    count = 0
    for key in seeds():
        if not names or key[1] in names:
            found = failures(key)
            count += len(found)
            for sort, described in found.items():
                print(f"{'.'.join(filter(None, key))}: {sort}: {described}", flush=True)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
