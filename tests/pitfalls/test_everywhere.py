"""Every pass reaches everything: dataflow blocks in branches, local functions, local functions in dataflow blocks. And
the parser and the passes infer the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from pitfall_helpers import arrays, interpreted, machine, parse

import relax
from relax.analysis import assert_well_formed
from relax.expr import Call, DataflowBlock, Function, If, MatchCast, Var
from relax.ir import DiagnosticError, Op, assert_structural_equal, structural_equal, walk
from relax.transform import (
    BindSymbolicVars,
    CanonicalizeBindings,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    LegalizeOps,
    Normalize,
    RewriteDataflowReshape,
    ToNonDataflow,
)

WORK = """{i}with R.dataflow():
{i}    unused = R.exp(x)
{i}    a = R.sin(x)
{i}    b = R.sin(x)
{i}    name = a
{i}    c = R.add(name, b)
{i}    k = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
{i}    d = R.multiply(c, k)
{i}    v = R.reshape(d, (n, 1))
{i}    w = R.negative(v)
{i}    o = R.reshape(w, (n,))
{i}    R.output(o)
"""
HEADER = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c1: R.Tensor((), "bool")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
"""
FUNCTION = """{i}@R.function
{i}def f(x: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
{i}    q = R.exp(x)
%s{i}    return o
"""


def at(indent, text):
    return text.replace("{i}", " " * indent)


NESTED = FUNCTION % WORK.replace("{i}", "{i}    ")
PLACES = {
    "top": HEADER + at(8, WORK) + "        return o\n",
    "branch": (
        HEADER + "        if c1:\n" + at(12, WORK) + "            r = o\n        else:\n" + at(12, WORK)
        + "            r = o\n        return r\n"
    ),
    "branch in a branch": (
        HEADER + "        if c1:\n            if c1:\n" + at(16, WORK) + "                s = o\n            else:\n"
        + at(16, WORK) + "                s = o\n            r = s\n        else:\n" + at(12, WORK)
        + "            r = o\n        return r\n"
    ),
    "local function": HEADER + at(8, NESTED) + "        return f(x)\n",
    "local function in dataflow": (
        HEADER + "        with R.dataflow():\n" + at(12, NESTED) + "            o = f(x)\n            R.output(o)\n"
        "        return o\n"
    ),
    "local function in a branch": (
        HEADER + "        if c1:\n" + at(12, NESTED) + "            r = f(x)\n        else:\n" + at(12, WORK)
        + "            r = o\n        return r\n"
    ),
}  # fmt: skip


def counts(mod, *names):
    """How many calls there are of operators of these names, in functions of all kinds and depths."""
    found = dict.fromkeys(names, 0)

    def visit(item):
        if isinstance(item, Call) and isinstance(item.op, Op) and item.op.name in found:
            found[item.op.name] += 1

    for func in mod.functions.values():
        if isinstance(func, Function):
            walk(func, visit)
    return list(found.values())


def blocks(mod):
    """How many pieces of work there are."""
    found = []
    walk(mod["main"], lambda item: found.append(item) if isinstance(item, DataflowBlock) else None)
    return sum(
        any(isinstance(b.value, Call) and b.value.op == Op.get("relax.sin") for b in block.bindings) for block in found
    )


@pytest.mark.parametrize("place", PLACES)
def test_graph_passes(place):
    mod = parse(PLACES[place])
    n = blocks(mod)
    assert n == {"branch": 2, "branch in a branch": 3, "local function in a branch": 2}.get(place, 1)
    assert counts(EliminateCommonSubexpr()(mod), "relax.sin") == [n]
    assert counts(DeadCodeElimination()(mod), "relax.exp") == [0]
    folded = FoldConstant()(mod)
    assert counts(folded, "relax.add") == [n]
    canonical = CanonicalizeBindings()(mod)
    names = []
    walk(
        canonical["main"],
        lambda item: names.append(item) if isinstance(item, Var) and item.name_hint == "name" else None,
    )
    assert not names
    legal = LegalizeOps()(mod)
    assert counts(legal, "relax.sin", "relax.add", "relax.reshape") == [0, 0, 0]
    # Of the two reshapes one leaves its block, and must be a tensor of its own.
    assert counts(RewriteDataflowReshape()(legal), "relax.reshape") == [n]
    left = []
    walk(ToNonDataflow()(mod)["main"], lambda item: left.append(item) if isinstance(item, DataflowBlock) else None)
    assert not left
    bound = BindSymbolicVars({"n": 3})(mod)
    free = []
    walk(
        bound["main"], lambda item: free.append(item) if isinstance(item, relax.tir.Var) and item.name == "n" else None
    )
    assert not free
    for step in (
        Normalize,
        EliminateCommonSubexpr,
        DeadCodeElimination,
        FoldConstant,
        CanonicalizeBindings,
        LegalizeOps,
    ):
        once = step()(mod)
        assert_well_formed(once)
        assert step()(once) is once, step


