"""What a pattern may not move: effects between, a value used outside, a shape variable bound inside, an alias written."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.analysis import well_formed
from relax.dpl import PatternContext, PatternMatchingRewriter, is_op, rewrite_bindings, rewrite_call, wildcard
from relax.ir import assert_structural_equal
from support import main, same, values

x = wildcard()
inner = is_op("relax.exp")(x)
chain = is_op("relax.log")(inner)

INPLACE = """
@T.prim_func(private=True)
def double(a: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("a"):
            vi = T.axis.spatial(4, i)
            a[vi] = a[vi] * T.float32(2)
"""
WRITTEN = """
with R.dataflow():
    a = R.negative(x)
    alias = a
    u = R.exp(a)
    w = R.call_tir_inplace(cls.double, (alias,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
    v = R.log(u)
    c = (v, w)
    R.output(c)
return c
"""
BETWEEN = """
u = R.exp(x)
_ = R.call_packed("tests.not_moved.clear", x, sinfo_args=R.Object)
v = R.log(u)
return v
"""
USED = """
with R.dataflow():
    u = R.exp(x)
    v = R.log(u)
    w = R.negative(u)
    c = (v, w)
    R.output(c)
return c
"""
LEAVES = """
with R.dataflow():
    u = R.exp(x)
    v = R.log(u)
    R.output(u, v)
return (u, v)
"""
CAST = """
with R.dataflow():
    u = R.exp(x)
    k = T.int64()
    c = R.match_cast(u, R.Tensor((k,), "float32"))
    v = R.log(c)
    R.output(v)
return v
"""
BOUND = """
with R.dataflow():
    k = T.int64()
    c = R.match_cast(R.nonzero(x), R.Tensor((1, k), "int64"))
    z = R.zeros(R.shape([k]), "float32")
    u = R.exp(z)
    v = R.log(u)
    R.output(v)
return v
"""


@relax.register_func("tests.not_moved.clear", override=True)
def clear(tensor):
    tensor[:] = np.zeros(tensor.shape, "float32")


def program(body):
    pure = "call_packed" not in body
    return main(body, 'x: R.Tensor((4,), "float32")', INPLACE, pure=pure)


def fused(mod):
    return relax.transform.FuseOpsByPattern([("lib.chain", chain)])(mod)


def called(mod):
    new = rewrite_call(chain, lambda _, matched: op.abs(op.negative(matched[x])), mod["main"])
    return mod.with_functions({g: new if g.name_hint == "main" else f for g, f in mod.functions.items()})


def bound(mod):
    with PatternContext() as context:
        first, second = is_op("relax.exp")(x), is_op("relax.log")(wildcard())
        first.only_used_by(second)
    new = rewrite_bindings(context, lambda m, _: {m[second]: op.abs(op.negative(m[x]))}, mod["main"])
    return mod.with_functions({g: new if g.name_hint == "main" else f for g, f in mod.functions.items()})


def rewritten(mod):
    return PatternMatchingRewriter.from_pattern(chain, lambda _, m: op.abs(op.negative(m[x])))(mod)


TOOLS = [fused, called, bound, rewritten]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "body", [WRITTEN, BETWEEN, CAST], ids=["an alias is written", "an effect between", "a cast between"]
)
def test_programs_that_are_left_alone(tool, body):
    mod = program(body)
    assert_structural_equal(tool(mod), mod)


@pytest.mark.parametrize("tool", [fused, bound])
@pytest.mark.parametrize("body", [USED, LEAVES], ids=["used in the block", "used outside"])
def test_values_with_another_use_are_not_grouped(tool, body):
    mod = program(body)
    assert_structural_equal(tool(mod), mod)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("body", [USED, LEAVES, BOUND], ids=["used in the block", "used outside", "a shape variable"])
def test_results_are_kept(tool, body):
    mod = program(body)
    args = [np.float32([1, 0, 2, 3])]
    found = tool(mod)
    assert well_formed(found)
    same(values(relax.interpret(found, "main", *args)), values(relax.interpret(mod, "main", *args)), rtol=1e-6)


def test_a_shape_variable_is_bound_before_what_is_moved():
    for tool in (called, bound, rewritten):
        names = [b.var.name_hint for b in tool(program(BOUND))["main"].body.blocks[0].bindings]
        assert "u" not in names
        assert names.index("c") < names.index("z") < names.index("v")
    group = next(f for g, f in fused(program(BOUND)).functions.items() if g.name_hint.startswith("fused"))
    assert "match_cast" not in group.script()
