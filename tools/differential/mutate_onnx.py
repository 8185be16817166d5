"""Mutations of ONNX models: bytes and fields of good models changed at random.

    python tools/differential/mutate_onnx.py --count 10000 --seed 0      prints what is neither a module nor a diagnostic

`check` imports one mutant. The importer must raise a DiagnosticError, or give a well-formed module; and building that must give
an executable or a DiagnosticError. Another exception, a hang, and memory beyond `bounds.MOST_BYTES` are failures. The same seed
makes the same mutant.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from onnx import ModelProto

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

import relax
from differential.bounds import bounded, place_of
from relax.frontend.onnx import from_onnx

_HEADER = '<ir_version: 8, opset_import: ["": 20, "com.microsoft": 1, "ai.onnx.ml": 3, "own": 1]>\n'

SEEDS: dict[str, str] = {
    "network": """
    g (float[N, 3, 8, 8] x) => (float[N, 10] y)
    <float[4, 3, 3, 3] w, float[4] scale = {1, 2, 3, 4}, float[4] bias = {0, 1, 0, 1}, int64[2] to = {0, -1},
     float[10, 36] dense, int64[2] zeros = {0, 0}, int64[2] threes = {3, 3}, int64[2] axes = {2, 3}> {
      c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], group=1>(x, w, bias)
      b = BatchNormalization<epsilon=0.001>(c, scale, bias, bias, scale)
      r = Relu(b)
      p = MaxPool<kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1>(r)
      q = AveragePool<kernel_shape=[2, 2], auto_pad="SAME_UPPER">(p)
      d = Slice(q, zeros, threes, axes)
      f = Flatten<axis=1>(d)
      h = Reshape(f, to)
      y = Gemm<transB=1, alpha=0.5>(h, dense)
    }""",
    "shapes": """
    g (float[N, M, 4] x, int64[1] k) => (float[A, B] y, float[C] z)
    <int64 zero = {0}, int64 one = {1}, int64[1] minus = {-1}, int64[1] first = {0}> {
      s = Shape(x)
      n = Gather<axis=0>(s, zero)
      m = Gather<axis=0>(s, one)
      nm = Mul(n, m)
      u = Unsqueeze(nm, first)
      t = Concat<axis=0>(u, minus)
      y = Reshape(x, t)
      e = Expand(x, s)
      part = Slice(e, first, k, first)
      flat = Flatten<axis=0>(part)
      z = Squeeze(flat, first)
    }""",
    "reductions": """
    g (float[N, 5] x) => (float[N, 1] y, int64[N] i, float[N, 3] v)
    <int64[1] axes = {1}, int64[1] k = {3}> {
      a = ReduceSum<keepdims=1>(x, axes)
      b = Softmax<axis=-1>(x)
      c = ReduceMax<keepdims=1>(b, axes)
      y = Div(a, c)
      i = ArgMax<axis=1, keepdims=0, select_last_index=0>(x)
      v, w = TopK<axis=1, largest=1, sorted=1>(x, k)
    }""",
    "movement": """
    g (float[2, N, 3] x, int64[2] i) => (float[O, P, Q] y, float[R, S, T] z)
    <int64[6] pads = {0, 1, 0, 0, 1, 0}, float value = {0.5}, int64[3] times = {1, 2, 1}, int64[2] sizes = {1, 2}> {
      t = Transpose<perm=[0, 2, 1]>(x)
      p = Pad<mode="constant">(x, pads, value)
      q = Tile(p, times)
      a, b = Split<axis=2>(q, sizes)
      y = Concat<axis=-1>(a, b, a)
      z = Gather<axis=1>(t, i)
    }""",
    "indices": """
    g (float[4, 5] x, int64[2, 5] i, float[2, 5] u) => (float[4, 5] y, float[2, 5] z, float[3] w, int64[2, K] nz)
    <int64[3, 2] places = {0, 0, 1, 1, 2, 2}, float[2] onoff = {0, 1}, int64 depth = {3}> {
      y = ScatterElements<axis=0, reduction="add">(x, i, u)
      z = GatherElements<axis=0>(x, i)
      w = GatherND<batch_dims=0>(x, places)
      h = OneHot<axis=-1>(i, depth, onoff)
      nz = NonZero(x)
    }""",
    "branches": """
    g (float[N, 4] x, bool c, int64 m) => (float[N, 4] y, float[N, 4] s, float[T, N, 4] rows) <bool k = {1}> {
      y = If (c) <then_branch = t () => (float[N, 4] a) { a = Exp(x) },
                  else_branch = e () => (float[N, 4] b) { b = Neg(x) }>
      s, rows = Loop (m, k, x) <body = l (int64 i, bool ci, float[N, 4] v) => (bool co, float[N, 4] vo, float[N, 4] so) {
        co = Identity(ci)
        vo = Add(v, x)
        so = Mul(v, y) }>
    }""",
    "scan": """
    g (float[4] start, float[N, 4] xs) => (float[4] last, float[N, 4] all) {
      last, all = Scan <num_scan_inputs=1, body = b (float[4] s, float[4] x) => (float[4] t, float[4] o) {
        t = Add(s, x)
        o = Identity(t) }> (start, xs)
    }""",
    "recurrent": """
    g (float[S, B, 3] x) => (float[S, 1, B, 2] y, float[1, B, 2] h, float[1, B, 2] c)
    <float[1, 8, 3] w, float[1, 8, 2] r> {
      y, h, c = LSTM<hidden_size=2, direction="forward">(x, w, r)
    }""",
    "quantised": """
    g (float[N, 4] x) => (float[N, 2] y)
    <float scale = {0.1}, uint8 zero = {128}, uint8[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] scales = {0.1, 0.2},
     uint8[2] zeros = {0, 1}> {
      q = QuantizeLinear(x, scale, zero)
      d = DequantizeLinear(q, scale, zero)
      v = DequantizeLinear<axis=1>(w, scales, zeros)
      p = MatMul(d, v)
      i = MatMulInteger(q, w, zero)
      f = Cast<to=1>(i)
      y = Add(p, f)
    }""",
    "image": """
    g (float[N, 2, H, W] x, float[N, 4, 4, 2] at) => (float[A, B, C, D] y, float[E, F, G, I] z, float[N, 2, 4, 4] s)
    <float[4] scales = {1, 1, 2, 2}, float[2] others = {1.5, 0.5}> {
      y = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , scales)
      z = Resize<mode="nearest", nearest_mode="floor", axes=[2, 3], keep_aspect_ratio_policy="stretch">(x, , others)
      s = GridSample<mode="linear", padding_mode="zeros", align_corners=0>(x, at)
    }""",
    "attention": """
    g (float[B, S, 8] x, float[8] gamma, float[8] beta) => (float[B, S, 8] y)
    <float[8, 8] w, int64[4] heads = {0, 0, 2, 4}, int64[3] joined = {0, 0, 8}> {
      n = LayerNormalization<axis=-1, epsilon=0.00001>(x, gamma, beta)
      q = MatMul(n, w)
      h = Reshape(q, heads)
      t = Transpose<perm=[0, 2, 1, 3]>(h)
      u = Transpose<perm=[0, 2, 3, 1]>(h)
      s = Einsum<equation="bhid,bhdj->bhij">(t, u)
      a = Softmax(s)
      o = MatMul(a, t)
      b = Transpose<perm=[0, 2, 1, 3]>(o)
      r = Reshape(b, joined)
      e = Gelu<approximate="tanh">(r)
      y = Add(e, x)
    }""",
    "creation": """
    g (int64 n, float[N] x) => (float[K] y, float[L] z, float[3, 3] e)
    <int64 zero = {0}, int64 one = {1}, int64[1] three = {3}, float low = {0}, float high = {1}> {
      r = Range(zero, n, one)
      f = Cast<to=1>(r)
      y = Sqrt(f)
      c = ConstantOfShape<value = float[1] {2}>(three)
      z = Clip(x, low, high)
      v = Constant<value = float[3, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9}>()
      e = EyeLike(v)
    }""",
    "values": """
    g (float[N] x, float[N] y) => (float[M] z) <int64 at = {1}> {
      s = SequenceConstruct(x, y, x)
      t = SequenceAt(s, at)
      c = ConcatFromSequence<axis=0>(s)
      o = Optional(t)
      p = OptionalGetElement(o)
      l = SequenceLength(s)
      z = Concat<axis=0>(c, p)
    }""",
    "trees": """
    g (float[N, 2] x) => (float[N, 1] y) {
      y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
        nodes_featureids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_missing_value_tracks_true = [0, 0, 0],
        target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]>(x)
    }""",
    "labels": """
    g (int64[N] x, float[N, 2] z) => (float[N] y, float[N, 2] s, float[N, 3] p) {
      y = ai.onnx.ml.LabelEncoder<keys_int64s = [1, 2], values_floats = [0.5, 1.5], default_float = -1.0>(x)
      s = ai.onnx.ml.Scaler<offset = [0.5, 1.0], scale = [2.0, 3.0]>(z)
      p = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts = [0.5, 0.5, 0.5],
        targets = 3>(z)
    }""",
    "elementwise": """
    g (float[N, 3] x, float[3] y, int64[N, 3] i) => (float[N, 3] z, int64[N, 3] j) <int64 one = {1}> {
      a = Add(x, y)
      b = Pow(a, y)
      c = LeakyRelu<alpha=0.2>(b)
      d = Less(c, x)
      e = Where(d, c, x)
      f = HardSigmoid(e)
      z = Sum(f, x, y)
      k = Mod<fmod=0>(i, i)
      j = CumSum<exclusive=0, reverse=1>(k, one)
    }""",
}

FUNCTIONS = """<ir_version: 8, opset_import: ["": 18, "own": 1]>
g (float[N, 4] x) => (float[N, 4] y) { y = own.twice<factor = 2.0>(x) }
<domain: "own", opset_import: ["": 18, "own": 1]>
twice <factor: float = 3.0>(a) => (b) {
  f = Constant<value_float: float = @factor>()
  c = Mul(a, f)
  b = own.shifted(c)
}
<domain: "own", opset_import: ["": 18]>
shifted (a) => (b) { one = Constant<value = float {1}>()
  b = Add(a, one) }
