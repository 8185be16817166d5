"""Derivation of calls (language.md §6): packed functions, PrimFuncs, sinfo_args, rules of operators, purity."""

from __future__ import annotations

import warnings

import pytest

from relax import op
from relax.block_builder import BlockBuilder
from relax.derive.context import Scopes, prim_func_struct_info
from relax.derive.normalize import normalize_function, normalize_module
from relax.expr import (
    BindingBlock,
    Call,
    DataTypeImm,
    ExternFunc,
    Function,
    MatchCast,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax.info.text import struct_info_text
from relax.ir import Diagnostic, DiagnosticError, IRModule, Op, RelaxWarning, Source, Span, register_op
from relax.prim import SizeVar
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    register_derivation,
)
from support import parse

VECTOR = TensorStructInfo((4,))


def infos(text, name="main"):
    """name -> struct info text of every variable a function binds."""
    return {
        binding.var.name_hint: struct_info_text(binding.var.struct_info)
        for block in parse(text)[name].body.blocks
        for binding in block.bindings
    }


def errors(text):
    """(code, line, message) of each diagnostic."""
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    return [(d.code, d.span.line, d.message) for d in caught.value.diagnostics]


def emitted(value, *params, pure=False):
    """What a BlockBuilder derives for an expression."""
    bb = BlockBuilder()
    with bb.function("main", list(params), pure=pure):
        result = bb.emit(value).struct_info
        bb.emit_func_output(const(0))
    return result


def refused(value, *params, pure=False):
    """The diagnostic for an expression."""
    with pytest.raises(DiagnosticError) as caught:
        emitted(value, *params, pure=pure)
    [diagnostic] = caught.value.diagnostics
    return diagnostic


# -------------------------------------------------------------------------------- values that are no tensors


