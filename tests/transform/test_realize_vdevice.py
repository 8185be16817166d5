"""RealizeVDevice and UpdateVDevice: devices said of parameters, results, calls and casts; hints; what is on two at once."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import relax
from relax import BlockBuilder, expr, op
from relax.analysis import assert_well_formed
from relax.ir import DiagnosticError, IRModule, VDevice, assert_structural_equal, register_op
from relax.script import from_source
from relax.struct_info import TensorStructInfo
from relax.transform import PassContext, RealizeVDevice, UpdateVDevice, VerifyInstrument
from support import PLAIN_LOOPS

LIST = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1), I.vdevice("llvm", 2)]})'


def module(text: str, listed: str = LIST) -> IRModule:
    body = textwrap.indent(f"{listed}\n{textwrap.dedent(text)}", "    ")
    made = from_source(f"@I.ir_module\nclass M:\n{body}", name="program.py")
    assert isinstance(made, IRModule)
    return made


def vec(device: int | None = None) -> str:
    place = "" if device is None else f', vdevice="llvm:{device}"'
    return f'R.Tensor((n,), "float32"{place})'


def function(body: str, returns: str = "", name: str = "main", private: bool = False, **params: int | None) -> str:
    """A function of vectors of n elements; a parameter is given with the number of its device."""
    signature = ", ".join(f"{p}: {vec(d)}".replace("(n,)", '("n",)') for p, d in params.items())
    arrow = f" -> {returns}" if returns else ""
    decorator = f"@R.function{'(private=True)' if private else ''}"
    lines = textwrap.indent(textwrap.dedent(body), "    ")
    return f"{decorator}\ndef {name}({signature}){arrow}:\n    n = T.int64()\n{lines}\n"


def becomes(before: str, after: str) -> None:
    """The pass turns one program into the other, says what is so of the other, and then says no more."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        result = RealizeVDevice()(module(before))
        assert_structural_equal(result, module(after))
        assert RealizeVDevice()(result) is result
    printed = from_source(result.script(show_meta=True), name="printed.py")
    assert_structural_equal(printed, result)


def refused(text: str, listed: str = LIST) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as failure:
        RealizeVDevice()(module(text, listed))
    return failure.value


def conflict(text: str) -> str:
    """The one complaint about a program."""
    (diagnostic,) = refused(text).diagnostics
    assert diagnostic.code == "E3106"
    assert diagnostic.hint == "move one of them with R.to_vdevice"
    assert diagnostic.span is not None
    return "\n".join([f"{diagnostic.span}: {diagnostic.message}", *diagnostic.notes])


# ------------------------------------------------------------------------------------- operators, results


def test_backwards_from_a_result():
    becomes(
        function("y = R.exp(x)\nz = R.add(y, y)\nreturn z", vec(1), x=None),
        function("y = R.exp(x)\nz = R.add(y, y)\nreturn z", vec(1), x=1),
    )


def test_to_the_other_operands_and_forwards():
    becomes(
        function("y = R.add(a, b)\nz = R.exp(y)\nreturn z", a=None, b=1, c=None),
        function("y = R.add(a, b)\nz = R.exp(y)\nreturn z", a=1, b=1, c=None),
    )


def test_from_an_annotation_of_a_variable():
    before = function(f"y: {vec(1)} = R.exp(x)\nreturn y", x=None)
    result = RealizeVDevice()(module(before))
    assert str(result["main"].params[0].struct_info) == 'R.Tensor((n,), dtype="float32", vdevice="llvm:1")'
    assert RealizeVDevice()(result) is result


def test_what_nothing_is_said_of_is_left_alone():
    mod = module(function("y = R.exp(x)\nreturn y", x=None))
    assert RealizeVDevice()(mod) is mod


def test_a_module_without_devices_is_left_alone():
    mod = module(function("y = R.exp(x)\nreturn y", x=None), "")
    assert RealizeVDevice()(mod) is mod


