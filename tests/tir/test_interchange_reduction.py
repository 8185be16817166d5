"""InterchangeReduction: reduce outside, run along memory inside; same results bit for bit, or declined."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir, topi
from relax.ir import IRModule, assert_structural_equal
from relax.prim import evaluate
from relax.script import from_source
from relax.tir.transform import InterchangeReduction

HEAD = "from relax.script import tir as T\n\n@T.prim_func\n"


def run(body: str) -> tir.PrimFunc:
    func = from_source(HEAD + body, allow_extern=True)
    once = InterchangeReduction()(IRModule({"main": func}))
    twice = InterchangeReduction()(once)
    assert twice is once  # there is nothing left to do
    return once["main"]


def unchanged(body: str) -> None:
    func = from_source(HEAD + body, allow_extern=True)
    assert InterchangeReduction()(IRModule({"main": func}))["main"] is func


def test_the_inner_loop_runs_along_memory():
    found = run("""
def main(A: T.Buffer((3, 40), "float32"), B: T.Buffer((40, 5), "float32"), C: T.Buffer((3, 5), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(3, 5):
        C[i, j] = T.float32(0)
        for k in range(40):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
""")
    expected = from_source(
        HEAD
        + """
def main(A: T.Buffer((3, 40), "float32"), B: T.Buffer((40, 5), "float32"), C: T.Buffer((3, 5), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(3):
        for j in range(5):
            C[i, j] = T.float32(0)
        for k, j in T.grid(40, 5):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
    )
    assert_structural_equal(found, expected)


def test_a_short_reduction_goes_outside_even_if_it_runs_along_memory():
    found = run("""
def main(A: T.Buffer((10,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"tir.noalias": True})
    for j in range(8):
        C[j] = T.float32(0)
        for k in range(3):
            C[j] = C[j] + A[j + k] * W[k]
""")
    expected = from_source(
        HEAD
        + """
def main(A: T.Buffer((10,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"tir.noalias": True})
    for j in range(8):
        C[j] = T.float32(0)
    for k, j in T.grid(3, 8):
        C[j] = C[j] + A[j + k] * W[k]
"""
    )
    assert_structural_equal(found, expected)


SUM_OF_COLUMNS = """
def main(A: T.Buffer((40, 5), "float32"), C: T.Buffer((5,), "float32")):
    T.func_attr({{"tir.noalias": {noalias}}})
    for j in range(5):
        C[j] = T.float32(0)
        for k in range({extent}):
            C[{at}] = {value}
"""


def test_declines_what_might_change_results():
    run(SUM_OF_COLUMNS.format(noalias=True, extent=40, at="j", value="C[j] + A[k, j]"))
    for changes in (
        {"noalias": False},  # the operands may be the result
        {"extent": "j + 1"},  # the reduction depends on the column
        {"at": "4 - j"},  # written backwards: not along memory
        {"at": "0"},  # every column writes the same element
        {"value": "C[4 - j] + A[k, j]"},  # and reads another's
    ):
        parts = {"noalias": True, "extent": 40, "at": "j", "value": "C[j] + A[k, j]", **changes}
        unchanged(SUM_OF_COLUMNS.format(**parts))


def test_declines_what_does_not_pay():
    unchanged("""
def main(A: T.Buffer((5, 40), "float32"), C: T.Buffer((5,), "float32")):
    T.func_attr({"tir.noalias": True})
    for j in range(5):
        C[j] = T.float32(0)
        for k in range(40):
            C[j] = C[j] + A[j, k]
""")


def test_declines_effects():
    unchanged("""
def main(A: T.Buffer((40, 5), "float32"), C: T.Buffer((5,), "float32")):
    T.func_attr({"tir.noalias": True})
    for j in range(5):
        C[j] = T.float32(0)
        for k in range(40):
            C[j] = C[j] + T.call_extern("float32", "rand", A[k, j])
""")


FORMULAS = {
    "matmul": (topi.matmul, [(3, 4), (4, 5)]),
    "columns": (lambda a: topi.sum(a, 0), [(20, 3)]),
    "max of columns": (lambda a: topi.max(a, 0), [(20, 3)]),
    "conv2d": (lambda a, w: topi.nn.conv2d(a, w, 1, 1), [(2, 3, 6, 5), (4, 3, 3, 3)]),
    "max_pool2d": (lambda a: topi.nn.max_pool(a, topi.nn.Pooling(3, 1, 1)), [(1, 2, 6, 5)]),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_results_are_the_same_bit_for_bit(name, symbolic, empty):
    formula, shapes = FORMULAS[name]
    shapes = [(0, *shapes[0][1:]), *shapes[1:]] if empty else shapes
    sizes = {n: te.size_var(f"n{n}", "int64") if symbolic else n for shape in shapes for n in shape}
    inputs = [te.placeholder([sizes[n] for n in s], name=f"x{i}") for i, s in enumerate(shapes)]
    result = formula(*inputs)
    func = te.create_prim_func([*inputs, result])
    lowered = IRModule({"main": func})
    for step in (
        tir.transform.LowerInitBlock(),
        tir.transform.ConvertBlocksToOpaque(),
        tir.transform.LowerOpaqueBlock(),
    ):
        lowered = step(lowered)
    interchanged = InterchangeReduction()(lowered)
    # A symbolic kernel may be long, and runs along memory: then it stays inside.
    assert (interchanged is lowered) == (symbolic and name == "conv2d")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s, dtype="float32") for s in shapes]
    values = {var: n for n, var in sizes.items()} if symbolic else {}
    shape = [evaluate(size, values) for size in result.shape]
    outs = [np.full(shape, np.nan, "float32") for _ in range(2)]
    for mod, out in zip((lowered, interchanged), outs, strict=True):
        tir.interpret(mod["main"], *arrays, out)
    np.testing.assert_array_equal(outs[0], outs[1])
