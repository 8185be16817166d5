"""AnnotateTIROpPattern: kinds of kernels from the structure of their loops."""

from __future__ import annotations

import pytest

import relax
from relax import te, tir, topi
from relax.script import ir as I
from relax.script import tir as T
from relax.tir.op_pattern import OpPatternKind as Kind
from relax.tir.op_pattern import op_pattern
from relax.transform import AnnotateTIROpPattern


def tensors(*shapes, dtype="float32"):
    return [te.placeholder(shape, dtype, f"p{i}") for i, shape in enumerate(shapes)]


def kind(inputs, *outputs):
    """The kind of the kernel that formulas make; its names say nothing."""
    func = te.create_prim_func([*inputs, *outputs])
    return op_pattern(func)


N = tir.Var("n", "int64")
X, Y, B, C = tensors((N, 4), (N, 4), (4,), (N, 1))
I1, I2 = tensors((1, 1, 5, 5), (3, 1, 2, 2))
M1, M2, M3, M4 = tensors((N, 4), (4, 6), (4, 1), (1, 4))
INDEX = te.placeholder((3,), "int64", "index")

KINDS = {
    "exp": (Kind.ELEMWISE, [X], topi.exp(X)),
    "add": (Kind.ELEMWISE, [X, Y], topi.add(X, Y)),
    "bias": (Kind.ELEMWISE, [X, B], topi.add(X, B)),
    "column": (Kind.ELEMWISE, [X, C], topi.add(X, C)),
    "outer": (Kind.BROADCAST, [C, B], topi.multiply(C, B)),
    "broadcast_to": (Kind.BROADCAST, [B], topi.broadcast_to(B, (N, 4))),
    "transpose": (Kind.INJECTIVE, [X], topi.transpose(X)),
    "with its transpose": (Kind.INJECTIVE, [X], te.compute((4, 4), lambda i, j: X[i, j] + X[j, i])),
    "reshape": (Kind.INJECTIVE, [X], topi.reshape(X, (4, N))),
    "take": (Kind.INJECTIVE, [X, INDEX], topi.take(X, INDEX, axis=1)),
    "concatenate": (Kind.INJECTIVE, [X, Y], topi.concatenate([X, Y], axis=1)),
    "full": (Kind.ELEMWISE, [], topi.full((4, 4), "float32", 1.0)),
    "sum": (Kind.COMM_REDUCE, [X], topi.sum(X, axis=1)),
    "sum, kept": (Kind.COMM_REDUCE, [X], topi.sum(X, axis=1, keepdims=True)),
    "mean, kept": (Kind.COMM_REDUCE, [X], topi.mean(X, axis=1, keepdims=True)),
    "max": (Kind.COMM_REDUCE, [X], topi.max(X, axis=0)),
    "argmax": (Kind.COMM_REDUCE, [X], topi.argmax(X, axis=1)),
    "matmul": (Kind.OUT_ELEMWISE_FUSABLE, [M1, M2], topi.matmul(M1, M2)),
    "matmul, one column": (Kind.OUT_ELEMWISE_FUSABLE, [M1, M3], topi.matmul(M1, M3)),
    "matmul, one row": (Kind.OUT_ELEMWISE_FUSABLE, [M4, M2], topi.matmul(M4, M2)),
    "conv2d": (Kind.OUT_ELEMWISE_FUSABLE, [I1, I2], topi.nn.conv2d(I1, I2, 1, 1, 1)),
    "softmax": (Kind.OUT_ELEMWISE_FUSABLE, [X], topi.nn.softmax(X)),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_formulas(name):
    expected, inputs, output = KINDS[name]
    assert kind(inputs, output) == expected


def test_a_narrow_sum_is_one_reduction():
    (x,) = tensors((N, 4), dtype="float16")
    assert kind([x], topi.sum(x, axis=1)) == Kind.COMM_REDUCE


def test_several_outputs():
    assert kind([X], *topi.split(X, 2, axis=1)) == Kind.INJECTIVE
    assert kind([X], topi.sum(X, axis=1), topi.max(X, axis=1)) == Kind.OPAQUE


@I.ir_module
class Opaque:
    @T.prim_func(private=True)
    def in_place(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("A"):
                v = T.axis.spatial(4, i)
                A[v] = A[v] + T.float32(1)

    @T.prim_func(private=True)
    def half_of_it(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(2):
            with T.block("B"):
                v = T.axis.spatial(2, i)
                B[v] = A[v]

    @T.prim_func(private=True)
    def scatter(A: T.Buffer((4,), "float32"), J: T.Buffer((4,), "int64"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[J[v]] = A[v]

    @T.prim_func(private=True)
    def while_loop(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]
                while B[v] < T.float32(1):
                    B[v] = B[v] * T.float32(2)

    @T.prim_func(private=True)
    def extern(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.evaluate(T.call_extern("int32", "copy", A.data, B.data))

    @T.prim_func(private=True)
    def strided(a: T.handle, B: T.Buffer((4,), "float32")):
        A = T.match_buffer(a, (4,), "float32", strides=(2,))
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]

    @T.prim_func(private=True)
    def parallel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in T.parallel(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]

    @T.prim_func(private=True)
    def twice_written(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]
        for i in range(4):
            with T.block("B_1"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)

    @T.prim_func(private=True)
    def with_predicate(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                T.where(i < 3)
                B[v] = A[v]


@pytest.mark.parametrize("name", [g.name_hint for g in Opaque.functions])
def test_what_is_opaque(name):
    assert op_pattern(Opaque[name]) == Kind.OPAQUE


def test_the_attribute():
    func = te.create_prim_func([X, topi.exp(X)])
    mod = relax.IRModule(
        {"f": func, "g": func.with_attr("op_pattern", 8), "h": func.with_attr("tir.is_scheduled", True)}
    )
    after = AnnotateTIROpPattern()(mod)
    assert [after[name].attrs["op_pattern"] for name in "fgh"] == [0, 8, 8]
    assert after["g"] is mod["g"]
    assert AnnotateTIROpPattern()(after) is after