def test_through_tuples():
    text = """
        t = (x, (y,))
        u = t[1]
        v = u[0]
        w = R.exp(v)
        return (w, t)
    """
    returns = f"R.Tuple({vec(1)}, R.Tuple({vec()}, R.Tuple({vec()})))"
    placed = f"R.Tuple({vec(1)}, R.Tuple({vec()}, R.Tuple({vec(1)})))"
    becomes(function(text, returns, x=None, y=None), function(text, placed, x=None, y=1))


def test_operators_of_tuples():
    text = "y = R.concat((a, b), axis=0)\nreturn y"
    becomes(function(text, a=None, b=2), function(text, a=2, b=2))
    split = "s = R.split(a, 2)\ny = s[0]\nreturn y"
    six = split.replace("s = R", "s = R")
    becomes(
        function(six, 'R.Tensor((n // 2,), "float32", vdevice="llvm:1")', a=1)
        .replace('("n",)', "(6,)")
        .replace("n // 2", "3"),
        function(six, 'R.Tensor((n // 2,), "float32", vdevice="llvm:1")', a=1)
        .replace('("n",)', "(6,)")
        .replace("n // 2", "3"),
    )


def test_in_dataflow_blocks():
    text = """
        with R.dataflow():
            y = R.exp(x)
            h = R.hint_on_device(y, "llvm:1")
            z = R.exp(h)
            R.output(z)
        return z
    """
    after = text.replace("hint_on_device", "to_vdevice")
    becomes(function(text, x=0), function(after, x=0))


# ----------------------------------------------------------------------------------------------- hints


def test_a_hint_is_knowledge_where_nothing_is_known():
    becomes(
        function('h = R.hint_on_device(x, "llvm:1")\ny = R.exp(h)\nreturn y', x=None),
        function("h = x\ny = R.exp(h)\nreturn y", x=1),
    )


def test_a_hint_is_nothing_where_the_value_is_there():
    becomes(function('h = R.hint_on_device(x, "llvm:1")\nreturn h', x=1), function("h = x\nreturn h", x=1))


def test_a_hint_is_a_copy_where_the_value_is_elsewhere():
    becomes(
        function('h = R.hint_on_device(x, "llvm:1")\nreturn h', x=0),
        function('h = R.to_vdevice(x, "llvm:1")\nreturn h', x=0),
    )


def test_a_copy_to_where_the_value_is_goes():
    text = "y = {}\nz = R.exp(y)\nreturn z"
    becomes(function(text.format('R.to_vdevice(x, "llvm:1")'), x=1), function(text.format("x"), x=1))


def test_of_two_hints_the_first_one_is_believed():
    before = 'a = R.hint_on_device(x, "llvm:2")\nb = R.hint_on_device(x, "llvm:1")\nreturn (a, b)'
    after = 'a = x\nb = R.to_vdevice(x, "llvm:1")\nreturn (a, b)'
    becomes(function(before, x=None), function(after, x=2))


def test_what_is_said_counts_more_than_an_earlier_hint():
    before = 'a = R.hint_on_device(x, "llvm:2")\nb = R.add(x, y)\nreturn (a, b)'
    after = 'a = R.to_vdevice(x, "llvm:2")\nb = R.add(x, y)\nreturn (a, b)'
    becomes(function(before, x=None, y=1), function(after, x=1, y=1))


def test_a_copy_says_nothing_of_where_the_value_comes_from():
    text = 'y = R.to_vdevice(x, "llvm:1")\nz = R.exp(y)\nreturn z'
    mod = module(function(text, x=None))
    assert RealizeVDevice()(mod) is mod


# ------------------------------------------------------------------------------------ constants and the like


def test_a_constant_goes_where_it_is_used():
    before = 'y = R.add(x, R.const(1.0, "float32"))\nreturn (y, R.const(2.0, "float32"))'
    after = """
        y = R.add(x, R.const(1.0, "float32"))
        gv = R.to_vdevice(R.const(2.0, "float32"), "llvm:1")
        return (y, gv)
    """
    returns = f'R.Tuple({vec(1)}, R.Tensor((), "float32", vdevice="llvm:1"))'
    becomes(function(before, returns, x=1), function(after, returns, x=1))


