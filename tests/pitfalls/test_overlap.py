"""Arguments that overlap in memory, one of which is written: seen through the other one, or refused; never garbage."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from pitfall_helpers import arrays, f32, parse

import relax
from relax import te
from relax.codegen import build_module
from relax.ir import IRModule
from relax.tir import interpret

SHIFT = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def shift(A: T.Buffer(("n",), "{dtype}"), B: T.Buffer(("n",), "{dtype}")):
        {promise}
        n = T.int64()
        for i in range(n - 1):
            B[i + 1] = A[i]

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "{dtype}"), y: R.Tensor(("n",), "{dtype}")) -> R.Tensor(("n",), "{dtype}"):
        cls = Module
        _ = cls.shift(x, y)
        return y

    @R.function(pure=False)
    def twice(x: R.Tensor(("n",), "{dtype}")) -> R.Tensor(("n",), "{dtype}"):
        cls = Module
        n = T.int64()
        t = (x, (x, x))
        z = R.match_cast(t[1][0], R.Tensor((n,), "{dtype}"))
        _ = cls.shift(x, z)
        return x
"""
PROMISE = "T.func_attr({'tir.noalias': True})"
REFUSED = "shift: argument B overlaps argument A|shift: argument A overlaps argument B"


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float64", "bfloat16"])
def test_without_a_promise_what_is_written_is_seen(run, dtype):
    """Element by element: each store is read by the next step, so all become the first."""
    program = run(SHIFT.format(dtype=dtype, promise="pass"))
    for n in (0, 1, 2, 9):
        memory = relax.nd.array((np.arange(n) == 0).astype("float32"), dtype=dtype)
        assert program["main"](memory, memory).numpy().astype("float32").tolist() == [1] * n
        memory = relax.nd.array((np.arange(n) == 0).astype("float32"), dtype=dtype)
        assert program["twice"](memory).numpy().astype("float32").tolist() == [1] * n
        apart = relax.nd.array(np.zeros(n, "float32"), dtype=dtype)
        assert program["main"](memory, apart).numpy().astype("float32").tolist() == [0, *[1] * (n - 1)][:n]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_broken_promise_is_refused(run, dtype):
    program = run(SHIFT.format(dtype=dtype, promise=PROMISE))
    for n in (1, 2, 9):
        x = np.ones(n, dtype)
        for call in (lambda: program["main"](x, x), lambda: program["twice"](x)):  # noqa: B023
            with pytest.raises(ValueError, match=REFUSED):
                call()
        assert x.tolist() == [1] * n
    nothing = np.ones(0, dtype)
    assert program["main"](nothing, nothing).shape == (0,)


def test_parts_of_one_array(run):
    """Only bytes in common count: neighbours are apart."""
    program = run(SHIFT.format(dtype="float32", promise=PROMISE))
    memory = np.arange(8, dtype="float32")
    result = program["main"](memory[:4], memory[4:]).numpy()
    assert result.tolist() == [4, 0, 1, 2]
    assert program["main"](memory[4:], memory[:4]).numpy().tolist() == [0, 4, 0, 1]
    for first, second in ((slice(0, 4), slice(3, 7)), (slice(3, 7), slice(0, 4)), (slice(1, 4), slice(1, 4))):
        with pytest.raises(ValueError, match=REFUSED):
            program["main"](memory[first], memory[second])
    assert memory.tolist() == [0, 4, 0, 1, 4, 0, 1, 2]


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        {promise}
        for i in range(4):
            A[i] = A[i] + B[3 - i]

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        r = R.call_tir_inplace(cls.kernel, (x, y), [0], R.Tensor((4,), "float32"))
        return r

    @R.function
    def fresh(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        y = R.add(x, x)
        r = R.call_tir_inplace(cls.kernel, (y, x), [0], R.Tensor((4,), "float32"))
        return r
"""


def test_in_place_calls_of_what_is_one_array_outside(run):
    """Nobody can see in the program that x and y are one array."""
    program = run(IN_PLACE.format(promise="pass"))
    x = f32(1, 2, 3, 4)
    assert program["main"](x, x).numpy().tolist() == [5, 5, 8, 9]
    promising = run(IN_PLACE.format(promise=PROMISE))
    with pytest.raises(ValueError, match="kernel: argument B overlaps argument A"):
        promising["main"](x, x)
    for p in (program, promising):
        assert p["fresh"](f32(1, 2, 3, 4)).numpy().tolist() == [6, 7, 8, 9]


def test_kernels_of_formulas_promise(run):
    """`te.create_prim_func` writes no input, and takes it that outputs are fresh: as they are in every call_tir."""
    x = te.placeholder((8,), "float32", "x")
    kernel = te.create_prim_func([x, te.compute((8,), lambda i: x[i] + x[7 - i], "y")])
    bb = relax.BlockBuilder()
    g = bb.add_func(kernel, "mirror")
    v = relax.Var("v", relax.TensorStructInfo((8,), "float32"))
    with bb.function("main", [v]):
        bb.emit_func_output(bb.emit(relax.op.call_tir(g, (v,), relax.TensorStructInfo((8,), "float32"))))
    w = relax.Var("w", relax.TensorStructInfo((8,), "float32"))
    with bb.function("clash", [w], attrs={"global_symbol": "clash"}, pure=False):
        bb.emit(relax.Call(g, (w, w)))
        bb.emit_func_output(w)
    program = run(bb.get())
    value = np.arange(8, dtype="float32")
    assert program["main"](value).numpy().tolist() == [7] * 8
    with pytest.raises(ValueError, match="mirror: argument y overlaps argument x|argument x overlaps argument y"):
        program["clash"](value)


def test_inputs_may_be_one_array(run):
    program = run("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def plus(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), C: T.Buffer(("n",), "float32")):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        for i in range(n):
            C[i] = A[i] + B[i]

    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        cls = Module
        n = T.int64()
        r = R.call_tir(cls.plus, (x, x), R.Tensor((n,), "float32"))
        return r
""")
    for n in (0, 1, 5):
        x = np.arange(n, dtype="float32")
        assert arrays(program["main"](x)).tolist() == (2 * x).tolist()


STRIDED = """
@I.ir_module
class Module:
    @T.prim_func
    def copy(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        s = T.int64()
        t = T.int64()
        A = T.match_buffer(a, (n,), "float32", strides=[s])
        B = T.match_buffer(b, (n,), "float32", strides=[t])
        for i in range(n):
            B[i] = A[i]
"""


def test_interleaved_arrays_are_apart():
    """Of an array with gaps only the first element is looked at: every other element may be another array's."""
    module = parse(STRIDED)
    assert isinstance(module, IRModule)
    library = build_module(module, "llvm")
    for call in (
        lambda a, b: library["copy"](tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b)),
        lambda a, b: interpret(module["copy"], a, b),
    ):
        memory = np.arange(6, dtype="float32")
        call(memory[::2], memory[1::2])
        assert memory.tolist() == [0, 0, 2, 2, 4, 4]
        with pytest.raises(ValueError, match="copy: argument A overlaps argument B"):
            call(memory[::2], memory[::2])
