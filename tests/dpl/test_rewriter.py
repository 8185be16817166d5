"""PatternMatchingRewriter: rules are applied until none matches, and nothing moves that may not."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.analysis import well_formed
from relax.dpl import (
    ExprPatternRewriter,
    PatternMatchingRewriter,
    TupleRewriter,
    is_op,
    is_tuple_get_item,
    rewriter,
    wildcard,
)
from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import relax as R
from relax.script import tir as T
from support import agree, main, module, numbers

x, y = wildcard(), wildcard()
UNDO = PatternMatchingRewriter.from_pattern(is_op("relax.log")(is_op("relax.exp")(x)), lambda _, matched: matched[x])
SIGMOID = PatternMatchingRewriter.from_pattern(is_op("relax.exp")(x), lambda _, matched: op.sigmoid(matched[x]))


def same(found, expected):
    assert well_formed(found)
    assert_structural_equal(found, expected)


@R.rewriter
class AddRelu:
    @R.function
    def pattern(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        return R.nn.relu(R.add(x, y))

    @R.function
    def replacement(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        return R.maximum(R.subtract(x, R.negative(y)), R.const(0, "float32"))


def test_a_rule_is_two_functions_of_one_signature():
    before = main("with R.dataflow():\n    u = R.add(x, x)\n    v = R.nn.relu(u)\n    R.output(v)\nreturn v")
    after = AddRelu(before)
    same(
        after,
        main("""
            with R.dataflow():
                n = R.negative(x)
                u = R.subtract(x, n)
                v = R.maximum(u, R.const(0, "float32"))
                R.output(v)
            return v
        """),
    )
    agree(after, numbers(5))


def test_parameters_are_values_of_their_struct_info():
    for annotation in (
        'R.Tensor(("n", 2), "float32")',
        'R.Tensor(("n",), "float64")',
        'R.Tensor(ndim=1, dtype="float32")',
    ):
        before = main("return R.nn.relu(R.add(x, x))", f"x: {annotation}")
        assert AddRelu(before) is before
    sizes = main("return R.nn.relu(R.add(x, y))", 'x: R.Tensor(("n",), "float32"), y: R.Tensor((1,), "float32")')
    assert AddRelu(sizes) is sizes


def test_attributes_and_sizes_belong_to_the_pattern():
    @R.rewriter
    class Rule:
        @R.function
        def pattern(x: R.Tensor(("n", "m"), "float32")):
            n, m = T.int64(), T.int64()
            return R.reshape(R.sum(x, axis=[1], keepdims=True), R.shape([n]))

        @R.function
        def replacement(x: R.Tensor(("n", "m"), "float32")):
            return R.sum(x, axis=[1])

    def summed(axis, shape):
        return main(
            f"return R.reshape(R.sum(x, axis=[{axis}], keepdims=True), {shape})", 'x: R.Tensor((3, 3), "float32")'
        )

    same(Rule(summed(1, "(3,)")), main("return R.sum(x, axis=[1])", 'x: R.Tensor((3, 3), "float32")'))
    for mod in (summed(0, "(3,)"), summed(1, "(1, 3)")):
        assert Rule(mod) is mod


def test_results_match_again_until_no_rule_does():
    halve = PatternMatchingRewriter.from_pattern(
        is_op("relax.add")(x, x), lambda _, matched: op.multiply(matched[x], relax.const(2, "float32"))
    )
    body = "with R.dataflow():\n{}\n    R.output(v)\nreturn v"
    nested = "    v = R.log(R.exp(R.log(R.exp(R.log(R.exp(x))))))"
    undone = relax.transform.CanonicalizeBindings()(UNDO(main(body.format(nested))))
    same(undone, main("return x"))
    both = halve | UNDO
    chained = main(body.format("    w = R.log(R.exp(x))\n    v = R.add(w, x)"))
    expected = main(body.format('    v = R.multiply(x, R.const(2, "float32"))'))
    assert well_formed(both(chained))
    agree(both(chained), numbers(3))
    same(relax.transform.CanonicalizeBindings()(both(chained)), expected)


def test_of_two_rules_the_first_is_tried_first():
    tanh = PatternMatchingRewriter.from_pattern(is_op("relax.exp")(x), lambda _, matched: op.tanh(matched[x]))
    exp = main("return R.exp(x)")
    same((SIGMOID | tanh)(exp), main("return R.sigmoid(x)"))
    same((tanh | SIGMOID)(exp), main("return R.tanh(x)"))


def test_a_rewriter_is_a_pass_and_a_function_of_expressions():
    exp = main("return R.exp(x)")
    same(relax.transform.Sequential([SIGMOID, UNDO])(exp), main("return R.sigmoid(x)"))
    assert isinstance(SIGMOID, relax.ir.transform.Pass)
    assert_structural_equal(SIGMOID(exp["main"]), main("return R.sigmoid(x)")["main"])
    a = relax.Var("a", R.Tensor((4,), "float32"))
    assert_structural_equal(SIGMOID(op.exp(a)), op.sigmoid(a))
    kept = op.abs(a)
    assert SIGMOID(kept) is kept
    with pytest.raises(TypeError, match="takes an IRModule, found int"):
        SIGMOID(3)


def test_a_callback_that_returns_none_or_an_equal_value_keeps_the_expression():
    for kept in (lambda expr, _: None, lambda expr, _: expr, lambda _, matched: op.exp(matched[x])):
        exp = main("with R.dataflow():\n    u = R.exp(x)\n    R.output(u)\nreturn u")
        assert PatternMatchingRewriter.from_pattern(is_op("relax.exp")(x), kept)(exp) is exp


@pytest.mark.parametrize("most", [1000, 100])
def test_rules_without_end_are_reported(monkeypatch, most):
    """A rule whose result grows takes time that grows with the square of the replacements: it is tried with the fewer."""
    swapped = (
        ExprPatternRewriter(is_op("relax.subtract")(x, y), lambda _, m: op.subtract(m[y], m[x])),
        "R.subtract(x, y)",
    )
    growing = ExprPatternRewriter(is_op("relax.exp")(x), lambda expr, _: op.add(expr, expr)), "R.exp(y)"
    assert rewriter.MOST_REPLACEMENTS == 1000
    monkeypatch.setattr(rewriter, "MOST_REPLACEMENTS", most)
    rule, value = swapped if most == 1000 else growing
    with pytest.raises(
        DiagnosticError, match=rf"E4020.*{most // 10}\d replacements in main do not end the rewriting"
    ) as error:
        rule(main(f"return {value}", 'x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")'))
    assert "must come to an end" in str(error.value)
    assert error.value.diagnostics[0].span is not None


# ---------------------------------------------------------------------------------------------- several bindings


@R.rewriter
class OneProduct:
    @R.function
    def pattern(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4, 4), "float32"), z: R.Tensor((4, 4), "float32")):
        return R.matmul(x, y), R.matmul(x, z)

    @R.function
    def replacement(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4, 4), "float32"), z: R.Tensor((4, 4), "float32")):
        t = R.split(R.matmul(x, R.concat([y, z], axis=1)), 2, axis=1)
        return t[0], t[1]


PARAMS = 'x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")'


def products(mod):
    blocks = mod["main"].body.blocks
    calls = [b.value for block in blocks for b in block.bindings if isinstance(b.value, relax.Call)]
    return [call.op.name for call in calls].count("relax.matmul")


@pytest.mark.parametrize(
    "body",
    [
        "with R.dataflow():\n    a = R.matmul(x, w)\n    v = R.add(w, w)\n    b = R.matmul(x, v)\n    c = (a, b)\n"
        "    R.output(c)\nreturn c",
        "a = R.matmul(x, w)\nv = R.add(w, w)\nb = R.matmul(x, v)\nreturn R.add(a, b)",
        "return R.matmul(x, w), R.matmul(x, R.add(w, w))",
    ],
)
def test_bindings_are_replaced_together(body):
    before = main(body, PARAMS)
    after = OneProduct(before)
    assert products(after) == 1
    agree(after, numbers(3, 4), numbers(4, 4, seed=1))
    assert well_formed(after)


def test_bindings_that_would_depend_on_themselves_are_kept():
    before = main(
        "a = R.matmul(x, w)\nb = R.matmul(x, a)\nreturn R.add(a, b)",
        'x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")',
    )
    assert OneProduct(before) is before


def test_a_tuple_of_any_values_is_replaced_by_a_callback():
    first, second = is_op("relax.exp")(x), is_op("relax.log")(x)
    swapped = TupleRewriter([first, second], lambda _, m: (op.sin(m[x]), op.cos(m[x])))
    body = "with R.dataflow():\n    a = R.{}(x)\n    b = R.{}(x)\n    c = R.add(a, b)\n    R.output(c)\nreturn c"
    same(swapped(main(body.format("exp", "log"))), main(body.format("sin", "cos")))
    wrong = TupleRewriter([first, second], lambda _, m: (m[x],))
    with pytest.raises(ValueError, match="TupleRewriter: expected 2 new values, found 1"):
        wrong(main(body.format("exp", "log")))


# -------------------------------------------------------------------------------------------- functions that are added


DOUBLE = """
@T.prim_func(private=True)
def double(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            b[vi] = a[vi] * T.float32(2)
"""
CALLS = """
@R.function
def pattern(x: R.Tensor((4,), "float32")):
    return R.add(x, x)

@R.function
def replacement(x: R.Tensor((4,), "float32")):
    return R.call_tir(cls.double, (x,), R.Tensor((4,), "float32"))
"""


def test_functions_that_a_replacement_calls_are_added_where_it_is_used():
    rule = PatternMatchingRewriter.from_module(module(DOUBLE, CALLS))
    params = 'x: R.Tensor((4,), "float32")'
    untouched = main("return R.exp(x)", params)
    assert rule(untouched) is untouched
    after = rule(main("return R.add(x, x)", params))
    assert [name.name_hint for name in after.functions] == ["main", "double"]
    agree(after, numbers(4))
    assert rule(after) is after
    other = DOUBLE.replace("a[vi] * T.float32(2)", "a[vi] * T.float32(3)")
    both = rule(main("u = R.call_tir(cls.double, (x,), R.Tensor((4,), 'float32'))\nreturn R.add(u, u)", params, other))
    assert [name.name_hint for name in both.functions] == ["double", "main", "double_1"]
    found = relax.interpret(both, "main", np.float32([1, 2, 3, 4])).numpy()
    np.testing.assert_array_equal(found, [6, 12, 18, 24])
    with pytest.raises(
        DiagnosticError, match=r"E4019.*the replacement calls double, a function of the rewriter's module"
    ):
        rule(main("return R.add(x, x)", params)["main"])


VALUE = "@R.function\ndef {}({}):\n    return {}"
ONE = 'x: R.Tensor((4,), "float32")'


@pytest.mark.parametrize(
    "functions, message",
    [
        ([VALUE.format("pattern", ONE, "R.exp(x)")], "the module has no function `replacement`"),
        ([VALUE.format("replacement", ONE, "R.exp(x)")], "the module has no function `pattern`"),
        ([DOUBLE.replace("double", "pattern")], "`pattern` is a PrimFunc, not a Relax function"),
        (
            [VALUE.format("pattern", ONE, "R.exp(x)"), VALUE.format("replacement", ONE, "R.sum(x)")],
            "`pattern` and `replacement` differ in their signatures",
        ),
        (
            [VALUE.format(name, ONE, "R.exp(x)") for name in ("pattern", "replacement", "more")],
            "more is a public function, beside `pattern` and `replacement`",
        ),
        (
            [VALUE.format(name, f"{ONE}, y: R.Object", "R.exp(x)") for name in ("pattern", "replacement")],
            "`pattern` does not use its parameter y",
        ),
        (
            [DOUBLE, *(CALLS.replace("R.add(x, x)", 'R.call_tir(cls.double, (x,), R.Tensor((4,), "float32"))'),)],
            "`pattern` holds a function of the module, which cannot be matched",
        ),
        (
            [
                VALUE.format(name, ONE, 'R.match_cast(R.exp(x), R.Tensor((4,), "float32"))')
                for name in ("pattern", "replacement")
            ],
            "a match_cast in `pattern` cannot be matched",
        ),
    ],
)
def test_modules_that_describe_no_rule_are_rejected(functions, message):
    with pytest.raises(DiagnosticError, match=message) as error:
        PatternMatchingRewriter.from_module(module(*functions))
    assert "E4019" in str(error.value)


def test_the_decorator_takes_classes():
    with pytest.raises(DiagnosticError, match="rewriter decorates classes, found a value of type int"):
        R.rewriter(3)


# ----------------------------------------------------------------------------------------------- what does not move


def test_a_value_is_kept_where_a_tensor_may_have_been_modified():
    before = main(
        "u = R.exp(x)\n_ = R.call_packed('lib.change', x, sinfo_args=R.Object)\nv = R.log(u)\nreturn v", pure=False
    )
    assert UNDO(before) is before


def test_bindings_of_a_block_with_an_effect_are_not_rewritten_together():
    before = main(
        "a = R.matmul(x, w)\n_ = R.print(format='between')\nb = R.matmul(x, w)\nreturn R.add(a, b)", PARAMS, pure=False
    )
    assert OneProduct(before) is before


def test_a_value_used_elsewhere_stays_beside_its_replacement():
    before = main("with R.dataflow():\n    u = R.exp(x)\n    v = R.log(u)\n    c = (u, v)\n    R.output(c)\nreturn c")
    after = UNDO(before)
    same(after, main("with R.dataflow():\n    u = R.exp(x)\n    v = x\n    c = (u, v)\n    R.output(c)\nreturn c"))


def test_a_shape_variable_stays_bound_before_its_uses():
    body = """
        with R.dataflow():
            a = R.matmul(x, w)
            k = T.int64()
            c = R.match_cast(R.nonzero(x), R.Tensor((2, k), "int64"))
            v = R.take(R.astype(R.permute_dims(c), "float32"), R.const([0, 1, 0, 1], "int64"), axis=1)
            b = R.matmul(v, w)
            d = R.matmul(v, R.add(w, w))
            gv = (a, b, d)
            R.output(gv)
        return gv
    """
    before = main(body, PARAMS)
    after = OneProduct(before)
    assert products(before) == 3
    assert products(after) == 2
    agree(after, numbers(3, 4), numbers(4, 4, seed=1))


def test_branches_do_not_enter_a_dataflow_block():
    @R.rewriter
    class Branch:
        @R.function
        def pattern(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            return R.where(c, R.exp(x), x)

        @R.function
        def replacement(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            if c:
                v = R.exp(x)
            else:
                v = x
            return v

    params = 'x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")'
    inside = main("with R.dataflow():\n    y = R.where(c, R.exp(x), x)\n    R.output(y)\nreturn y", params)
    assert Branch(inside) is inside
    after = Branch(main("y = R.where(c, R.exp(x), x)\nreturn y", params))
    assert "if c:" in after.script()
    agree(after, numbers(4), np.bool_(True))


def test_fields_of_tuples_are_replaced():
    first = is_tuple_get_item(is_op("relax.split")(x), 0)
    half = PatternMatchingRewriter.from_pattern(first, lambda _, m: op.strided_slice(m[x], [0], [0], [2]))
    params = 'x: R.Tensor((4,), "float32")'
    before = main("with R.dataflow():\n    u = R.split(x, 2)\n    v = u[0]\n    R.output(v)\nreturn v", params)
    same(
        half(before),
        main("with R.dataflow():\n    v = R.strided_slice(x, [0], [0], [2])\n    R.output(v)\nreturn v", params),
    )
