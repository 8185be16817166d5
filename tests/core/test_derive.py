"""Derivation of struct info (language.md §6), one test per rule; programs are text, errors have places."""

from __future__ import annotations

import warnings

import pytest

from relax import op
from relax.analysis import check_derived
from relax.block_builder import BlockBuilder
from relax.derive.normalize import normalize_module
from relax.expr import Call, Constant, ExternFunc, If, MatchCast, SeqExpr, Tuple, Var, const
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError, GlobalVar, IRModule, RelaxWarning, register_op
from relax.ir.transform import PassContext
from relax.prim import SizeVar
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    register_derivation,
)
from support import parse


def infos(text, name="main"):
    """name -> struct info text of every variable a function binds, and its result under ``return``."""
    function = parse(text)[name]
    found = {
        binding.var.name_hint: struct_info_text(binding.var.struct_info)
        for block in function.body.blocks
        for binding in block.bindings
    }
    return {**found, "return": struct_info_text(function.struct_info.ret)}


def errors(text):
    """(code, line, message) of each diagnostic."""
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    return [(d.code, d.span.line, d.message) for d in caught.value.diagnostics]


def warned(text):
    """The rendered warnings of a text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mod = parse(text)
    return mod, [str(w.message) for w in caught if issubclass(w.category, RelaxWarning)]


# -------------------------------------------------------------------------------- leaves


def test_leaves_say_what_they_are():
    n = SizeVar("n", "int64")
    bb = BlockBuilder()
    cases = [
        (const([[1.0, 2.0]]), 'R.Tensor((1, 2), "float32")'),
        (const(3), 'R.Tensor((), "int32")'),
        (Constant([[]]), 'R.Tensor((1, 0), "float64")'),
        (bb.normalize(1), 'R.Prim("int64", value=1)'),
        (bb.normalize(True), 'R.Prim("bool", value=True)'),
        (bb.normalize(n + 1), 'R.Prim("int64", value=n + 1)'),
        (bb.normalize("text"), "R.Object"),
        (bb.normalize((const(1), "text")), 'R.Tuple(R.Tensor((), "int32"), R.Object)'),
        (bb.normalize(()), "R.Tuple()"),
        (ExternFunc("f"), 'R.PackedFunc(derive="relax.default_derivation", purity=False)'),
    ]
    for expr, expected in cases:
        assert struct_info_text(expr.struct_info) == expected


def test_struct_info_that_is_not_known_yet_is_asked_for_in_vain():
    with pytest.raises(ValueError, match="has not been derived yet"):
        _ = Var("x").struct_info
    with pytest.raises(ValueError, match="has not been derived yet"):
        _ = Tuple([Var("x")]).struct_info


# -------------------------------------------------------------------------------- bindings


def test_variables_get_what_was_derived():
    assert infos("""
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, a)
            t = (a, b)
            c = t[1]
            R.output(c)
        return c
    """) == {
        "a": 'R.Tensor((n, 4), "float32")',
        "b": 'R.Tensor((n, 4), "float32")',
        "t": 'R.Tuple(R.Tensor((n, 4), "float32"), R.Tensor((n, 4), "float32"))',
        "c": 'R.Tensor((n, 4), "float32")',
        "return": 'R.Tensor((n, 4), "float32")',
    }


def test_an_annotation_that_says_less_is_kept():
    found = infos("""
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        y: R.Tensor(ndim=2, dtype="float32") = R.exp(x)
        z: R.Object = R.exp(x)
        return y
    """)
    assert found["y"] == found["return"] == 'R.Tensor(dtype="float32", ndim=2)'
    assert found["z"] == "R.Object"


CLAIM = """
@R.function
def main(x: R.Tensor(dtype="float32", ndim=2)):
    y: R.Tensor((3, 4), "float32") = R.exp(x)
    return y