def test_strings_dtypes_and_null_objects_are_objects():
    found = infos("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        a = R.str("text")
        b = R.dtype("float32")
        c = R.null_value()
        t = (a, b, c)
        d = t[2]
        return t
    """)
    assert found == {
        "a": "R.Object", "b": "R.Object", "c": "R.Object",
        "t": "R.Tuple(R.Object, R.Object, R.Object)", "d": "R.Object",
    }  # fmt: skip


def test_they_pass_through_functions_and_packed_calls():
    mod = parse("""
    @I.ir_module
    class M:
        @R.function
        def same(x: R.Object) -> R.Object:
            return x

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = M.same(R.str("text"))
            z = R.call_pure_packed("f", R.dtype("int8"), y, R.null_value(), sinfo_args=R.Object())
            return z
    """)
    assert struct_info_text(mod["main"].struct_info.ret) == "R.Object"


def test_numbers_say_their_value():
    found = infos("""
    @R.function
    def main(s: R.Shape(["n"]), p: R.Prim("float32")):
        n = T.int64()
        a = R.prim_value(3)
        b = R.prim_value(n + 1)
        c = R.prim_value(T.float32(0.5))
        d = p
        return b
    """)
    assert found == {
        "a": 'R.Prim("int64", value=3)', "b": 'R.Prim("int64", value=n + 1)',
        "c": 'R.Prim("float32", value=0.5)', "d": 'R.Prim("float32")',
    }  # fmt: skip


# -------------------------------------------------------------------------------- fields


def test_a_field_of_an_object_is_an_object_and_no_tuple_has_a_negative_one():
    x = Var("x", ObjectStructInfo())
    assert isinstance(emitted(TupleGetItem(x, 5), x), ObjectStructInfo)
    found = refused(TupleGetItem(x, -1), x)
    assert (found.code, found.message) == ("E3009", "index -1 is out of range for any tuple")


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_is_in_range(index):
    t = Var("t", TupleStructInfo([VECTOR, VECTOR]))
    found = refused(TupleGetItem(t, index), t)
    assert (found.code, found.message) == ("E3009", f"index {index} is out of range for a tuple of 2")
    empty = Var("e", TupleStructInfo([]))
    assert refused(TupleGetItem(empty, 0), empty).message == "index 0 is out of range for a tuple of 0"


# -------------------------------------------------------------------------------- sinfo_args


def test_sinfo_args_belong_to_intrinsic_calls():
    x, f = Var("x", VECTOR), Var("f", FuncStructInfo([VECTOR], VECTOR))
    found = refused(Call(f, [x], None, [ObjectStructInfo(), VECTOR]), f, x)
    assert found.code == "E3016"
    assert found.message == "a call of f takes no sinfo_args: what it returns is derived"
    assert found.notes == ('found sinfo_args R.Object, R.Tensor((4,), "float32")',)
    assert "R.match_cast" in found.hint
    found = refused(op.exp(x).replace(sinfo_args=(VECTOR,)), x)
    assert found.message == "a call of relax.exp takes no sinfo_args: what it returns is derived"
    # Extern calls and the intrinsics say their results so.
    assert emitted(Call(ExternFunc("f"), [x], None, [VECTOR]), x) is VECTOR
    assert emitted(op.call_pure_packed("f", x, sinfo_args=VECTOR), x) is VECTOR
    assert emitted(op.call_dps_packed("f", x, VECTOR), x) is VECTOR


def test_sinfo_args_use_what_is_bound():
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        y = R.call_pure_packed("f", x, sinfo_args=R.Tensor((n,), "float32"))
        return y
    """
    assert infos(text)["y"] == 'R.Tensor((n,), "float32")'


# -------------------------------------------------------------------------------- packed functions


def test_a_call_of_an_object_is_one_of_a_packed_function():
    f, x = Var("f", ObjectStructInfo()), Var("x", VECTOR)
    given = [[], [VECTOR], [VECTOR, ShapeStructInfo(ndim=1)]]
    assert [struct_info_text(emitted(Call(f, [x], None, args), f, x)) for args in given] == [
        "R.Object", 'R.Tensor((4,), "float32")', 'R.Tuple(R.Tensor((4,), "float32"), R.Shape(ndim=1))',
    ]  # fmt: skip
    # Who knows what it does?
    assert refused(Call(f, [x]), f, x, pure=True).code == "E3005"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda call, ctx: call.args[3], "g: tuple index out of range"),
        (lambda call, ctx: call.args[0].struct_info.values, "g: 'TensorStructInfo' object has no attribute"),
        (lambda call, ctx: int("three"), "g: invalid literal for int()"),
        (lambda call, ctx: None, "g: its rule gave no struct info, but NoneType"),
    ],
)
def test_a_derivation_that_fails_is_told_as_a_diagnostic(rule, message):
    register_derivation("tests.fails", rule)
    g, x = Var("g", FuncStructInfo.opaque_func(derive_func="tests.fails")), Var("x", VECTOR)
    found = refused(Call(g, [x]), g, x)
    assert found.code == "E3100"
    assert found.message.startswith(message)
    assert found.notes == ('x: R.Tensor((4,), "float32")',)


def test_a_derivation_may_complain_with_a_diagnostic_of_its_own():
    def rule(call, ctx):
        raise DiagnosticError(Diagnostic("E9999", "not today"))

    register_derivation("tests.complains", rule)
    g, x = Var("g", FuncStructInfo.opaque_func(derive_func="tests.complains")), Var("x", VECTOR)
    found = refused(Call(g, [x]), g, x)
    assert (found.code, found.label) == ("E9999", "in main")
    assert found.notes == ('x: R.Tensor((4,), "float32")',)


def test_an_operators_rule_gives_struct_info():
    register_op("tests.gives_nothing", FInferStructInfo=lambda call, ctx: None)
    found = refused(Call(Op.get("tests.gives_nothing"), []))
    assert found.message == "tests.gives_nothing: its rule gave no struct info, but NoneType"