def test_a_constant_used_on_two_devices_is_two_values():
    f = function("return x", vec(), "f", private=True, x=1).replace('("n",)', "(1,)").replace("(n,)", "(1,)")
    g = f.replace("def f", "def g").replace("llvm:1", "llvm:2")
    one = 'R.const([1.0], "float32")'
    before = f + g + function(f"a = M.f({one})\nb = M.g({one})\nreturn (a, b)")
    after = """
        gv = R.to_vdevice(R.const([1.0], "float32"), "llvm:1")
        a = M.f(gv)
        gv1 = R.to_vdevice(R.const([1.0], "float32"), "llvm:2")
        b = M.g(gv1)
        return (a, b)
    """
    placed = [
        text.replace('-> R.Tensor((1,), "float32")', f'-> R.Tensor((1,), "float32", vdevice="llvm:{i}")')
        for text, i in ((f, 1), (g, 2))
    ]
    becomes(before, "".join(placed) + function(after))


def test_what_is_made_from_nothing_goes_where_it_is_used():
    before = 'z = R.zeros(R.shape([n]), "float32")\ny = R.add(x, z)\nreturn y'
    after = 'gv = R.zeros(R.shape([n]), "float32")\nz = R.to_vdevice(gv, "llvm:1")\ny = R.add(x, z)\nreturn y'
    becomes(function(before, x=1), function(after, x=1))


def test_what_is_made_from_constants_goes_where_it_is_used():
    one = 'R.const(1.0, "float32")'
    becomes(
        function(f"y = R.add({one}, {one})\nreturn (x, y)", f'R.Tuple({vec()}, R.Tensor((), "float32", vdevice="llvm:2"))', x=None),
        function(
            f'gv = R.add({one}, {one})\ny = R.to_vdevice(gv, "llvm:2")\nreturn (x, y)',
            f'R.Tuple({vec()}, R.Tensor((), "float32", vdevice="llvm:2"))', x=None,
        ),
    )  # fmt: skip


def test_a_constant_under_a_hint():
    becomes(
        function('h = R.hint_on_device(R.const(1.0, "float32"), "llvm:1")\nreturn (x, h)', x=None),
        function('gv = R.to_vdevice(R.const(1.0, "float32"), "llvm:1")\nh = gv\nreturn (x, h)', x=None),
    )


# ----------------------------------------------------------------------------------------- branches


IF = """
    if c:
        y = {yes}
    else:
        y = {no}
    return y
"""


def branches(yes: str, no: str, returns: str = "", **params: int | None) -> str:
    text = function(IF.format(yes=yes, no=no), returns, **params)
    return text.replace("def main(", 'def main(c: R.Tensor((), "bool"), ')


def test_backwards_into_both_branches():
    becomes(
        branches("R.exp(a)", "R.negative(b)", vec(1), a=None, b=None),
        branches("R.exp(a)", "R.negative(b)", vec(1), a=1, b=1),
    )


def test_forwards_out_of_branches_that_agree():
    before = branches("R.exp(a)", "R.exp(b)", a=1, b=None).replace("return y", "return (y, R.add(b, a))")
    after = branches("R.exp(a)", "R.exp(b)", a=1, b=1).replace("return y", "return (y, R.add(b, a))")
    becomes(before, after)


def test_branches_may_give_tensors_on_different_devices():
    mod = module(branches("R.exp(a)", "R.exp(b)", vec(), a=0, b=1))
    assert RealizeVDevice()(mod) is mod
    half = module(branches("R.exp(a)", "R.exp(b)", vec(), a=0, b=None))
    assert RealizeVDevice()(half) is half


def test_tuples_of_branches():
    text = "(a, R.exp(b))", "(R.exp(a), b)"
    returns = "R.Tuple({}, {})"
    becomes(
        branches(*text, returns.format(vec(), vec(2)), a=1, b=None),
        branches(*text, returns.format(vec(1), vec(2)), a=1, b=2),
    )


def test_a_branch_of_another_kind():
    mod = module(branches("a", "R.shape_of(b)", "R.Object", a=1, b=None))
    assert RealizeVDevice()(mod) is mod


