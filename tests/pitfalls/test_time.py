"""Time that must not explode: shared expressions, many dynamic dimensions, many sizes. Nothing here looks at a clock: what
would take for ever is run, and what is compiled is counted.
"""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest
import tvm_ffi
from pitfall_helpers import machine, parse

import relax
from relax import te, tir
from relax.codegen import resolve
from relax.codegen.module import module_text
from relax.farm import cache
from relax.ir import structural_equal, structural_hash, walk
from relax.runtime import NDArray
from relax.tir import PrimFunc, post_order_visit, substitute
from relax.tir.interpret import interpret
from relax.tir.stmt_functor import ir_transform, pre_order_visit, renew_defs

DEEP = 60
"""``e = e + e`` so often: 60 nodes, and 2**60 ways from the top to the bottom."""

STEPS = {
    "add": lambda e: e + e,
    "multiply": lambda e: e * e,
    "exp": lambda e: tir.exp(e) * e,
    "cast": lambda e: tir.Cast("float32", tir.Cast("float64", e)) - e,
    "max": lambda e: tir.Max(e, e - tir.FloatImm("float32", 1.0)),
    "select": lambda e: tir.Select(e > e * e, e + e, e),
    "if_then_else": lambda e: tir.if_then_else(e > e * e, e + e, e),
}


def shared(step, extent=8, kind="serial"):
    """y[i] = what became of x[i] in `DEEP` steps."""
    x = te.placeholder((extent,), "float32", "x")

    def value(i):
        e = x[i]
        for _ in range(DEEP):
            e = step(e)
        return e

    func = te.create_prim_func([x, te.compute((extent,), value, "y")]).with_attr("global_symbol", "f")
    if kind == "serial":
        return func
    return func.replace(
        body=ir_transform(
            func.body, None, lambda loop: loop.replace(kind=tir.ForKind.VECTORIZED), only_enable=["tir.For"]
        )
    )


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_lowering_and_code_of_shared_expressions(step, kind):
    func = shared(STEPS[step], kind=kind)
    lowered = tir.lower(func)
    assert len(module_text({"f": lowered}, resolve("llvm"))) < 100_000


def test_symbolic_lowering_of_shared_expressions():
    func = shared(STEPS["add"], te.var("n", "int64"))
    assert len(module_text({"f": tir.lower(func)}, resolve("llvm"))) < 100_000


def test_walks_of_shared_expressions():
    func = shared(STEPS["add"])
    counts = {"pre": 0, "post": 0, "walk": 0}

    def count(which):
        def visit(_):
            counts[which] += 1

        return visit

    pre_order_visit(func.body, count("pre"))
    post_order_visit(func.body, count("post"))
    walk(func, count("walk"))
    assert max(counts.values()) < 10 * DEEP
    assert structural_equal(func, shared(STEPS["add"]))
    assert not structural_equal(func, shared(STEPS["multiply"]))
    assert structural_hash(func) == structural_hash(shared(STEPS["add"]))
    assert structural_equal(renew_defs(func), func)
    replaced = substitute(func.body, {next(iter(func.buffer_map.values())): tir.decl_buffer((8,), "float32", "other")})
    assert not structural_equal(replaced, func.body)
    same = ir_transform(func.body, lambda _: None, lambda _: None)
    assert same is func.body
    tir.verify_well_formed(func)


def test_a_hash_does_not_depend_on_sharing():
    """Two copies of an expression and one in two places are the same program."""
    x = tir.Var("x", "float32")
    square = x * x
    for a, b in ((square + square, x * x + x * x), ((square + x) * (square + x), (x * x + x) * (x * x + x))):
        assert structural_equal(a, b)
        assert structural_hash(a) == structural_hash(b)
        assert structural_hash(a, map_free_vars=True) == structural_hash(b, map_free_vars=True)
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    assert structural_hash(n + n + m, map_free_vars=True) == structural_hash(m + m + n, map_free_vars=True)
    assert structural_hash(n + n + m, map_free_vars=True) != structural_hash(n + m + m, map_free_vars=True)


@pytest.mark.parametrize("step", ["add", "exp"])
def test_interpreting_shared_expressions(step):
    out = np.zeros(8, "float32")
    interpret(shared(STEPS[step]), np.zeros(8, "float32"), out)
    assert out.tolist() == [0] * 8


@pytest.mark.parametrize("body", ["({0}, {0})", "({0}, {0}, x)"])
def test_shared_tuples_in_a_program(run, body):
    """Each line holds the tuple of the line before twice: a value is matched by its objects, not by its paths."""
    lines = "".join(f"                a{i + 1} = {body.format(f'a{i}')}\n" for i in range(40))
    module = relax.script.from_source(f"""
        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor(("n",), "float32")):
                a0 = x
{lines}
                return a40
    """)
    value = run(module)["main"](np.ones(3, "float32"))
    for _ in range(40):
        value = value[1]
    assert value.numpy().tolist() == [1, 1, 1]