def test_a_packed_function_may_be_pure():
    """Purity is part of its struct info, whatever derives the result."""
    f, x = Var("f", FuncStructInfo.opaque_func(purity=True)), Var("x", VECTOR)
    assert isinstance(emitted(Call(f, [x]), f, x, pure=True), ObjectStructInfo)


# -------------------------------------------------------------------------------- PrimFuncs

KERNEL = """
@I.ir_module
class M:
    @T.prim_func
    def k(a: T.handle, b: T.handle, p: T.handle, m: T.int64, s: T.float32):
        n = T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (4,), "int8")
        for i in range(n):
            A[i, 0] = s

    @R.function(pure=False)
    def main({}):
        r = M.k({})
        return r
"""


def test_a_prim_func_is_an_impure_function_of_tensors_and_numbers():
    mod = parse(
        KERNEL.format('x: R.Tensor((4,), "float32")', "x, x, x, x, x").replace("r = M.k(x, x, x, x, x)", "r = x")
    )
    assert struct_info_text(prim_func_struct_info(mod["k"])) == (
        'R.Callable((R.Tensor((n, m), "float32"), R.Tensor((4,), "int8"), R.Object, '
        'R.Prim("int64", value=m), R.Prim("float32")), R.Tuple(), purity=False)'
    )


def test_a_prim_func_is_called_directly():
    params = 'x: R.Tensor((4, 2), "float32"), y: R.Tensor((4,), "int8"), z: R.Object'
    good = "x, y, z, R.prim_value(2), R.prim_value(T.float32(1))"
    assert infos(KERNEL.format(params, good)) == {"r": "R.Tuple()"}
    [(code, line, message)] = errors(KERNEL.format(params, good.replace("(2)", "(3)")))
    assert (code, line, message) == ("E3001", 14, "k: argument 3: value: expected 2, found 3")
    [(code, _, message)] = errors(KERNEL.format(params, "x, x" + good[4:]))
    assert (code, message) == ("E3001", "k: argument 1: dtype: expected int8, found float32")
    [(code, _, message)] = errors(KERNEL.format(params, good[3:]))
    assert (code, message) == ("E3002", "k takes 5 arguments, found 4")


def test_a_prim_func_is_impure():
    params = 'x: R.Tensor((4, 2), "float32"), y: R.Tensor((4,), "int8"), z: R.Object'
    text = KERNEL.format(params, "x, y, z, R.prim_value(2), R.prim_value(T.float32(1))")
    [(code, _, message)] = errors(text.replace("(pure=False)", ""))
    assert (code, message) == ("E3005", "the call of k is impure, inside a pure function")


# -------------------------------------------------------------------------------- purity

PRINT = 'R.print(x, format="{}")'


EFFECT = """
@I.ir_module
class M:
    @R.function(pure=False)
    def impure(x: R.Tensor((4,), "float32")) -> R.Object:
        z = R.print(x, format="{{}}")
        return x

    @R.function(pure={pure})
    def main(x: R.Tensor((4,), "float32"), g: R.Callable((R.Object,), R.Object, False)):
        R.func_attr({{{attrs}}})
        {lines}
        return x
"""
PLAIN = "y = {}"
DATAFLOW = "with R.dataflow():\n            y = {}\n            R.output(y)"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (PRINT, "relax.print"),
        ('R.call_packed("effect", x, sinfo_args=R.Object())', "effect"),
        ("g(x)", "g"),
        ("M.impure(x)", "impure"),
    ],
)
def test_impure_calls_are_rejected_where_there_must_be_none(call, name):
    plain, dataflow = PLAIN.format(call), DATAFLOW.format(call)
    found = errors(EFFECT.format(pure=True, attrs="", lines=plain))
    assert found == [("E3005", 12, f"the call of {name} is impure, inside a pure function")]
    for pure in (True, False):
        found = errors(EFFECT.format(pure=pure, attrs="", lines=dataflow))
        assert found == [("E3004", 13, f"the call of {name} is impure, inside a dataflow block")]
    parse(EFFECT.format(pure=False, attrs="", lines=plain))
    for lines in (plain, dataflow):
        parse(EFFECT.format(pure=True, attrs='"relax.force_pure": True', lines=lines))