"""


def test_an_annotation_that_claims_more_becomes_a_match_cast_with_a_warning():
    mod, found = warned(CLAIM)
    first, second = mod["main"].body.blocks[0].bindings
    assert isinstance(second, MatchCast)
    assert second.value is first.var
    assert struct_info_text(second.struct_info) == 'R.Tensor((3, 4), "float32")'
    assert len(found) == 1
    assert "warning[W3006]: the annotation of y claims more than was derived" in found[0]
    assert "<string>:4:5" in found[0]
    assert "y = R.match_cast(" in found[0]
    # Once the check is in the program, there is nothing left to say or to do.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert normalize_module(mod) is mod


def test_under_the_strict_option_a_claim_is_an_error():
    with PassContext(config={"relax.strict": True}):
        assert errors(CLAIM) == [
            ("E3006", 4, "the annotation of y claims more than was derived: "
             "shape: expected (3, 4), found an unknown shape"),
        ]  # fmt: skip


def test_an_annotation_proved_wrong_is_an_error():
    assert errors("""
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        y: R.Tensor((3, 5), "float32") = R.exp(x)
        return y
    """) == [("E3006", 4, "the value does not fit the annotation of y: dimension 1: expected 5, found 4")]


# -------------------------------------------------------------------------------- match_cast


def test_a_match_cast_binds_shape_variables_for_what_follows():
    found = infos("""
    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=2)):
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        z = R.permute_dims(y)
        return z
    """)
    assert found["z"] == 'R.Tensor((m, n), "float32")'
    # n and m are not visible outside the function.
    assert found["return"] == 'R.Tensor(dtype="float32", ndim=2)'


@pytest.mark.parametrize(
    ("cast", "reason"),
    [
        ('R.Tensor((3, 5), "float32")', "dimension 1: expected 5, found 4"),
        ('R.Tensor((3, 4), "int8")', "dtype: expected int8, found float32"),
        ('R.Tensor((m, m), "float32")', "dimension 1: expected 3, found 4"),
        ("R.Shape([3, 4])", 'expected R.Shape([3, 4]), found R.Tensor((3, 4), "float32")'),
    ],
)
def test_a_match_cast_proved_never_to_succeed_is_an_error(cast, reason):
    assert errors(f"""
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        m = T.int64()
        y = R.match_cast(x, {cast})
        return y
    """) == [("E3008", 5, f"this match_cast can never succeed: {reason}")]


# -------------------------------------------------------------------------------- tuples


def test_fields_of_tuples():
    text = """
    @R.function
    def main(x: R.Tuple(R.Tensor((3,), "float32"), R.Object)):
        y = x[{}]
        return y
    """
    assert infos(text.format(0))["y"] == 'R.Tensor((3,), "float32")'
    assert infos(text.format(1))["y"] == "R.Object"


def test_only_tuples_have_fields():
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((3,)))
    t = Var("t", TupleStructInfo([ObjectStructInfo()]))
    from relax.expr import TupleGetItem

    with bb.function("main", [x, t]):
        with pytest.raises(DiagnosticError, match=r'only tuples have fields[\s\S]*x: R.Tensor\(\(3,\), "float32"\)'):
            bb.emit(TupleGetItem(x, 0))
        with pytest.raises(DiagnosticError, match="index 3 is out of range for a tuple of 1"):
            bb.emit(TupleGetItem(t, 3))
        bb.emit_func_output(t)


# -------------------------------------------------------------------------------- if


def test_an_if_is_described_by_the_least_upper_bound_of_its_branches():
    text = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", 4), "float32"), y: R.Tensor({}, "float32")):
        if c:
            z = R.exp(x)
        else:
            z = R.exp(y)
        return z
    """
    assert infos(text.format('("n", 4)'))["z"] == 'R.Tensor((n, 4), "float32")'
    assert infos(text.format('("m", 4)'))["z"] == 'R.Tensor(dtype="float32", ndim=2)'
    assert infos(text.format("(4,)"))["z"] == 'R.Tensor(dtype="float32")'


def test_what_a_branch_binds_is_erased_from_its_result():
    found = infos("""
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(dtype="float32", ndim=1)):
        if c:
            m = T.int64()
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            z = R.exp(y)
        else:
            z = R.exp(x)
        return z
    """)
    assert found["z"] == 'R.Tensor(dtype="float32", ndim=1)'


@pytest.mark.parametrize(
    ("cond", "ok"),
    [
        (TensorStructInfo((), "bool"), True),
        (PrimStructInfo("bool"), True),
        (TensorStructInfo((1,), "bool"), False),
        (TensorStructInfo((), "int32"), False),
        (PrimStructInfo("int64"), False),
        (ShapeStructInfo(()), False),
    ],
)
def test_the_condition_of_an_if_is_a_bool_scalar(cond, ok):
    bb = BlockBuilder()
    c, x = Var("c", cond), Var("x", TensorStructInfo((4,)))
    with bb.function("main", [c, x]):
        if ok:
            bb.emit(If(c, x, x))
        else:
            with pytest.raises(DiagnosticError, match="the condition of an if must be a bool scalar"):
                bb.emit(If(c, x, x))
        bb.emit_func_output(x)