def test_functions_out_of_branches():
    text = """
        @R.function
        def f(a: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return R.exp(a)

        @R.function
        def g(a: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return R.negative(a)

        if c:
            h = f
        else:
            h = g
        y = h(x)
        return y
    """
    result = RealizeVDevice()(
        module(function(text, vec(1), x=None).replace("def main(", 'def main(c: R.Tensor((), "bool"), '))
    )
    assert result.script().count('-> R.Tensor((n,), dtype="float32", vdevice="llvm:1"):') == 2
    assert RealizeVDevice()(result) is result


# ------------------------------------------------------------------------------------------- functions


def test_arguments_are_where_the_parameters_are_and_results_too():
    f = function("return R.exp(a)", vec(1), "f", a=1)
    becomes(
        f + function("y = M.f(x)\nz = R.exp(y)\nreturn z", vec(), x=None),
        f + function("y = M.f(x)\nz = R.exp(y)\nreturn z", vec(1), x=1),
    )


def test_backwards_into_a_function_that_is_called():
    f = function("return R.exp(a)", "{}", "f", private=True, a=None)
    main = function("y = M.f(x)\nreturn y", vec(1), x=None)
    becomes(
        f.format(vec()) + main,
        function("return R.exp(a)", vec(1), "f", private=True, a=1) + function("y = M.f(x)\nreturn y", vec(1), x=1),
    )


def test_forwards_into_a_private_function_if_all_calls_agree():
    text = "p = M.f(x)\nq = M.f(y)\nreturn (p, q)"
    becomes(
        function("return R.exp(a)", vec(), "f", private=True, a=None) + function(text, x=1, y=1),
        function("return R.exp(a)", vec(1), "f", private=True, a=1) + function(text, x=1, y=1),
    )
    for x, y in ((0, 1), (0, None), (None, 1)):
        mod = module(function("return R.exp(a)", vec(), "f", private=True, a=None) + function(text, x=x, y=y))
        assert RealizeVDevice()(mod) is mod


def test_not_into_a_function_that_others_may_call():
    entry = function("return R.exp(a)", vec(), "f", a=None) + function("y = M.f(x)\nreturn y", x=1)
    passed = function("return R.exp(a)", vec(), "f", private=True, a=None) + function(
        "y = M.f(x)\ng = M.f\nreturn (y, g)", x=1
    )
    for text in (entry, passed):
        mod = module(text)
        assert RealizeVDevice()(mod) is mod


def test_recursion():
    f = function(IF.format(yes="M.f(R.exp(a), c)", no="a"), "{}", "f", private=True, a=None)
    f = f.replace('"float32"))', '"float32"), c: R.Tensor((), "bool"))')
    main = function("y = M.f(x, c)\nreturn y", x=1).replace(
        'vdevice="llvm:1"))', 'vdevice="llvm:1"), c: R.Tensor((), "bool"))'
    )
    result = RealizeVDevice()(module(f.format(vec()) + main))
    assert 'vdevice="llvm:1"' in str(result["f"].params[0].struct_info)
    assert 'vdevice="llvm:1"' in str(result["f"].ret_struct_info)
    assert RealizeVDevice()(result) is result


def test_tuples_as_arguments():
    pair = 'R.Tuple(R.Tensor((4,), "float32"{}), R.Tensor((4,), "float32"{}))'
    one = ', vdevice="llvm:1"'
    text = """
        @R.function(private=True)
        def f(t: {0}) -> R.Tensor((4,), "float32"{1}):
            return t[1]

        @R.function
        def main(x: {0}) -> R.Tensor((4,), "float32", vdevice="llvm:1"):
            return M.f(x)
    """
    becomes(text.format(pair.format("", ""), ""), text.format(pair.format("", one), one))


LOCAL = """
    @R.function
    def f(a: {0}) -> {0}:
        b = R.add(a, x)
        return b

    y = f(z)
    return y
"""


def test_local_functions_and_what_they_capture():
    becomes(function(LOCAL.format(vec()), x=1, z=None), function(LOCAL.format(vec(1)), x=1, z=1))


def test_a_local_function_that_calls_itself():
    text = """
        @R.function
        def f(a: {0}, c: R.Tensor((), "bool")) -> {0}:
            if c:
                r = f(a, c)
            else:
                r = R.exp(a)
            return r

        y = f(x, R.const(False, "bool"))
        return y
    """
    becomes(function(text.format(vec()), x=1), function(text.format(vec(1)), x=1))