def test_force_pure_is_of_one_function_and_not_of_those_inside():
    text = """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        R.func_attr({"relax.force_pure": True})
        @R.function
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.print(x, format="{}")
            return x
        y = R.print(x, format="{}")
        return f(x)
    """
    assert errors(text) == [("E3005", 7, "the call of relax.print is impure, inside a pure function")]


def test_a_pure_function_may_make_an_impure_closure_in_a_dataflow_block():
    parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            @R.function(pure=False)
            def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                b = R.print(a, format="{}")
                return a
            R.output(f)
        return f
    """)


def test_an_error_and_an_endless_loop_are_no_effects():
    parse("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = M.main(x)
            z = R.match_cast(y, R.Tensor((4,), "float32"))
            return z
    """)


# -------------------------------------------------------------------------------- names, places


def test_a_callee_without_a_name_is_this_function():
    x = Var("x", VECTOR)
    f = Var("", FuncStructInfo([], VECTOR))
    assert refused(Call(f, [x]), f, x).message == "this function takes 0 arguments, found 1"


def test_unbound_variables_say_of_which_kind_they_are():
    from relax.expr import DataflowVar

    x = Var("x", VECTOR)
    with pytest.raises(DiagnosticError, match="the dataflow variable lv is used where it is not bound"):
        normalize_function(Function([x], op.exp(DataflowVar("lv"))))
    with pytest.raises(DiagnosticError, match=r"the variable y is used where it is not bound"):
        normalize_function(Function([x], op.concat(Tuple([x, Var("y")]))))


def test_an_operator_is_no_value():
    x, y = Var("x", VECTOR), Var("y")
    func = Function([x], SeqExpr([BindingBlock([VarBinding(y, Tuple([Op.get("relax.exp")]))])], y))
    with pytest.raises(DiagnosticError, match=r"the operator relax.exp is used as a value"):
        normalize_function(func)