@pytest.mark.parametrize("cond", [ObjectStructInfo(), TensorStructInfo(dtype="bool"), TensorStructInfo((), "")])
def test_a_condition_that_may_be_a_bool_scalar_is_warned_of(cond):
    bb = BlockBuilder()
    c, x = Var("c", cond), Var("x", TensorStructInfo((4,)))
    with bb.function("main", [c, x]):
        with pytest.warns(RelaxWarning, match="W3010"):
            bb.emit(If(c, x, x))
        bb.emit_func_output(x)


# -------------------------------------------------------------------------------- calls of functions

CALLEE = """
@I.ir_module
class M:
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("m", "n"), "float32"):
        z = R.permute_dims(x)
        return z

    @R.function
    def main({}):
        r = M.f({})
        return r
"""


def test_a_call_is_described_by_the_callees_result_with_its_dimensions_filled_in():
    main = 'a: R.Tensor((3, "k"), "float32"), b: R.Tensor(("k",), "float32")'
    assert infos(CALLEE.format(main, "a, b"))["r"] == 'R.Tensor((k, 3), "float32")'


def test_dimensions_no_argument_gives_are_dropped_from_the_result():
    main = 'a: R.Tensor(dtype="float32", ndim=2), b: R.Tensor((4,), "float32")'
    mod, found = warned(CALLEE.format(main, "a, b"))
    binding = mod["main"].body.blocks[0].bindings[0]
    assert struct_info_text(binding.var.struct_info) == 'R.Tensor(dtype="float32", ndim=2)'
    # m is 4 by b; that a's last dimension is 4 as well is left to be checked.
    assert len(found) == 1
    assert "warning[W3001]: f: argument 0 may not fit, it is checked at run time" in found[0]
    assert "R.match_cast" in found[0]


def test_arguments_proved_wrong_are_errors():
    main = 'a: R.Tensor((3, 5), "float32"), b: R.Tensor((4,), "float32")'
    [(code, line, message)] = errors(CALLEE.format(main, "a, b"))
    assert (code, line) == ("E3001", 11)
    assert message == "f: argument 1: dimension 0: expected 5, found 4"
    main = 'a: R.Tensor((3, 5), "int8"), b: R.Tensor((5,), "float32")'
    [(code, line, message)] = errors(CALLEE.format(main, "a, b"))
    assert message == "f: argument 0: dtype: expected float32, found int8"
    [(code, line, message)] = errors(CALLEE.format(main, "b, b"))
    assert message == "f: argument 0: rank: expected 2, found 1"


def test_the_number_of_arguments_must_agree():
    main = 'a: R.Tensor((3, 5), "float32")'
    [(code, line, message)] = errors(CALLEE.format(main, "a"))
    assert (code, line, message) == ("E3002", 11, "f takes 2 arguments, found 1")


def test_under_the_strict_option_a_possible_misfit_is_an_error():
    main = 'a: R.Tensor(dtype="float32", ndim=2), b: R.Tensor((4,), "float32")'
    with PassContext(config={"relax.strict": True}):
        [(code, line, message)] = errors(CALLEE.format(main, "a, b"))
    assert (code, line) == ("E3001", 11)