@pytest.mark.parametrize("place", PLACES)
def test_and_it_runs(run, place):
    program = run(PLACES[place])
    for n in (0, 1, 5):
        x = np.linspace(-1, 1, n, dtype="float32")
        for c in (True, False):
            np.testing.assert_allclose(program["main"](x, np.array(c)).numpy(), -6 * np.sin(x), rtol=1e-5)


# ------------------------------------------------------------------------------------ one prover for all

INFERRED = {
    "less than nothing": "R.strided_slice(x, [0], [2], [n])",
    "from the end": "R.strided_slice(x, [0], [-2], [n + 5])",
    "backwards": "R.strided_slice(x, [0], [n], [-n - 1], [-2])",
    "there and back": "R.reshape(R.reshape(x, (n, 1)), (n,))",
    "two halves": "R.concat(R.split(R.concat([x, x], axis=0), 2, axis=0), axis=0)",
    "rounded up": "R.strided_slice(x, [0], [0], [n], [3])",
    "max with 0": "R.zeros((T.max(n, 0),), 'float32')",
    "max with a size": "R.zeros((T.max(n, m),), 'float32')",
    "sizes added": "R.concat([x, y, x], axis=0)",
    "broadcast": "R.add(R.reshape(x, (n, 1)), y)",
    "divided and multiplied": "R.zeros((n * 4 // 2 - n,), 'float32')",
    "flat": "R.flatten(R.add(R.reshape(x, (n, 1)), y))",
    "repeated": "R.repeat(R.tile(x, (3,)), 2, axis=0)",
    "windows": "R.nn.max_pool2d(R.broadcast_to(x, (1, 1, m + 2, n)), pool_size=(2, 1), strides=(2, 1))",
}


@pytest.mark.parametrize("name", INFERRED)
def test_parser_builder_passes_and_checker_infer_the_same(name):
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Object:
        n = T.int64()
        m = T.int64()
        r = {INFERRED[name]}
        return r