def test_what_depends_on_a_function_in_error_is_not_complained_of():
    found = errors("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = M.broken(x)
            z = R.exp(y)
            return z

        @R.function
        def broken(x: R.Tensor((4,), "float32")):
            y = R.matmul(x, R.zeros((5,), "float32"))
            return y
    """)
    assert [line for _, line, _ in found] == [12]


def test_what_a_recursive_function_without_annotation_returns_is_asked_for_in_vain():
    """Without the well-formedness check before, derivation says so itself."""
    x = Var("x", VECTOR)
    mod = IRModule({"main": Function([x], x)})
    main = mod.get_global_var("main")
    mod = mod.with_function("main", Function([x], Call(main, [x])))
    with pytest.raises(DiagnosticError) as caught:
        normalize_module(mod)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (
        "E2008", "rule 8: main is (mutually) recursive and has no return annotation",
    )  # fmt: skip
    assert found.hint.startswith("write def main(...) -> <struct info>")


def test_a_module_without_that_function_says_which_it_has():
    from relax.ir import GlobalVar

    x = Var("x", VECTOR)
    with pytest.raises(DiagnosticError) as caught:
        normalize_function(Function([x], Call(GlobalVar("nowhere"), [x])), IRModule({}))
    [found] = caught.value.diagnostics
    assert (found.code, found.notes) == ("E3011", ("it has: none",))


def test_a_rules_complaint_keeps_its_own_place():
    source = Source("rule.py", "what\n")
    span = Span(source, 1, 1, 1, 5)

    def rule(call, ctx):
        raise DiagnosticError(Diagnostic("E9998", "here", span, "in a rule", ("a note",)))

    register_op("tests.complains", FInferStructInfo=rule)
    found = refused(Call(Op.get("tests.complains"), []))
    assert (found.span, found.label, found.notes) == (span, "in a rule", ("a note",))


# -------------------------------------------------------------------------------- results


def test_a_call_outside_of_any_module():
    """`derive_call_ret_struct_info` needs no surroundings."""
    from relax.analysis import derive_call_ret_struct_info

    n = SizeVar("n", "int64")
    f, x = Var("f", FuncStructInfo([TensorStructInfo((n,))], TensorStructInfo((n, n)))), Var("x", VECTOR)
    found = derive_call_ret_struct_info(f.struct_info, Call(f, [x]), Scopes())
    assert struct_info_text(found) == 'R.Tensor((4, 4), "float32")'


def test_parameters_are_matched_in_any_order_through_tuples_and_numbers():
    found = infos("""
    @I.ir_module
    class M:
        @R.function
        def f(
            x: R.Tensor(("n * m",), "float32"), t: R.Tuple(R.Shape(["n"]), R.Prim(value="k")), y: R.Tensor(("m",), "int8")
        ) -> R.Tensor(("n", "m", "k"), "float32"):
            n, m, k = T.int64(), T.int64(), T.int64()
            return R.zeros((n, m, k), "float32")

        @R.function
        def main(x: R.Tensor((6,), "float32"), y: R.Tensor((3,), "int8")):
            r = M.f(x, (R.shape([2]), R.prim_value(7)), y)
            return r
    """)
    assert found["r"] == 'R.Tensor((2, 3, 7), "float32")'


def test_one_variable_in_two_parameters_is_one_size():
    text = """
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return x

        @R.function
        def main(x: R.Tensor({}, "float32"), y: R.Tensor({}, "float32")):
            r = M.f(x, y)
            return r
    """
    assert infos(text.format("(0,)", "(0,)"))["r"] == 'R.Tensor((0,), "float32")'
    assert errors(text.format("(4,)", "(5,)")) == [("E3001", 10, "f: argument 1: dimension 0: expected 4, found 5")]
    with pytest.warns(RelaxWarning, match="f: argument 1 may not fit"):
        parse(text.format('("k",)', '("l",)'))


def test_a_match_cast_may_ask_for_what_cannot_be_proved_of_a_function():
    text = """
    @R.function
    def main(f: R.Callable((R.Tensor((4,), "int8"),), R.Tensor((4,), "int8"), False), x: R.Tensor(ndim=1, dtype="int8")):
        g = R.match_cast(f, R.Callable((R.Tensor(ndim=1, dtype="int8"),), R.Tensor({}, "int8"), True))
        y = g(x)
        return y
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mod = parse(text.format("(4,)"))
    assert isinstance(mod["main"].body.blocks[0].bindings[0], MatchCast)
    [(code, line, message)] = errors(text.format("(5,)"))
    assert (code, line) == ("E3008", 4)
    assert message == "this match_cast can never succeed: result, dimension 0: expected 5, found 4"


def test_strings_and_dtypes_as_arguments_of_calls_built_by_hand():
    x = Var("x", VECTOR)
    call = Call(ExternFunc("f"), [StringImm("a"), DataTypeImm("int8"), x])
    assert isinstance(emitted(call, x), ObjectStructInfo)
    assert isinstance(emitted(Tuple([const(1), StringImm("b")]), x), TupleStructInfo)


def test_a_device_not_known_yet_is_no_misfit_where_devices_are_listed():
    """RealizeVDevice finds them out, and complains then."""
    text = """
    @I.ir_module
    class M:
        {}

        @R.function
        def f(a: R.Tensor((4,), "float32", vdevice="llvm:0")) -> R.Object:
            return a

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = M.f(x)
            return y
    """
    listed = 'I.module_global_infos({"vdevice": [I.vdevice("llvm")]})'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(text.format(listed))
    # A dtype that is not known is.
    with pytest.warns(RelaxWarning, match="W3001"):
        parse(text.format(listed).replace('x: R.Tensor((4,), "float32")', 'x: R.Tensor((4,), "")'))