def test_functions_without_annotations_are_derived_callees_first():
    mod = parse("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = M.second(x)
            return y

        @R.function
        def second(x: R.Tensor(("n",), "float32")):
            y = M.third(x)
            return y

        @R.function
        def third(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            y = R.reshape(x, (n, 1))
            return y
    """)
    assert struct_info_text(mod["main"].struct_info.ret) == 'R.Tensor((4, 1), "float32")'
    assert [g.name_hint for g in mod.functions] == ["main", "second", "third"]


def test_recursion_goes_by_the_annotation():
    found = infos("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            y = R.concat((x, x))
            z = M.main(y)
            return x
    """)
    assert found["z"] == 'R.Tensor((n * 2,), "float32")'


def test_a_function_the_module_does_not_have_is_an_error():
    x = Var("x", TensorStructInfo((4,)))
    from relax.expr import Function

    mod = IRModule({"main": Function([x], Call(GlobalVar("mian"), [x]))})
    with pytest.raises(DiagnosticError, match=r"the module has no function mian[\s\S]*did you mean main\?"):
        normalize_module(mod)


# -------------------------------------------------------------------------------- local functions


def test_a_local_function_is_a_closure_over_shape_variables():
    found = infos("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("k",), "float32")):
        n = T.int64()
        @R.function
        def f(a: R.Tensor(("m",), "float32")) -> R.Tensor(("m", n), "float32"):
            m = T.int64()
            b = R.broadcast_to(R.expand_dims(a, 1), (m, n))
            return b
        r = f(y)
        return r
    """)
    assert found["r"] == 'R.Tensor((k, n), "float32")'


def test_a_captured_shape_variable_is_not_bound_by_a_call():
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor({}, "float32")):
        n = T.int64()
        @R.function
        def f(a: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return a
        r = f(y)
        return r
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert infos(text.format('("n",)'))["r"] == 'R.Tensor((n,), "float32")'
    _, found = warned(text.format('("k",)'))
    assert len(found) == 1
    assert "f: argument 0 may not fit, it is checked at run time: dimension 0: expected n, found k" in found[0]


def test_a_local_recursive_call_binds_its_own_variables_anew():
    text = """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def f(a: R.Tensor(("m",), "float32")) -> R.Object:
            b = R.concat((a, a))
            r = f(b)
            return r
        r = f(x)
        return r
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert infos(text)["r"] == "R.Object"


def test_functions_are_arguments_and_results():
    found = infos("""
    @R.function
    def main(f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((2,), "float32")), x: R.Tensor((4,), "float32")):
        y = f(x)
        @R.function
        def g(a: R.Tensor((4,), "float32")) -> R.Tensor((2,), "float32"):
            return f(a)
        return g
    """)
    assert found["y"] == 'R.Tensor((2,), "float32")'
    assert found["return"] == 'R.Callable((R.Tensor((4,), "float32"),), R.Tensor((2,), "float32"))'


def test_only_functions_are_called():
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((3,)))
    with bb.function("main", [x]):
        with pytest.raises(DiagnosticError, match="only functions can be called"):
            bb.emit(Call(x, [x]))
        bb.emit_func_output(x)


# -------------------------------------------------------------------------------- results


def test_a_result_is_compatible_with_the_annotation():
    text = """
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> {}:
        y = R.exp(x)
        return y
    """
    assert infos(text.format('R.Tensor(ndim=2, dtype="float32")'))["return"] == 'R.Tensor(dtype="float32", ndim=2)'
    [(code, _, message)] = errors(text.format('R.Tensor((3, 5), "float32")'))
    assert code == "E3007"
    assert message == "main does not return what it declares: dimension 1: expected 5, found 4"


def test_a_result_that_may_not_fit_is_warned_of():
    _, found = warned("""
    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=1), s: R.Shape(["n"])) -> R.Tensor(("n",), "float32"):
        y = R.exp(x)
        return y
    """)
    assert len(found) == 1
    assert "warning[W3007]: what main returns may not fit its declaration, it is checked at run time" in found[0]


# -------------------------------------------------------------------------------- packed functions


def test_a_packed_function_returns_what_its_call_says():
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((3,)))
    info, other = TensorStructInfo((4,)), ShapeStructInfo(ndim=1)
    with bb.function("main", [x], pure=False):
        results = [bb.emit(Call(ExternFunc("f"), [x], None, args)).struct_info for args in ([], [info], [info, other])]
        bb.emit_func_output(x)
    assert [struct_info_text(r) for r in results] == [
        "R.Object", 'R.Tensor((4,), "float32")', 'R.Tuple(R.Tensor((4,), "float32"), R.Shape(ndim=1))',
    ]  # fmt: skip


def test_a_packed_function_may_have_a_derivation_of_its_own():
    register_derivation("tests.same_as_first", lambda call, builder: call.args[0].struct_info)
    f = Var("f", FuncStructInfo.opaque_func(derive_func="tests.same_as_first"))
    g = Var("g", FuncStructInfo.opaque_func(derive_func="tests.nowhere"))
    x = Var("x", TensorStructInfo((3,)))
    bb = BlockBuilder()
    with bb.function("main", [f, g, x], pure=False):
        assert bb.emit(Call(f, [x])).struct_info is x.struct_info
        with pytest.raises(DiagnosticError, match=r"the derivation 'tests.nowhere' is not registered"):
            bb.emit(Call(g, [x]))
        bb.emit_func_output(x)


# -------------------------------------------------------------------------------- operators


