"""DataflowBlockRewrite: edits of a block, and requests that it does not allow."""

from __future__ import annotations

import pytest

import relax
from relax import DataflowBlockRewrite, op
from relax.analysis import name_to_binding, well_formed
from relax.ir import DiagnosticError, assert_structural_equal
from support import agree, main, numbers

CHAIN = """
with R.dataflow():
    a = R.exp(x)
    b = R.add(a, x)
    c = R.negative(x)
    R.output({})
return {}
"""


USED = CHAIN.format("b", "b")


def opened(text=USED):
    """Return a module, the editor of its block, and its variables by name."""
    mod = main(text)
    func = mod["main"]
    names = {name: bindings[0].var for name, bindings in name_to_binding(func).items()}
    return mod, DataflowBlockRewrite(func.body.blocks[0], func), {**names, "x": func.params[0]}


def same(mod, rewrite, text):
    found, expected = rewrite.mutate_irmodule(mod), main(text)
    assert well_formed(found)
    assert_structural_equal(found, expected)


def test_nothing_changes_without_edits():
    mod, rewrite, _ = opened()
    assert rewrite.mutated_root_fn() is mod["main"]
    assert rewrite.mutated_dfb() is mod["main"].body.blocks[0]
    assert rewrite.mutate_irmodule(mod) is mod


def test_a_binding_is_added_used_and_the_old_one_removed():
    mod, rewrite, v = opened()
    before = mod.script()
    new = rewrite.add(op.sigmoid(v["x"]), name="s", is_dfvar=True)
    rewrite.replace_all_uses(v["a"], new)
    rewrite.remove_unused(v["a"])
    rewrite.remove_all_unused()
    same(mod, rewrite, "with R.dataflow():\n    s = R.sigmoid(x)\n    b = R.add(s, x)\n    R.output(b)\nreturn b")
    agree(rewrite.mutate_irmodule(mod), numbers(3))
    assert mod.script() == before


def test_names_are_free_and_nested_values_are_bound():
    mod, rewrite, v = opened()
    first = rewrite.add(op.log(op.exp(v["x"])))
    second = rewrite.add(first, is_dfvar=True)
    third = rewrite.add(second)
    assert [var.name_hint for var in (first, second, third)] == ["gv", "lv", "gv1"]
    assert type(second) is relax.DataflowVar
    assert well_formed(rewrite.mutate_irmodule(mod))
    assert [b.var.name_hint for b in rewrite.mutated_dfb().bindings][-2:] == ["lv", "gv1"]


def test_uses_outside_of_the_block_are_replaced():
    mod, rewrite, v = opened(
        "with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(x)\n    R.output(a, b)\nreturn R.add(a, b)"
    )
    rewrite.replace_all_uses(v["a"], v["b"])
    rewrite.remove_unused(v["a"])
    same(mod, rewrite, "with R.dataflow():\n    b = R.sin(x)\n    R.output(b)\nreturn R.add(b, b)")


def test_uses_replaced_twice_are_those_of_the_last_variable():
    text = "with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(x)\n    c = R.cos(x)\n    R.output(a, b, c)\nreturn a"
    mod, rewrite, v = opened(text)
    rewrite.replace_all_uses(v["a"], v["b"])
    rewrite.replace_all_uses(v["b"], v["c"])
    rewrite.remove_all_unused()
    same(mod, rewrite, "with R.dataflow():\n    c = R.cos(x)\n    R.output(c)\nreturn c")


def test_a_variable_moves_before_its_new_uses():
    mod, rewrite, v = opened(
        "with R.dataflow():\n    a = R.exp(x)\n    b = R.add(a, x)\n    c = R.sin(x)\n    R.output(b)\nreturn b"
    )
    rewrite.replace_all_uses(v["a"], v["c"])
    rewrite.remove_all_unused()
    same(mod, rewrite, "with R.dataflow():\n    c = R.sin(x)\n    b = R.add(c, x)\n    R.output(b)\nreturn b")


