"""Section 4: normal form, and what the compiler makes of programs that are not in it."""

from __future__ import annotations

import pytest
from programs import floats, i64, module, packed, truth

import relax
from relax.analysis import check_normal_form
from relax.script import from_source

X = relax.TensorStructInfo((1,), "float32")
seen: list[str] = []


@packed("language.normal.note")
def _note(name, value):
    seen.append(str(name))
    return value


def entry(params, body, **more):
    """A module of one function, as the API makes it: not normalised."""
    function = relax.Function(params, body, attrs={"global_symbol": "main"}, **more)
    return relax.IRModule({"main": function})


def block(*bindings):
    return relax.BindingBlock([relax.VarBinding(var, value) for var, value in bindings])


def dataflow(*bindings):
    return relax.expr.DataflowBlock([relax.VarBinding(var, value) for var, value in bindings])


def normal(mod):
    """The normal form, checked."""
    made = relax.transform.Normalize()(mod)
    assert check_normal_form(made) == []
    return made


def values(mod):
    """The bound values of `main`, blocks as lists."""
    return [[b.value for b in blk.bindings] for blk in mod["main"].body.blocks]


# ------------------------------------------------------------------------------------- the four rules


def test_values_of_bindings_are_flat(run):
    """1. The value of a binding is a leaf, or a non-leaf of leaves: nested expressions are bound to variables."""
    x = relax.Var("x", X)
    mod = entry([x], relax.op.add(relax.op.add(x, x), relax.op.exp(relax.op.subtract(x, x))))
    assert check_normal_form(mod) != []
    (bound,) = values(normal(mod))
    assert [call.op.name for call in bound] == ["relax.add", "relax.subtract", "relax.exp", "relax.add"]
    assert all(relax.expr.is_leaf(arg) for call in bound for arg in call.args)
    for program in (mod, normal(mod)):
        assert run(program, "main", floats(1)).numpy().tolist() == [3]


def test_tuples_of_leaves_are_leaves(run):
    """1. A Tuple counts as a leaf if its fields are leaves; other fields are bound first."""
    x = relax.Var("x", X)
    leaf, other = relax.Tuple([x, relax.Tuple([x])]), relax.Tuple([x, relax.op.add(x, x)])
    assert values(normal(entry([x], leaf))) == []
    assert len(values(normal(entry([x], other)))[0]) == 1
    assert [t.numpy().item() for t in run(entry([x], other), "main", floats(2))] == [2, 4]


def test_functions_and_branches_are_seq_exprs(run):
    """2. A Function's body and an If's branches are always SeqExprs, and nothing else is one."""
    x, c = relax.Var("x", X), relax.Var("c", relax.TensorStructInfo((), "bool"))
    mod = entry([x, c], relax.If(c, relax.op.add(x, x), x))
    function = normal(mod)["main"]
    choice = function.body.blocks[0].bindings[0].value
    assert [type(e) for e in (function.body, choice.true_branch, choice.false_branch)] == [relax.SeqExpr] * 3
    assert not relax.analysis.well_formed(mod)
    for chosen, value in ((True, 4), (False, 2)):
        assert run(mod, "main", floats(2), truth(chosen)).numpy().tolist() == [value]


def test_neighbouring_blocks_are_merged():
    """3. Neighbouring blocks of one kind are merged, the two kinds never mix, empty blocks are dropped."""
    x, a, b, c = relax.Var("x", X), relax.Var("a"), relax.Var("b"), relax.Var("c")
    d, e = relax.Var("d"), relax.Var("e")
    body = relax.SeqExpr(
        [
            block((a, relax.op.exp(x))),
            block(),
            block((b, relax.op.exp(a))),
            dataflow((c, relax.op.exp(b))),
            dataflow(),
            dataflow((d, relax.op.exp(c))),
            block((e, relax.op.exp(d))),
        ],
        e,
    )
    blocks = normal(entry([x], body))["main"].body.blocks
    assert [type(blk).__name__ for blk in blocks] == ["BindingBlock", "DataflowBlock", "BindingBlock"]
    assert [len(blk.bindings) for blk in blocks] == [2, 2, 1]


def test_the_body_of_a_seq_expr_is_a_leaf():
    """4. A SeqExpr's body is a leaf: what is returned is bound first."""
    function = from_source("""
    @R.function
    def main(x: R.Tensor((1,), "float32")):
        return R.add(x, x)
    """)
    assert relax.expr.is_leaf(function.body.body)
    assert len(function.body.blocks[0].bindings) == 1


# -------------------------------------------------------------------------------------------- normalising