"""


@cache
def models() -> dict[str, ModelProto]:
    """The good models by name; weights, which the text declares without elements, are random."""
    texts = {name: _HEADER + text for name, text in SEEDS.items()} | {"functions": FUNCTIONS}
    parsed = {name: onnx.parser.parse_model(text) for name, text in texts.items()}
    for model in parsed.values():
        chosen = np.random.default_rng(0)
        for item in model.graph.value_info:
            shape = [dim.dim_value for dim in item.type.tensor_type.shape.dim]
            model.graph.initializer.append(onnx.numpy_helper.from_array(chosen.random(shape, "float32"), item.name))
        del model.graph.value_info[:]
    return parsed


# ------------------------------------------------------------------------------------- mutations

NUMBERS = (0, 1, -1, 2, 3, 7, 16, 100, -(2**31), 2**31 - 1, 2**31, 2**32, 2**40, 2**50, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "x",
    "y",
    "n",
    "N",
    "Add",
    "If",
    "Loop",
    "../x",
    "/etc/passwd",
    "a" * 300,
    "é",
    "\0",
    "N+1",
    "N//0",
    "linear",
)


def mutant(seed: str) -> tuple[str, bytes | ModelProto]:
    """The mutant of a seed: the name of the model that it was, and the bytes of a file or a message."""
    chosen = random.Random(seed)
    name = chosen.choice(sorted(models()))
    model = ModelProto()
    model.CopyFrom(models()[name])
    if chosen.random() < 0.35:
        return name, _changed_bytes(chosen, model.SerializeToString())
    for _ in range(chosen.choice((1, 1, 1, 2, 4))):
        _change_field(chosen, model)
    return name, model


def _changed_bytes(chosen: random.Random, data: bytes) -> bytes:
    text = bytearray(data)
    for _ in range(chosen.choice((1, 1, 2, 5))):
        at = chosen.randrange(len(text) + 1)
        length = chosen.choice((1, 1, 2, 8, 40))
        match chosen.randrange(6):
            case 0 if at < len(text):
                text[at] ^= 1 << chosen.randrange(8)
            case 1 if at < len(text):
                text[at] = chosen.choice((0, 1, 0x7F, 0x80, 0xFF, chosen.randrange(256)))
            case 2:
                del text[at : at + length]
            case 3:
                text[at:at] = chosen.randbytes(length)
            case 4:
                text[at:at] = text[at : at + length]
            case _ if chosen.random() < 0.2:
                del text[at:]
            case _:
                text[at : at + 1] = b"\xff"
        if not text:
            break
    return bytes(text)


def _change_field(chosen: random.Random, model: ModelProto) -> None:
    """Change one field of one message, chosen evenly among the fields that nodes, tensors and types have."""
    messages = _messages(model)
    message = chosen.choice(messages)
    if chosen.random() < 0.2:
        _swap(chosen, message, messages)
        return
    fields: list[FieldDescriptor] = [f for f, _ in message.ListFields()]
    if not fields or chosen.random() < 0.2:
        fields = list(message.DESCRIPTOR.fields)
    field = chosen.choice(fields)
    if field.is_repeated:
        _change_repeated(chosen, message, field)
    elif field.type == field.TYPE_MESSAGE or chosen.random() < 0.15:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value(chosen, field, getattr(message, field.name)))


def _messages(model: ModelProto) -> list[Any]:
    """The messages in a model; data of tensors count as one field."""
    found: list[Any] = []
    pending: list[Any] = [model]
    while pending:
        message = pending.pop()
        found.append(message)
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                pending += list(value) if field.is_repeated else [value]
    return found


def _swap(chosen: random.Random, message: Any, messages: list[Any]) -> None:
    """Overwrite a message by another of its kind, or merge that into it."""
    others = [other for other in messages if other.DESCRIPTOR is message.DESCRIPTOR and other is not message]
    if others:
        other = type(message)()
        other.CopyFrom(chosen.choice(others))
        (message.MergeFrom if chosen.random() < 0.3 else message.CopyFrom)(other)


def _change_repeated(chosen: random.Random, message: Any, field: FieldDescriptor) -> None:
    items = getattr(message, field.name)
    at = chosen.randrange(len(items)) if len(items) else 0
    is_message = field.type == field.TYPE_MESSAGE
    match chosen.randrange(4):
        case 0 if len(items):
            del items[at]
        case 1 if len(items):
            copies = [items[at]] * chosen.choice((1, 1, 2, 50))
            items.extend(copies)
        case 2 if len(items) > 1 and not is_message:
            items[0], items[at] = items[at], items[0]
        case _ if is_message:
            items.add()
        case _ if len(items):
            items[at] = _value(chosen, field, items[at])
        case _:
            items.append(_value(chosen, field, None))


def _value(chosen: random.Random, field: FieldDescriptor, old: Any) -> Any:
    """Another value for a field of numbers or text."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == field.TYPE_BYTES:
            changed = _changed_bytes(chosen, old) if old else b""
            return chosen.choice((changed, b"", chosen.randbytes(5), b"\xff\xfe"))
        case FieldDescriptor.CPPTYPE_STRING:
            return chosen.choice(TEXTS)
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return chosen.choice(FLOATS)
        case FieldDescriptor.CPPTYPE_ENUM:
            assert field.enum_type is not None
            return chosen.choice([value.number for value in field.enum_type.values])
        case FieldDescriptor.CPPTYPE_INT32:
            return chosen.choice((*range(28), -1, 2**31 - 1))
        case FieldDescriptor.CPPTYPE_UINT64:
            return chosen.choice([number for number in NUMBERS if number >= 0])
        case _:
            return chosen.choice((*NUMBERS, chosen.randrange(-8, 9)))


