"""Arguments: the interpreter takes and refuses what compiled functions do, with the same messages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from relax.codegen import build_module
from relax.runtime.dtypes import NUMPY_DTYPES
from relax.script import ir as I
from relax.script import tir as T
from relax.tir import BufferStore, Evaluate, PrimFunc, Var, decl_buffer, interpret


@I.ir_module
class Module:
    @T.prim_func
    def rows(a: T.handle, b: T.handle, c: T.handle, k: T.int8):
        T.func_attr({"tir.noalias": True})
        m, n = T.int64(), T.int64()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, (n * 2, 3), "float32")
        C = T.match_buffer(c, (m + T.cast(k, "int64"), n), "float32")
        for i, j in T.grid(T.min(m, m + T.cast(k, "int64")), n):
            C[i, j] = A[i, j] + B[j, 0]

    @T.prim_func
    def strided(a: T.handle, b: T.handle):
        n, s = T.int64(), T.int64()
        A = T.match_buffer(a, (n, 2), "float32", strides=[s, 1])
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i, 1]

    @T.prim_func
    def scalars(a: T.handle, b: T.handle, u: T.uint64, f: T.float32, t: T.bool):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int8")
        B = T.match_buffer(b, (1,), "int32")
        if t and f > T.float32(0) and u > T.uint64(0):
            B[0] = n


def f32(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


FITTING = {
    "rows": lambda: [f32(2, 4), f32(8, 3), f32(2, 4), 0],
    "strided": lambda: [f32(3, 4)[:, :2], f32(3)],
    "scalars": lambda: [np.zeros(3, "int8"), np.zeros(1, "int32"), 1, 0.5, True],
}


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, "uint8")[1:]
    return raw.view(array.dtype).reshape(array.shape)


def others(arg, every):
    """What may stand in an argument's place; the first few of it unless `every`."""
    yield from (None, 7, 1.5, -1, 2**40, np.float32(2))
    if every:
        yield from ("x", b"x", True, (1, 2), 200, -(2**63), np.int64(3), np.bool_(True))
    if isinstance(arg, np.ndarray):
        yield from (arg.astype("float64"), arg[None], arg[1:].copy(), arg.T, arg[:0], misaligned(arg))
        yield np.repeat(arg, 2, -1)[..., ::2]
        if every:
            yield from (arg[0], arg[::2], arg[:1].copy(), arg[..., :1], arg[..., :0].copy(), arg.T.copy())
            yield from (np.concatenate([arg, arg], axis) for axis in (0, -1))


def variants(fitting):
    """The arguments, with one or two of them replaced, or one of them by the first."""
    yield fitting()
    for count in (1, 2):
        for places in itertools.combinations(range(len(fitting())), count):
            replacements = (others(fitting()[place], every=count == 1) for place in places)
            for values in itertools.product(*replacements):
                args = fitting()
                for place, value in zip(places, values, strict=True):
                    args[place] = value
                yield args
    for place in range(1, len(fitting())):
        args = fitting()
        args[place] = args[0]
        yield args


def outcome(function, args):
    """The error, or the arrays afterwards."""
    try:
        function(*args)
    except (TypeError, ValueError, OverflowError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return str([arg.tolist() for arg in args if isinstance(arg, np.ndarray)])


@pytest.mark.parametrize(
    "name, faults",
    [
        ("rows", ["None", "dtype", "dimensions, expected 2", "not compact", "not aligned", "overlaps", "fit int8"]),
        ("strided", ["stride of dimension 1 is 2, expected 1", "dimension 1 is 1, expected 2", "n was bound by A"]),
        ("scalars", ["-1 does not fit uint64", "expected a bool, found a float", "expected a float, found bytes"]),
    ],
)
def test_errors_are_those_of_compiled_functions(name, faults):
    """Also where two arguments are wrong: the same one is named."""
    compiled, outcomes = build_module(Module)[name], set()
    for args, again in zip(variants(FITTING[name]), variants(FITTING[name]), strict=True):
        ours = outcome(lambda *given: interpret(Module[name], *given), args)
        assert ours == outcome(compiled, again), again
        outcomes.add(ours)
    for fault in faults:
        assert any(fault in text for text in outcomes), fault


def test_a_stated_offset_is_that_of_the_argument():
    data = decl_buffer((3,), "float32", "A", elem_offset=2)
    p = Var("p", "handle")
    func = PrimFunc((p,), Evaluate(0), buffer_map={p: data})
    for run in (lambda array: interpret(func, array), build_module({"main": func})["main"]):
        assert outcome(run, [f32(3)]) == "ValueError: main: argument A: offset is 0, expected 2"


def test_strides_of_vectors_are_counted_in_vectors():
    n, s = Var("n", "int64"), Var("s", "int64")
    rows = decl_buffer((n, 2), "float32x4", "A", strides=(s, 1))
    out = decl_buffer((1,), "int64", "B")
    p, q = Var("p", "handle"), Var("q", "handle")
    func = PrimFunc((p, q), BufferStore(out, s, (0,)), buffer_map={p: rows, q: out})
    result = np.zeros(1, "int64")
    interpret(func, f32(3, 5, 4)[:, :2], result)
    assert result[0] == 5


@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "int4"])
def test_a_tensor_without_elements_has_the_strides_of_a_compact_one(dtype):
    n, s = Var("n", "int64"), Var("s", "int64")
    rows, out = decl_buffer((n, 3), dtype, "A", strides=(s, 1)), decl_buffer((1,), "int64", "B")
    p, q = Var("p", "handle"), Var("q", "handle")
    func = PrimFunc((p, q), BufferStore(out, s, (0,)), buffer_map={p: rows, q: out})
    result = np.zeros(1, "int64")
    for run in (lambda *args: interpret(func, *args), build_module({"main": func})["main"]):
        run(np.zeros((0, 3), NUMPY_DTYPES[dtype]), result)
        assert result[0] == 3


def test_negative_strides_are_refused():
    """The interpreter sees memory from the first element on."""
    with pytest.raises(ValueError, match="^strided: argument A: interpret takes no array with negative strides"):
        interpret(Module["strided"], f32(3, 2)[::-1], f32(3))