def test_functions_passed_as_values():
    text = """
        @R.function
        def f(a: {0}) -> {0}:
            return R.exp(a)

        y = M.apply(f, x)
        return y
    """
    apply = """
    @R.function(private=True)
    def apply(f: R.Callable((R.Tensor((4,), "float32"{1}),), R.Tensor((4,), "float32"{1})), x: R.Tensor((4,), "float32"{1})) -> R.Tensor((4,), "float32"{1}):
        y = f(x)
        return y
    """
    four = 'R.Tensor((4,), "float32"{})'
    one = ', vdevice="llvm:1"'

    def whole(place: str) -> str:
        main = function(text.format(four.format(place)), four.format(one), x=None)
        main = main.replace('x: R.Tensor(("n",), "float32")', f"x: {four.format(place)}").replace(
            "    n = T.int64()\n", ""
        )
        return textwrap.dedent(apply.format("", place)) + main

    becomes(whole(""), whole(one))


def test_closures_made_of_global_functions():
    f = function("return R.add(a, b)", "{}", "f", private=True, a=None, b=None)
    main = """
        g = R.make_closure(M.f, (y,))
        r = R.invoke_pure_closure(g, (x,), sinfo_args=({0},))
        return r
    """
    result = RealizeVDevice()(module(f.format(vec()) + function(main.format(vec()), x=None, y=1)))
    assert 'vdevice="llvm:1"' not in str(result["f"].params[1].struct_info)  # it may be called by anybody
    result = RealizeVDevice()(module(f.format(vec(1)) + function(main.format(vec()), x=None, y=None)))
    assert [str(p.struct_info).count("llvm:1") for p in (*result["f"].params, *result["main"].params)] == [1, 1, 1, 1]
    assert RealizeVDevice()(result) is result


def test_closures_of_functions_nothing_is_known_of():
    text = """
        @R.function(pure=False)
        def main(f: R.Object, y: R.Tensor((4,), "float32", "llvm:1")):
            g = R.make_closure(f, (y,))
            r = R.invoke_closure(g, (y,), sinfo_args=(R.Tensor((4,), "float32"),))
            return r
    """
    mod = module(text)
    assert RealizeVDevice()(mod) is mod


# ------------------------------------------------------------------------ calls that say what they give


CALLS = """
@T.prim_func(private=True)
def twice(x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    for i in range(n):
        Y[i] = X[i] * T.float32(2)
"""


def test_call_tir_makes_its_outputs_where_its_inputs_are():
    text = "y = R.call_tir(M.twice, (x,), out_sinfo={})\nreturn y"
    becomes(CALLS + function(text.format(vec()), x=1), CALLS + function(text.format(vec(1)), x=1))
    becomes(CALLS + function(text.format(vec(2)), x=None), CALLS + function(text.format(vec(2)), x=2))


def test_several_outputs():
    text = 'y = R.call_dps_packed("test.f", (x,), out_sinfo=[{}, {}])\nz = y[1]\nreturn z'
    becomes(function(text.format(vec(), vec()), vec(1), x=None), function(text.format(vec(), vec(1)), vec(1), x=None))


def test_call_dps_packed_makes_its_outputs_where_all_its_inputs_are():
    text = 'r = R.call_dps_packed("test.f", (x, y), out_sinfo={})\nreturn r'
    becomes(function(text.format(vec()), x=1, y=1), function(text.format(vec(1)), x=1, y=1))
    for x, y, said in ((0, 1, None), (1, None, None), (0, 0, 1)):
        mod = module(function(text.format(vec(said)), x=x, y=y))
        assert RealizeVDevice()(mod) is mod


def test_packed_functions_are_asked_for_what_is_needed():
    text = 'y = R.call_pure_packed("test.f", x, sinfo_args=({},))\nz = R.add(y, y)\nreturn z'
    becomes(function(text.format(vec()), vec(1), x=0), function(text.format(vec(1)), vec(1), x=0))
    two = 'y = R.call_pure_packed("test.f", x, sinfo_args=({}, {}))\nz = y[1]\nreturn z'
    becomes(function(two.format(vec(), vec()), vec(1), x=0), function(two.format(vec(), vec(1)), vec(1), x=0))