def test_an_operators_complaint_has_the_place_of_the_call():
    text = """
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((5, 6), "float32")):
        z = R.matmul(x, y)
        return z
    """
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.span.line == 4
    assert "matmul" in diagnostic.message
    assert any('R.Tensor((3, 4), "float32")' in note for note in diagnostic.notes)


def test_an_operator_without_a_rule():
    register_op("tests.no_rule")
    x = Var("x", TensorStructInfo((3,)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with pytest.raises(DiagnosticError, match=r"tests.no_rule: this operator has no struct-info rule"):
            bb.emit(Call("tests.no_rule", [x]))
        assert bb.emit(Call("tests.no_rule", [x], None, [ObjectStructInfo()])).struct_info is not None
        bb.emit_func_output(x)


def test_a_rule_that_fails_is_told_as_a_diagnostic():
    def infer(call, builder):
        raise ValueError("three is not an axis")

    register_op("tests.fails", FInferStructInfo=infer)
    x = Var("x", TensorStructInfo((3,)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with pytest.raises(DiagnosticError, match=r"tests.fails: three is not an axis[\s\S]*x: R.Tensor"):
            bb.emit(Call("tests.fails", [x]))
        bb.emit_func_output(x)


# -------------------------------------------------------------------------------- purity

IMPURE = """
@R.function{}
def main(x: R.Tensor((3,), "float32")):
    {}
    return x
"""


def test_an_impure_call_is_an_error_in_a_pure_function():
    call = 'y = R.print(x, format="{}")'
    [(code, line, message)] = errors(IMPURE.format("", call))
    assert (code, line) == ("E3005", 4)
    assert message == "the call of relax.print is impure, inside a pure function"
    parse(IMPURE.format("(pure=False)", call))
    parse(IMPURE.format("", 'R.func_attr({"relax.force_pure": True})\n    ' + call))


def test_an_impure_call_is_an_error_in_a_dataflow_block():
    call = 'with R.dataflow():\n        y = R.print(x, format="{}")\n        R.output(y)'
    [(code, line, message)] = errors(IMPURE.format("(pure=False)", call))
    assert (code, line) == ("E3004", 5)
    assert message == "the call of relax.print is impure, inside a dataflow block"
    parse(IMPURE.format("", 'R.func_attr({"relax.force_pure": True})\n    ' + call))


def test_packed_functions_are_impure_unless_vouched_for():
    call = 'y = R.call_packed("f", x, sinfo_args=R.Object())'
    [(code, _, message)] = errors(IMPURE.format("", call))
    assert (code, message) == ("E3005", "the call of f is impure, inside a pure function")
    parse(IMPURE.format("", call.replace("call_packed", "call_pure_packed")))


def test_a_functions_purity_is_what_it_declares():
    text = """
    @I.ir_module
    class M:
        @R.function(pure=False)
        def effect(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return x

        @R.function{}
        def main(x: R.Tensor((3,), "float32")):
            y = M.effect(x)
            return y
    """
    [(code, _, message)] = errors(text.format(""))
    assert (code, message) == ("E3005", "the call of effect is impure, inside a pure function")
    parse(text.format("(pure=False)"))


def test_making_an_impure_closure_is_pure_and_calling_it_is_not():
    text = """
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        @R.function(pure=False)
        def f(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            b = R.print(a, format="{{}}")
            return a
        {}
        return x
    """
    parse(text.format("g = f"))
    [(code, line, _)] = errors(text.format("g = f(x)"))
    assert (code, line) == ("E3005", 8)


# -------------------------------------------------------------------------------- several errors


def test_all_errors_of_a_module_are_reported_and_none_that_follows_from_another():
    found = errors("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((4,), "float32")):
            a = R.add(x, y)
            b = R.exp(a)
            c = R.add(b, y)
            d = R.matmul(x, y)
            return (c, d)

        @R.function
        def other(x: R.Tensor((3,), "float32"), y: R.Tensor((4,), "float32")):
            e = R.add(x, y)
            f = M.main(x, y)
            return f
    """)
    assert [line for _, line, _ in found] == [6, 9, 14]


def test_what_is_derived_passes_the_check_for_it():
    mod = parse("""
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        y = R.exp(R.add(x, x))
        return (y, R.shape_of(y))
    """)
    assert check_derived(mod) == []
    bare = mod["main"].replace(body=SeqExpr([], op.exp(mod["main"].params[0])))
    codes = {d.code for d in check_derived(IRModule({"main": bare}))}
    assert codes == {"E2105"}
