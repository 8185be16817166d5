"""DataflowUseInplaceCalls: which calls work in place, which do not, and that nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.ir.transform import PassContext, VerifyInstrument
from relax.op import is_call_of
from relax.op.intrinsics import CallTIRInplace
from relax.optimize.pipeline import GRAPH, as_pass
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import DataflowUseInplaceCalls, LegalizeOps
from support import main

X = 'x: R.Tensor(("n", 4), "float32")'


def in_place(mod):
    """The module with kernels in place, and the names of those called, each pass verified."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        before = LegalizeOps()(as_pass(GRAPH, "graph")(mod))
        after = DataflowUseInplaceCalls()(before)
        assert DataflowUseInplaceCalls()(after) is after
    names = [
        binding.value.args[0].name_hint
        for block in after["main"].body.blocks
        for binding in block.bindings
        if is_call_of(binding.value, CallTIRInplace)
    ]
    assert names or after is before
    return after, names


def test_a_chain():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def double(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                with T.block("double"):
                    v = T.axis.spatial(n, i)
                    B[v] = A[v] * T.float32(2)

        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            cls = Before
            n = T.int64()
            with R.dataflow():
                a = R.call_tir(cls.double, (x,), R.Tensor((n,), "float32"))
                b = R.call_tir(cls.double, (a,), R.Tensor((n,), "float32"))
                R.output(b)
            return b

    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def double(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                with T.block("double"):
                    v = T.axis.spatial(n, i)
                    B[v] = A[v] * T.float32(2)

        @T.prim_func(private=True)
        def double_inplace(a: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            for i in range(n):
                with T.block("double"):
                    v = T.axis.spatial(n, i)
                    A[v] = A[v] * T.float32(2)

        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            cls = Expected
            n = T.int64()
            with R.dataflow():
                a = R.call_tir(cls.double, (x,), R.Tensor((n,), "float32"))
                b = R.call_tir_inplace(cls.double_inplace, (a,), [0], R.Tensor((n,), "float32"))
                R.output(b)
            return b

    after = DataflowUseInplaceCalls()(Before)
    relax.ir.assert_structural_equal(after, Expected)
    assert DataflowUseInplaceCalls()(after) is after


def block(*lines, result):
    inside = "\n".join(f"    {line}" for line in (*lines, f"R.output({result})"))
    return f"n = T.int64()\nwith R.dataflow():\n{inside}\nreturn {result.split(',')[0] if ',' not in result else (f'({result})')}"


@pytest.mark.parametrize(
    "body, params, expected",
    [
        pytest.param(block("a = R.exp(x)", "b = R.add(a, x)", result="b"), X, ["add_inplace"], id="element-wise"),
        pytest.param(block("a = R.exp(x)", "b = R.add(a, a)", result="b"), X, [], id="given twice"),
        pytest.param(block("a = R.exp(x)", "b = R.sin(a)", result="a, b"), X, [], id="returned as well"),
        pytest.param(block("b = R.exp(x)", result="b"), X, [], id="a parameter"),
        pytest.param(
            block("a = R.exp(x)", "b = R.sin(a)", "c = R.add(a, b)", result="c"), X, ["add_inplace"], id="used later"
        ),
        pytest.param(
            block("a = R.exp(x)", "b = R.sum(a, axis=1, keepdims=True)", "c = R.add(a, b)", result="c"),
            X,
            ["add_inplace"],
            id="smaller",
        ),
        pytest.param(block("a = R.exp(x)", "b = R.permute_dims(a)", result="b"), X, [], id="other order"),
        pytest.param(block("a = R.exp(x)", "b = R.flip(a, axis=0)", result="b"), X, [], id="other elements"),
        pytest.param(block("a = R.exp(x)", 'b = R.astype(a, "int32")', result="b"), X, [], id="other dtype"),
        pytest.param(block("a = R.exp(x)", "b = R.nn.softmax(a)", result="b"), X, [], id="several nests"),
        pytest.param(block("a = R.exp(x)", "b = R.cumsum(a, axis=0)", result="b"), X, [], id="a scan"),
        pytest.param(
            block("a = R.exp(x)", "t = (a, x)", "b = R.sin(a)", "c = R.add(b, t[0])", result="c"),
            X,
            ["add_inplace"],
            id="in a tuple",
        ),
        pytest.param("a = R.exp(x)\nb = R.sin(a)\nreturn b", X, [], id="outside of a dataflow block"),
        pytest.param(
            block("a = R.exp(x)", "b = R.scatter_elements(a, i, u)", result="b"),
            f'{X}, i: R.Tensor((1, 4), "int64"), u: R.Tensor((1, 4), "float32")',
            ["scatter_elements_inplace"],
            id="a write into a cache",
        ),
        pytest.param(
            block("a = R.exp(x)", "b = R.scatter_elements(a, i, a)", result="b"),
            f'{X}, i: R.Tensor(("n", 4), "int64")',
            [],
            id="updates from the cache itself",
        ),
    ],
)
def test_calls_in_place(body, params, expected):
    mod = main(body, params)
    after, names = in_place(mod)
    assert names == expected
    rng = np.random.default_rng(0)
    for n in (2, 1, 5):
        args = []
        for param in mod["main"].params:
            shape = tuple(
                n if not isinstance(dim, relax.tir.IntImm) else int(dim) for dim in param.struct_info.shape.values
            )
            integer = param.struct_info.dtype == "int64"
            args.append(rng.integers(0, n, shape) if integer else rng.normal(size=shape).astype("float32"))
        if len(args) > 1 and args[1].shape[0] > 1:
            args[1] = np.arange(n)[:, None] * np.ones((1, 4), "int64")  # no place twice
        before = [np.copy(arg) for arg in args]
        vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"))
        for result in (relax.interpret(after, "main", *args), vm["main"](*args)):
            wanted = relax.interpret(mod, "main", *args)
            pairs = zip(result, wanted) if isinstance(result, tuple) else [(result, wanted)]
            for actual, desired in pairs:
                np.testing.assert_allclose(actual.numpy(), desired.numpy(), 1e-5, 1e-6)
        for now, then in zip(args, before):
            assert (now == then).all()  # arguments are the caller's


def test_a_cache_in_a_loop_is_not_copied():
    """Kernels that append to a cache write one row each, whatever the cache's size."""
    body = block(
        "c = R.zeros(R.shape([n, 4]), 'float32')",
        "d = R.scatter_elements(c, R.full((1, 4), R.const(0, 'int64')), u)",
        "e = R.scatter_elements(d, R.full((1, 4), R.const(1, 'int64')), u)",
        result="e",
    )
    after, names = in_place(main(body, f'{X}, u: R.Tensor((1, 4), "float32")'))
    assert names == ["scatter_elements_inplace"] * 2
    text = after["scatter_elements_inplace"].script()
    assert "T.grid(n" not in text


def test_no_kernel_without_proof():
    """A kernel that reads a neighbour, one that writes an element twice, one with two outputs, and one of two shapes."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def shifted(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                with T.block("b"):
                    v = T.axis.spatial(n, i)
                    B[v] = A[n - 1 - v]

        @T.prim_func(private=True)
        def twice(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i, j in T.grid(n, 2):
                with T.block("b"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v] = A[v] + T.float32(1)

        @T.prim_func(private=True)
        def two(a: T.handle, b: T.handle, c: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            C = T.match_buffer(c, (n,), "float32")
            for i in range(n):
                with T.block("b"):
                    v = T.axis.spatial(n, i)
                    B[v] = A[v]
            for i in range(n):
                with T.block("c"):
                    v = T.axis.spatial(n, i)
                    C[v] = A[v]

    from relax.tir.in_place import in_place as kernel_in_place

    for name in ("shifted", "twice", "two"):
        assert kernel_in_place(Module[name], 0) is None
    assert kernel_in_place(Module["shifted"], 1) is None