def test_call_inplace_packed_gives_back_its_arguments():
    text = 'y = R.call_inplace_packed("test.f", x, inplace_indices=[0], sinfo_args=({},))\nreturn y'
    becomes(function(text.format(vec()), x=1), function(text.format(vec(1)), x=1))
    two = 'y = R.call_inplace_packed("test.f", x, inplace_indices=[-1, 0], sinfo_args=({}, {}))\nreturn y'
    becomes(function(two.format(vec(), vec()), x=1), function(two.format(vec(), vec(1)), x=1))


def test_operators_that_are_only_a_name():
    register_op("test.realize_vdevice.opaque")
    n = TensorStructInfo((4,), "float32")
    x = expr.Var("x", n)
    call = expr.Call("test.realize_vdevice.opaque", (x,), None, (n,))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call)
        bb.emit_func_output(bb.emit(op.hint_on_device(y, "llvm:1")))
    mod = bb.get().replace(global_infos={"vdevice": [VDevice("llvm", 0), VDevice("llvm", 1)]})
    result = RealizeVDevice()(mod)
    assert 'sinfo_args=(R.Tensor((4,), dtype="float32", vdevice="llvm:1"),)' in result.script()
    assert 'x: R.Tensor((4,), dtype="float32")' in result.script()


# ------------------------------------------------------------------------------------------ match_cast


def test_a_cast_that_names_no_device_leaves_the_value_where_it_is():
    text = 'm = T.int64()\ny = R.match_cast(x, R.Tensor((m,), "float32"{}))\nz = R.exp(y)\nreturn z'
    becomes(function(text.format(""), x=1), function(text.format(', vdevice="llvm:1"'), x=1))


def test_a_cast_of_a_tuple():
    text = "y = R.match_cast((x, x), R.Tuple({0}, {0}))\nz = y[0]\nreturn z"
    becomes(function(text.format(vec()), x=1), function(text.format(vec(1)), x=1))


def test_a_cast_that_names_a_device_is_believed():
    text = f"y = R.match_cast(x, {vec(1)})\nreturn y"
    becomes(function(text, x=None), function(text, x=1))


def test_casts_that_contradict_each_other_are_left_to_the_run_time():
    mod = module(branches(f"R.match_cast(a, {vec(0)})", f"R.match_cast(a, {vec(1)})", a=None))
    assert RealizeVDevice()(mod) is mod


def test_a_cast_of_what_nothing_is_known_of():
    text = 'y = R.match_cast(x, R.Tensor((4,), "float32"{}))\nz = R.exp(y)\nreturn z'
    one = ', vdevice="llvm:1"'
    signature = '@R.function\ndef main(x: R.Object) -> R.Tensor((4,), "float32", vdevice="llvm:1"):\n'
    becomes(signature + textwrap.indent(text.format(""), "    "), signature + textwrap.indent(text.format(one), "    "))


# ------------------------------------------------------------------------------------------- conflicts


def test_two_consumers_on_different_devices():
    assert conflict(function("y = R.add(x, a)\nz = R.add(x, b)\nreturn (y, z)", x=None, a=0, b=1)) == (
        "program.py:8:13: add: what must be on one virtual device is on two\n"
        "parameter a of main is on llvm:0 (program.py:5:46)\n"
        "parameter b of main is on llvm:1 (program.py:5:96)"
    )


def test_a_result_that_is_elsewhere():
    with pytest.raises(DiagnosticError, match=r"E3007.*vdevice: expected llvm:1, found llvm:0"):
        module(function("y = R.exp(x)\nreturn y", vec(1), x=0))
    text = conflict(function("y = R.exp(x)\nz = R.add(y, w)\nreturn y", vec(1), x=None, w=0))
    assert "what must be on one virtual device is on two" in text
    assert "is on llvm:1" in text
    assert "is on llvm:0" in text


def test_a_branch_that_is_elsewhere():
    text = conflict(branches("R.exp(a)", "R.exp(b)", a=0, b=1).replace("return y", "z = R.add(y, a)\n    return z"))
    assert "the if that gives y: what must be on one virtual device is on two" in text
    assert "parameter b of main is on llvm:1" in text


