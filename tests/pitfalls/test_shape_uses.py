"""A dimension is a use of its variable: no pass parts an expression in an annotation from what binds the variable.

Each program binds `m` by a match_cast and mentions it in one place only, where no value depends on the cast's variable.
"""

from __future__ import annotations

import functools
import textwrap

import numpy as np
import pytest
from pitfall_helpers import arrays, interpreted, machine, parse

import relax
from relax.analysis import assert_well_formed
from relax.optimize.pipeline import DEFAULT
from relax.transform import (
    CanonicalizeBindings,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    LambdaLift,
    LegalizeOps,
    Normalize,
    RemovePurityChecking,
    RewriteDataflowReshape,
    ToNonDataflow,
)

PLACES = {
    "output of a kernel": 'o = R.call_tir(cls.ones, (), R.Tensor((m,), "float32"))',
    "output of a packed kernel": 'o = R.call_dps_packed("pitfall.ones", (), R.Tensor((m,), "float32"))',
    "arithmetic in an output": 'o = R.call_tir(cls.ones, (), R.Tensor((m * 2 - m,), "float32"))',
    "integers of a kernel": 'o = R.call_tir(cls.count, (), R.Tensor((4,), "float32"), tir_vars=R.shape([m]))',
    "shape": "o = R.shape([m, m + 1])",
    "scalar": "o = R.prim_value(m * 3)",
    "shape of zeros": 'o = R.zeros((m,), "float32")',
    "result of a packed function": 'o = R.call_pure_packed("pitfall.second", x, y, sinfo_args=R.Tensor((m,), "float32"))',
    "match_cast of something else": 'o = R.match_cast(w, R.Tensor((m,), "float32"))',
    "annotation": 'o: R.Tensor((m,), "float32") = w',
    "reshape": "o = R.reshape(w, (m, 1))",
    "slice": "o = R.strided_slice(x, [0], [0], [m])",
}
OUTSIDE = {  # what cannot stand in a dataflow block
    "branch": 'if c:\n    o = R.zeros((m,), "float32")\nelse:\n    o = R.ones((m,), "float32")',
    "local function": (
        '@R.function\ndef f(z: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):\n    return R.add(z, z)\n'
        "o = f(w)"
    ),
    "body of a local function": (
        '@R.function\ndef f() -> R.Tensor(ndim=1, dtype="float32"):\n    return R.zeros((m,), "float32")\no = f()'
    ),
}
HEADER = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def ones(O: T.Buffer(("m",), "float32")):
        m = T.int64()
        for i in range(m):
            O[i] = T.float32(1)

    @T.prim_func(private=True)
    def count(m: T.int64, O: T.Buffer((4,), "float32")):
        for i in range(4):
            O[i] = T.Cast("float32", m)

    @R.function
    def main(
        x: R.Tensor(("n",), "float32"), y: R.Tensor(ndim=1, dtype="float32"), w: R.Tensor(ndim=1, dtype="float32"),
        c: R.Tensor((), "bool"),
    ) -> R.Tuple(R.Object, R.Object):
        cls = Module
        n = T.int64()
        m = T.int64()
"""
WAYS = {
    "plain": "a = R.exp(x)\n_c = R.match_cast(y, R.Tensor((m,), 'float32'))\n{use}\nreturn (o, a)",
    "shape": "a = R.exp(x)\n_c = R.match_cast(R.shape_of(y), R.Shape([m]))\n{use}\nreturn (o, a)",
    "tuple": (
        "a = R.exp(x)\nt = (x, y)\n"
        "_c = R.match_cast(t, R.Tuple(R.Tensor((n,), 'float32'), R.Tensor((m,), 'float32')))\n{use}\nreturn (o, a)"
    ),
    "dataflow": (
        "with R.dataflow():\n    a = R.exp(x)\n    _c = R.match_cast(y, R.Tensor((m,), 'float32'))\n"
        "    b = R.exp(x)\n    {use}\n    R.output(a, o)\nreturn (o, a)"
    ),
    "two blocks": (
        "with R.dataflow():\n    a = R.exp(x)\n    _c = R.match_cast(y, R.Tensor((m,), 'float32'))\n    R.output(a)\n"
        "b = R.exp(x)\nwith R.dataflow():\n    {use}\n    R.output(o)\nreturn (o, a)"
    ),
}


@functools.cache
def module():
    """A module with one entry point for each way and place, and these in order."""
    text, names = HEADER.split("    @R.function\n")[0], []
    signature = "    @R.function\n" + HEADER.split("    @R.function\n")[1]
    for way, body in WAYS.items():
        inside = "    {use}" in body
        for place, use in {**PLACES, **({} if inside else OUTSIDE)}.items():
            names.append((way, place))
            text += signature.replace("main(", f"f{len(names) - 1}(")
            text += textwrap.indent(body.replace("{use}", use), " " * 8) + "\n\n"
    return parse(text), names


@pytest.fixture(autouse=True)
def functions():
    relax.register_func("pitfall.ones", lambda out: out.copyfrom(np.ones(out.shape, "float32")), override=True)
    relax.register_func("pitfall.second", lambda x, y: y, override=True)


def expected(place, x, y, w):
    m = len(y)
    match place:
        case "integers of a kernel":
            return np.full(4, m, "float32")
        case "shape":
            return (m, m + 1)
        case "scalar":
            return 3 * m
        case "shape of zeros" | "body of a local function" | "branch":
            return np.zeros(m, "float32")
        case "result of a packed function":
            return y
        case "match_cast of something else" | "annotation":
            return w
        case "reshape":
            return w.reshape(m, 1)
        case "slice":
            return x[:m]
        case "local function":
            return 2 * w
        case _:
            return np.ones(m, "float32")


def check(vm, names):
    for i, (way, place) in enumerate(names):
        for n, m in ((3, 0), (0, 1), (2, 5)):
            x, y, w = (np.linspace(0, 1, k, dtype="float32") for k in (n, m, m))
            o, a = arrays(vm[f"f{i}"](x, y, w, np.array(True)))
            found = tuple(o) if place == "shape" else o
            np.testing.assert_array_equal(found, expected(place, x, y, w), err_msg=f"{way}, {place}")
            np.testing.assert_allclose(a, np.exp(x), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_what_a_dimension_needs_is_there(run):
    mod, names = module()
    check(run(mod), names)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize(
    "step",
    [
        Normalize, CanonicalizeBindings, FoldConstant, EliminateCommonSubexpr, DeadCodeElimination, LegalizeOps,
        RewriteDataflowReshape, ToNonDataflow, RemovePurityChecking, LambdaLift,
    ],
    ids=lambda step: step.__name__,
)  # fmt: skip
def test_each_pass_alone(step):
    mod, names = module()
    mod = step()(mod)
    assert_well_formed(mod)
    check(interpreted(mod), names)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_in_another_order():
    """The graph passes backwards, then the default pipeline."""
    mod, names = module()
    for step in reversed(DEFAULT[:7]):
        mod = step.make()(mod)
        assert_well_formed(mod)
    check(machine(mod), names)


def test_a_dimension_that_nothing_binds_is_told():
    with pytest.raises(relax.ir.DiagnosticError, match="m"):
        parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
        m = T.int64()
        return R.zeros((m,), "float32")
""")