"""
    mod = parse(text)
    body = mod["main"].body
    info = body.body.struct_info
    # The printed program states what was inferred; it parses to the same without a run-time check.
    again = relax.script.from_source(mod.script(show_meta=True))
    assert_structural_equal(again, mod)
    casts = []
    walk(again["main"], lambda item: casts.append(item) if isinstance(item, MatchCast) else None)
    assert not casts
    # A pass that derives everything anew, and the checker that does, agree.
    assert Normalize()(mod) is mod
    assert_well_formed(mod)
    builder = relax.BlockBuilder()
    builder.begin_binding_block()
    for block in body.blocks:
        for binding in block.bindings:
            fresh = binding.value.replace(span=None) if isinstance(binding.value, Call) else binding.value
            derived = builder.normalize(fresh).struct_info
            assert structural_equal(derived, binding.var.struct_info), name
    assert info.dims is not None
    assert_well_formed(FoldConstant()(CanonicalizeBindings()(mod)))


# ------------------------------------------------------------------------------ shapes computed from shapes

SHAPES = {
    "gather and concat": (
        "t = R.shape_to_tensor(R.shape_of(x))\n"
        "a = R.take(t, R.const([1], 'int64'), axis=0)\nb = R.take(t, R.const([0], 'int64'), axis=0)\n"
        "r = R.reshape(x, R.tensor_to_shape(R.concat([a, b], axis=0)))",
        lambda x: x.reshape(x.shape[::-1]),
    ),
    "size": (
        "t = R.prod(R.shape_to_tensor(R.shape_of(x)), axis=[0], keepdims=True)\nr = R.reshape(x, R.tensor_to_shape(t))",
        lambda x: x.reshape(-1),
    ),
    "slice": (
        "t = R.shape_to_tensor(R.shape_of(x))\na = R.strided_slice(t, [0], [1], [2])\n"
        "b = R.concat([R.const([1], 'int64'), a, R.strided_slice(t, [0], [0], [1])], axis=0)\n"
        "r = R.reshape(x, R.tensor_to_shape(b))",
        lambda x: x.reshape(1, x.shape[1], x.shape[0]),
    ),
    "arithmetic": (
        "t = R.shape_to_tensor(R.shape_of(x))\nu = R.multiply(t, R.const([2, 1], 'int64'))\n"
        "r = R.zeros(R.tensor_to_shape(u), 'float32')",
        lambda x: np.zeros((2 * x.shape[0], x.shape[1]), "float32"),
    ),
    "data": (
        "u = R.unique(R.astype(x, 'int64'))\ns = R.shape_of(u)\nr = R.broadcast_to(R.const([1.0], 'float32'), s)",
        lambda x: np.ones(len(np.unique(x.astype("int64"))), "float32"),
    ),
    "rank unknown": ("r = R.reshape(x, s)", lambda x: x.reshape(x.shape[1], 1, x.shape[0])),
    "rank known": (
        "k = R.match_cast(s, R.Shape(ndim=3))\nr = R.reshape(x, k)",
        lambda x: x.reshape(x.shape[1], 1, x.shape[0]),
    ),
    "everything unknown": ("o: R.Tensor = y\nr = R.reshape(o, s)", lambda x: x.reshape(x.shape[1], 1, x.shape[0])),
    "to a known shape": ("r = R.reshape(y, R.shape([m, n]))", lambda x: x.reshape(x.shape[::-1])),
    "matched": (
        "p = T.int64()\nq = T.int64()\nk = R.match_cast(s, R.Shape([p, 1, q]))\nr = R.reshape(x, (q, p))",
        lambda x: x,
    ),
}


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_computed_from_shapes(run, name):
    body, reference = SHAPES[name]
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    program = run(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), s: R.Shape, y: R.Tensor(dtype="float32")) -> R.Tensor(dtype="float32"):
        n = T.int64()
        m = T.int64()
{lines}        return r
""")
    for n, m in ((0, 3), (3, 0), (1, 1), (2, 3)):
        x = np.arange(n * m, dtype="float32").reshape(n, m)
        found = program["main"](x, (m, 1, n), x).numpy()
        np.testing.assert_array_equal(found, reference(x))
        assert found.shape == reference(x).shape
    if name in ("rank unknown", "rank known"):
        with pytest.raises(AssertionError, match="main: reshape: the numbers of elements differ"):
            program["main"](x, (7, 1, 1), x)
        with pytest.raises(ValueError, match="main: parameter s: a shape cannot have a negative dimension"):
            program["main"](x, (-1, 2, 3), x)


# ------------------------------------------------------------------------------------------- the rest


def test_flip_of_several_axes(run):
    program = run("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("a", "b", "c"), "int32")) -> R.Tuple(R.Object, R.Object, R.Object):
        return (R.flip(x, axis=[0, 2]), R.flip(x, axis=[-1, 1, 0]), R.flip(x, axis=1))
""")
    for shape in ((2, 3, 4), (1, 1, 1), (0, 2, 3)):
        x = np.arange(int(np.prod(shape)), dtype="int32").reshape(shape)
        for found, axes in zip(arrays(program["main"](x)), ((0, 2), (0, 1, 2), 1), strict=True):
            np.testing.assert_array_equal(found, np.flip(x, axes))


def test_storage_is_not_killed_in_a_dataflow_block():
    """Ending a lifetime is an effect: it may not stand where effects may not; outside it means nothing more."""
    inside = """
@I.ir_module
class Module:
    @R.function{purity}
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        {open}a = R.exp(x)
        {inner}_ = R.memory.kill_tensor(a)
        {close}
        return x
"""
    with pytest.raises(DiagnosticError, match="kill_tensor.*impure.*dataflow"):
        parse(
            inside.replace("{purity}", "(pure=False)").replace("{open}", "with R.dataflow():\n            ")
            .replace("{inner}", "    ").replace("{close}", "    R.output()")
        )  # fmt: skip
    outside = (
        inside.replace("{purity}", "(pure=False)").replace("{open}", "").replace("{inner}", "").replace("{close}", "")
    )
    for program in (machine(outside), interpreted(outside)):
        assert program["main"](np.ones(2, "float32")).numpy().tolist() == [1, 1]


def test_branches_are_sequences_of_their_own():
    """What a pass puts into a branch stays in it."""
    mod = parse(PLACES["branch in a branch"])
    for step in relax.optimize.pipeline.DEFAULT[:9]:
        mod = step.make()(mod)
        assert_well_formed(mod)
    found = []
    walk(mod["main"], lambda item: found.append(item) if isinstance(item, If) else None)
    assert len(found) == 2