def test_an_argument_that_is_elsewhere():
    f = function("y = R.add(a, b)\nreturn y", "", "f", a=None, b=0)
    text = conflict(f + function("y = M.f(x, b)\nreturn y", x=1, b=0))
    assert "argument 0 of f: what must be on one virtual device is on two" in text
    assert "parameter x of main is on llvm:1" in text
    assert "parameter b of f is on llvm:0" in text


def test_every_conflict_is_told():
    f = function("y = R.add(x, a)\nz = R.add(x, b)\nreturn (y, z)", "", "f", x=None, a=0, b=1)
    error = refused(f + f.replace("def f", "def g"))
    assert [(d.code, d.label) for d in error.diagnostics] == [("E3106", "in f"), ("E3106", "in g")]
    assert "error[E3106]: add: what must be on one virtual device is on two" in str(error)


def test_operands_of_one_call():
    with pytest.raises(DiagnosticError, match="E3106.*the operands are on different devices"):
        module(function("y = R.add(x, w)\nreturn y", x=0, w=1))
    with pytest.raises(DiagnosticError, match="E3106.*the operands are on llvm:0, the result on llvm:1"):
        module(CALLS + function(f"y = R.call_tir(M.twice, (x,), out_sinfo={vec(1)})\nreturn y", x=0))


def test_a_device_that_is_not_listed():
    stray = TensorStructInfo((4,), "float32", VDevice("llvm", 7))
    x = expr.Var("x", stray)
    bad = IRModule(
        {"main": expr.Function([x], x, stray, attrs={"global_symbol": "main"})},
        global_infos={"vdevice": [VDevice("llvm", 0), VDevice("cuda", 3)]},
    )
    with pytest.raises(DiagnosticError) as failure:
        RealizeVDevice()(bad)
    (diagnostic,) = failure.value.diagnostics
    assert diagnostic.code == "E3107"
    assert diagnostic.message == "parameter x of main: the module does not list the virtual device llvm:7"
    assert diagnostic.notes == ("it lists llvm:0, cuda:0",)


# --------------------------------------------------------------------------------------- UpdateVDevice


def test_update_vdevice():
    text = function(
        'y = R.to_vdevice(x, "llvm:1")\nz = R.hint_on_device(y, "llvm:2")\nw = R.exp(y)\nreturn (w, z)', x=0
    )
    new = LIST.replace('("llvm", 1)', '("llvm", 5)')
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        result = UpdateVDevice(VDevice("llvm", 5), 1)(module(text))
    assert_structural_equal(result, module(text, new))
    assert UpdateVDevice(VDevice("llvm", 5), 1)(result) is result


def test_update_vdevice_that_is_not_there():
    with pytest.raises(IndexError, match="the module lists 3 virtual devices, there is no number 3"):
        UpdateVDevice(VDevice("llvm", 5), 3)(module(function("return x", x=0)))


@pytest.mark.parametrize(
    "params", ['s: R.Shape, t: R.Tensor(s, "int8", ndim=1)', 't: R.Tensor(s, "int8", ndim=1), s: R.Shape']
)
def test_a_parameter_that_holds_the_shape_of_another(params):
    mod = from_source(
        f"""
        @I.ir_module
        class Module:
            I.module_global_infos({{"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]}})

            @R.function
            def main(x: R.Tensor(("n",), "int8")) -> R.Tensor(ndim=1, dtype="int8"):
                s = R.shape_of(x)
                y = Module.f({"s, x" if params[0] == "s" else "x, s"})
                return R.hint_on_device(y, "llvm:1")

            @R.function(private=True)
            def f({params}):
                return R.abs(t)
        """
    )
    after = RealizeVDevice()(mod)
    assert_well_formed(after)
    x = relax.nd.array(np.array([-1, 2], "int8"), relax.cpu(1))
    machine = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), [relax.cpu(0), relax.cpu(1)])
    for result in (relax.interpret(after, "main", x), machine["main"](x)):
        assert result.numpy().tolist() == [1, 2]