# ------------------------------------------------------------------------------------- checks


def verdict(source: bytes | ModelProto, build: bool = False) -> str:
    """The outcome of an import: "module", or the code of the diagnostic. Other exceptions are failures of the importer."""
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        model: Any = source
        if isinstance(source, bytes):
            model = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model.onnx"
            model.write_bytes(source)
        try:
            with bounded():
                mod = from_onnx(model)
                relax.analysis.check_well_formed(mod)
                if build:
                    relax.build(mod, "llvm")
        except relax.DiagnosticError as error:
            return error.diagnostics[0].code
    return "module"


def check(seed: str, build: bool = False) -> str:
    """The verdict of one mutant; raises whatever is neither a module nor a diagnostic."""
    return verdict(mutant(seed)[1], build)


def run(count: int, seed: int, build_every: int, report: Callable[[str], None]) -> int:
    """Check mutants; the number of failures, of which one of each sort is reported."""
    verdicts: Counter[str] = Counter()
    sorts: Counter[tuple[str, str]] = Counter()
    for index in range(count):
        name = f"{seed}:{index}"
        try:
            verdicts[check(name, build=build_every > 0 and index % build_every == 0)] += 1
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
            sort = type(error).__name__, place_of(error)
            sorts[sort] += 1
            if sorts[sort] == 1:
                report(f"{name} ({mutant(name)[0]}): {sort[0]} at {sort[1]}: {str(error)[:200]}")
        if (index + 1) % 500 == 0:
            report(f"{index + 1} mutants: {sum(sorts.values())} failures")
    report(", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common()))
    report("\n".join(f"{number} x {kind} at {place}" for (kind, place), number in sorts.most_common()))
    return sum(sorts.values())


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutated ONNX models: each must be a module or a diagnostic.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--build-every", type=int, default=10, help="build one module in so many; 0: none")
    args = parser.parse_args()
    os.environ["RELAX_RAISE_UNEXPECTED"] = "1"
    return 1 if run(args.count, args.seed, args.build_every, print) else 0


if __name__ == "__main__":
    sys.exit(main())