def test_shared_expressions_in_a_program(run):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((8,), "float32"))

    def formula(t):
        def value(i):
            e = t[i]
            for _ in range(DEEP):
                e = e + e
            return e

        return te.compute((8,), value, "y")

    with bb.function("main", [x]):
        e = bb.emit_te(formula, x)
        for _ in range(DEEP):
            e = relax.op.maximum(e, e)  # one object, in two places of the next
        bb.emit_func_output(bb.emit(e))
    value = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(bb.get())["main"](value).numpy(), value * np.float32(2**DEEP))


# ---------------------------------------------------------------------------------------- dynamic sizes


def layers(count, static):
    """Matrix products in a row, with a dimension of its own each; and branches that mention them all."""
    names = [f"d{i}" for i in range(count + 1)]
    sizes = [str(2 + i % 3) for i in range(count + 1)] if static else [f'"{name}"' for name in names]
    params = ", ".join(f'w{i}: R.Tensor(({sizes[i]}, {sizes[i + 1]}), "float32")' for i in range(count))
    body = "\n".join(
        f"            h{i + 1} = R.nn.relu(R.add(R.matmul(h{i}, w{i}), R.sum(w{i}, axis=[0])))" for i in range(count)
    )
    last = sizes[-1].strip('"')
    declared = "" if static else "".join(f"        {name} = T.int64()\n" for name in names)
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(h0: R.Tensor((3, {sizes[0]}), "float32"), {params}) -> R.Tensor((3, {sizes[-1]}), "float32"):
{declared}        with R.dataflow():
{body}
            r = R.reshape(R.reshape(h{count}, ({last} * 3,)), (3, {last}))
            R.output(r)
        return r
"""


def test_dynamic_dimensions_cost_no_more_code():
    """Twelve dimensions instead of none: as many kernels, and no more than some checks in each."""
    count = 12
    sizes = {}
    for static in (False, True):
        mod = tir.lower(relax.get_pipeline("default")(parse(layers(count, static))))
        kernels = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        sizes[static] = len(kernels), len(module_text(kernels, resolve("llvm")))
    kernels, text = sizes[False]
    assert kernels <= 3 * count + 5
    assert text < 6 * sizes[True][1] * max(1, kernels // sizes[True][0])


def test_one_build_serves_every_combination_of_sizes(monkeypatch, tmp_path):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path))  # which no other test fills meanwhile
    count = 6
    vm = machine(layers(count, False))
    before = len(cache.entries())
    assert before > 0
    rng = np.random.default_rng(0)
    for _ in range(12):
        dims = [int(d) for d in rng.integers(0, 5, count + 1)]
        h = wanted = rng.random((3, dims[0]), dtype="float32")
        weights = [rng.random(shape, dtype="float32") for shape in itertools.pairwise(dims)]
        for w in weights:
            wanted = np.maximum(wanted @ w + w.sum(0), 0)
        np.testing.assert_allclose(vm["main"](h, *weights).numpy(), wanted, rtol=1e-4)
    assert len(cache.entries()) == before


def test_a_second_build_compiles_nothing():
    executable = relax.build(parse(layers(4, False)), "llvm")
    found = cache.statistics.hits
    misses = sum(cache.statistics.misses.values())
    assert relax.build(parse(layers(4, False)), "llvm").as_text() == executable.as_text()
    assert cache.statistics.hits > found
    assert sum(cache.statistics.misses.values()) == misses


def test_a_dimension_that_grows_is_no_other_program():
    """What is compiled does not mention the sizes it is run with."""
    texts = {str(relax.build(parse(layers(3, False)), "llvm").as_text()) for _ in range(2)}
    assert len(texts) == 1


# -------------------------------------------------------------------------------------------- live tensors


def live():
    """The tensors that somebody holds."""
    gc.collect()
    return sum(isinstance(item, NDArray | tvm_ffi.Tensor) for item in gc.get_objects())


@pytest.mark.parametrize("mode", ["results dropped", "results kept for a while", "errors"])
def test_no_tensor_outlives_its_call(run, mode):
    program = run("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), i: R.Tensor(("k",), "int64")) -> R.Tensor(ndim=2, dtype="float32"):
        n = T.int64()
        m = T.int64()
        a = R.exp(x)
        b = R.reshape(a, (m, n))
        c = R.concat([b, b], axis=0)

        @R.function
        def f(y: R.Tensor(ndim=2, dtype="float32")) -> R.Tensor(ndim=2, dtype="float32"):
            return R.add(y, c)

        t = (f, c)
        d = t[0](c)
        return R.take(d, i, axis=0)
""")
    kept = []

    def step(n, m):
        index = np.array([0, 99 if mode == "errors" else 2 * m - 1])
        try:
            result = program["main"](np.ones((n, m), "float32"), index)
        except IndexError:
            return
        assert mode != "errors"
        if mode != "results dropped":
            kept.append(result)

    step(1, 1)
    kept.clear()
    before = live()
    for n in range(1 if mode == "errors" else 0, 6):  # no element is read of nothing, wherever it might be
        for m in range(1, 6):
            step(n, m)
    if mode == "results kept for a while":
        assert live() >= before + len(kept) == before + 30
    kept.clear()
    assert live() == before