def test_evaluation_order_is_kept(run):
    """Normalising keeps evaluation order: nested expressions are bound left to right."""
    x = relax.Var("x", relax.ObjectStructInfo())

    def note(name, value):
        return relax.op.call_packed("language.normal.note", relax.StringImm(name), value)

    nested = relax.Tuple([note("d", note("a", x)), relax.Tuple([note("b", x)]), note("c", x)])
    mod = entry([x], nested, is_pure=False)
    for program in (mod, normal(mod)):
        seen.clear()
        assert run(program, "main", 5) == (5, (5,), 5)
        assert seen == ["a", "d", "b", "c"]


def test_the_condition_of_an_if_comes_before_its_branches(run):
    """Normalising keeps evaluation order: what a branch computes is computed in that branch only."""
    x, c = relax.Var("x", relax.ObjectStructInfo()), relax.Var("c", relax.ObjectStructInfo())

    def note(name, value):
        return relax.op.call_packed("language.normal.note", relax.StringImm(name), value)

    choice = relax.If(note("cond", c), note("yes", x), note("no", x))
    mod = entry([x, c], relax.Tuple([choice, note("after", x)]), is_pure=False)
    for chosen, name in ((True, "yes"), (False, "no")):
        seen.clear()
        assert run(mod, "main", 5, truth(chosen)) == (5, 5)
        assert seen == ["cond", name, "after"]


def test_a_seq_expr_as_a_value_is_flattened(run):
    """A SeqExpr used as a binding's value is flattened into its surroundings."""
    x, a, b, c = relax.Var("x", X), relax.Var("a"), relax.Var("b"), relax.Var("c")
    inner = relax.SeqExpr([block((a, relax.op.add(x, x)))], relax.op.add(a, x))
    mod = entry([x], relax.SeqExpr([block((b, inner), (c, relax.op.add(b, b)))], c))
    (bound,) = values(normal(mod))
    assert not any(isinstance(value, relax.SeqExpr) for value in bound)
    assert run(mod, "main", floats(1)).numpy().tolist() == [6]


def test_an_ordinary_block_is_not_flattened_into_a_dataflow_block():
    """Flattening an ordinary block into a dataflow block is rejected."""
    x, a, b = relax.Var("x", X), relax.Var("a"), relax.Var("b")
    inner = relax.SeqExpr([block((a, relax.op.add(x, x)))], a)
    with pytest.raises(relax.DiagnosticError, match="E21") as caught:
        normal(entry([x], relax.SeqExpr([dataflow((b, inner))], b)))
    (diagnostic,) = caught.value.diagnostics
    assert "dataflow block" in diagnostic.message


def test_a_dataflow_block_is_flattened_into_an_ordinary_block(run):
    """A SeqExpr used as a binding's value is flattened into its surroundings: its dataflow blocks stay such."""
    x, a, b = relax.Var("x", X), relax.Var("a"), relax.Var("b")
    inner = relax.SeqExpr([dataflow((a, relax.op.add(x, x)))], a)
    mod = entry([x], relax.SeqExpr([block((b, inner))], b))
    kinds = [type(blk).__name__ for blk in normal(mod)["main"].body.blocks]
    assert "DataflowBlock" in kinds
    assert run(mod, "main", floats(1)).numpy().tolist() == [2]


IDEMPOTENT = [
    """
    @R.function
    def main(x: R.Tensor((1,), "float32"), n: R.Tensor((), "int64")):
        @R.function
        def f(y: R.Tensor((1,), "float32")):
            return R.exp(R.exp(y))

        if R.equal(n, R.const(0, "int64")):
            r = f(R.add(x, x))
        else:
            r = R.add(f(x), f(x))
        return (r, (x, R.exp(r)))
    """,
    "@R.function\ndef main(x: R.Object):\n    return x",
]


@pytest.mark.parametrize("text", IDEMPOTENT)
def test_normalising_is_idempotent(text):
    """Normalising is idempotent: a program in normal form is returned as the object it is."""
    once = relax.transform.Normalize()(module(text))
    assert relax.transform.Normalize()(once) is once


def test_struct_info_is_derived_on_normal_form():
    """Struct info is derived on normal form only: before, expressions have none; after, all have."""
    x = relax.Var("x", X)
    mod = entry([x], relax.op.exp(relax.op.exp(x)))
    assert mod["main"].body.struct_info_ is None
    for var_binding in normal(mod)["main"].body.blocks[0].bindings:
        relax.ir.assert_structural_equal(var_binding.value.struct_info, X)
        relax.ir.assert_structural_equal(var_binding.var.struct_info, X)


def test_text_is_normalised_when_parsed(run):
    """A text may nest expressions as it likes; the parser's result is in normal form."""
    program = """
    @R.function
    def main(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        return R.add(R.multiply(n, n), R.subtract(n, R.const(1, "int64")))
    """
    assert check_normal_form(module(program)) == []
    assert run(program, "main", i64(3)).numpy() == 11