def test_a_value_may_be_wrapped():
    mod, rewrite, v = opened()
    rewrite.replace_all_uses(v["a"], rewrite.add(op.sqrt(v["a"]), name="root", is_dfvar=True))
    rewrite.remove_all_unused()
    same(
        mod,
        rewrite,
        "with R.dataflow():\n    a = R.exp(x)\n    root = R.sqrt(a)\n    b = R.add(root, x)\n    R.output(b)\nreturn b",
    )


def test_a_match_cast_stays_while_its_sizes_are_used():
    text = """
        with R.dataflow():
            k = T.int64()
            a = R.match_cast(R.nonzero(x), R.Tensor((1, k), "int64"))
            b = R.zeros((k,), "float32")
            R.output(b)
        return b
    """
    mod, rewrite, v = opened(text)
    rewrite.remove_all_unused()
    assert rewrite.mutate_irmodule(mod) is mod
    with pytest.raises(DiagnosticError, match="a is used by b"):
        rewrite.remove_unused(v["a"])


def test_the_struct_info_of_users_follows():
    text = "with R.dataflow():\n    a = R.exp(x)\n    b = R.exp(a)\n    c = R.astype(b, 'float32')\n    R.output({0})\nreturn {0}"
    mod, rewrite, v = opened(text.format("c"))
    rewrite.replace_all_uses(v["a"], rewrite.add(op.astype(v["x"], "float64"), name="w", is_dfvar=True))
    rewrite.remove_all_unused()
    assert [str(b.var.struct_info.dtype) for b in rewrite.mutated_dfb().bindings] == ["float64", "float64", "float32"]
    assert well_formed(rewrite.mutate_irmodule(mod))
    _, rewrite, v = opened(text.format("b"))
    rewrite.replace_all_uses(v["a"], rewrite.add(op.astype(v["x"], "float64"), is_dfvar=True))
    with pytest.raises(
        DiagnosticError, match="does not return what it declares: dtype: expected float32, found float64"
    ):
        rewrite.mutated_root_fn()


@pytest.mark.parametrize(
    "request_, message",
    [
        (lambda r, v: r.add(v["x"], name="a"), "the name a is taken"),
        (lambda r, v: r.add(v["x"], name="x"), "the name x is taken"),
        (lambda r, v: r.add(relax.Var("other", v["x"].struct_info), name="n"), "other is not visible in the block"),
        (lambda r, v: r.remove_unused(v["a"]), "a is used by b"),
        (lambda r, v: r.remove_unused(v["b"]), "b is used by the function outside of the block"),
        (lambda r, v: r.remove_unused(v["x"]), "the block does not bind x"),
        (lambda r, v: r.replace_all_uses(relax.Var("q"), v["a"]), "q is not visible in the block"),
        (lambda r, v: r.replace_all_uses(v["b"], v["c"]), "b is used outside of the block, where c is not visible"),
        (lambda r, v: r.mutate_irmodule(main("return x")), "the module does not hold the function"),
    ],
)
def test_requests_that_the_block_does_not_allow(request_, message):
    _, rewrite, v = opened()
    with pytest.raises(DiagnosticError, match=f"DataflowBlockRewrite: {message}") as error:
        request_(rewrite, v)
    assert "E4021" in str(error.value)
    rewrite.remove_unused(v["x"], allow_undef=True)


def test_a_variable_used_by_its_replacement_in_between_is_no_replacement():
    text = "with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(a)\n    c = R.cos(b)\n    R.output(c)\nreturn c"
    _, rewrite, v = opened(text)
    with pytest.raises(DiagnosticError, match="depends on itself"):
        rewrite.replace_all_uses(v["a"], v["c"])


def test_a_parameter_used_after_the_block_is_not_replaced():
    _, rewrite, v = opened("with R.dataflow():\n    a = R.exp(x)\n    R.output(a)\nreturn R.add(a, x)")
    with pytest.raises(DiagnosticError, match="x is bound before the block and used outside of it"):
        rewrite.replace_all_uses(v["x"], v["a"])


def test_a_block_of_another_function_is_rejected():
    with pytest.raises(DiagnosticError, match="the function does not hold the block"):
        DataflowBlockRewrite(main(CHAIN.format("b", "b"))["main"].body.blocks[0], main("return x")["main"])
