"""Decorated functions and classes: they see the Python variables around them."""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest

import relax
from relax.expr import Function
from relax.ir import DiagnosticError, GlobalVar, IRModule, assert_structural_equal
from relax.prim import expr as prim
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.tir import PrimFunc

SIZE = 8


def test_a_function_that_stands_alone():
    @R.function
    def main(x: R.Tensor((SIZE,), "float32")) -> R.Tensor((SIZE,), "float32"):
        return R.exp(x)

    assert isinstance(main, Function)
    assert main.attrs["global_symbol"] == "main"
    assert int(main.params[0].struct_info.shape.values[0]) == SIZE


def test_options():
    @R.function(private=True, pure=False)
    def main(x: R.Tensor((2,), "float32")):
        R.print(x)
        return x

    assert not main.is_pure
    assert "global_symbol" not in main.attrs

    @T.prim_func(private=True)
    def kernel(a: T.Buffer((4,), "float32")):
        for i in range(4):
            a[i] = T.float32(0)

    assert isinstance(kernel, PrimFunc)
    assert "global_symbol" not in kernel.attrs


def make(size, dtype, depth):
    weights = [relax.const(np.full(size, i, dtype)) for i in range(depth)]

    @I.ir_module
    class Net:
        @R.function
        def main(x: R.Tensor((size,), dtype)):
            with R.dataflow():
                for w in weights:
                    x = R.add(x, w)
                R.output(x)
            return x

    return Net


@pytest.mark.parametrize("size, dtype, depth", [(1, "int32", 1), (3, "float32", 4)])
def test_programs_are_generated(size, dtype, depth):
    mod = make(size, dtype, depth)
    assert isinstance(mod, IRModule)
    (block,) = mod["main"].body.blocks
    assert len(block.bindings) == depth
    assert_structural_equal(from_source(mod.script(show_meta=True)), mod)


def test_functions_around_the_module_join_it():
    @T.prim_func(private=True)
    def double(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            b[i] = a[i] * T.float32(2)

    @R.function
    def helper(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.exp(x)

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.call_tir(double, (x,), R.Tensor((4,), "float32"))
            z = helper(y)
            return R.call_tir(double, (z,), R.Tensor((4,), "float32"))

    assert {g.name_hint for g in Mod.functions} == {"main", "double", "helper"}
    (block,) = Mod["main"].body.blocks
    assert isinstance(block.bindings[0].value.args[0], GlobalVar)


def test_enclosing_functions_are_seen_although_annotations_make_no_closure():
    outer_size = 3

    def inner():
        inner_size = 4

        @R.function
        def main(x: R.Tensor((outer_size, inner_size), "float32")):
            return x

        return main

    assert [int(v) for v in inner().params[0].struct_info.shape.values] == [3, 4]


def test_two_classes_of_one_name_in_one_function():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            return R.exp(x)

    first = Before

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.exp(x)

    assert int(first["main"].params[0].struct_info.shape.values[0]) == 1
    assert int(Before["main"].params[0].struct_info.shape.values[0]) == 2


class TestInsideAnOrdinaryClass:
    @R.function
    def function(x: R.Tensor((2,), "float32")):
        return x

    def test_it_is_parsed(self):
        assert isinstance(self.function, Function)

    def test_a_module_in_a_method(self):
        size = 5

        @I.ir_module(check_well_formed=False)
        class Mod:
            @R.function
            def main(x: R.Tensor((size,), "float32")):
                return x

        assert isinstance(Mod, IRModule)

    @relax.script.ir_module
    class Nested:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    def test_a_module_in_a_class(self):
        assert isinstance(self.Nested, IRModule)


def test_shape_variables_from_python():
    n = relax.tir.Var("n", "int64")

    @R.function
    def main(x: R.Tensor((n, 4), "float32")) -> R.Tensor((n * 4,), "float32"):
        return R.reshape(x, (n * 4,))

    assert main.params[0].struct_info.shape.values[0] is n
    assert_structural_equal(from_source(main.script(show_meta=True)), main)


def test_errors_name_the_file_the_line_and_the_column():
    with pytest.raises(DiagnosticError) as caught:

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.expp(x)
            return y

    (found,) = caught.value.diagnostics
    assert found.span.source.name == __file__
    line = found.span.source.line(found.span.line)
    assert line.strip() == "y = R.expp(x)"
    assert line[found.span.column - 1 :].startswith("R.expp")


def test_the_error_of_a_python_function_called_while_parsing():
    def helper(x):
        raise ZeroDivisionError("no luck")

    with pytest.raises(DiagnosticError, match="helper: no luck") as caught:

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return helper(x)

    (note,) = caught.value.diagnostics[0].notes
    assert note.startswith(f"raised at {__file__}:")


def test_text_that_linecache_knows_but_no_file_holds():
    """Notebook cells and the blocks of a document are such."""
    text = (
        "@R.function\n"
        "def first(x: R.Tensor((2,), 'float32')):\n"
        "    return x\n"
        "\n"
        "@I.ir_module\n"
        "class Second:\n"
        "    @R.function\n"
        "    def main(x: R.Tensor((3,), 'float32')):\n"
        "        return unknown\n"
    )
    name = "<cell 1>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"R": R, "I": I}
    with pytest.raises(DiagnosticError) as caught:
        exec(compile(text, name, "exec"), space)
    assert isinstance(space["first"], Function)
    assert (caught.value.diagnostics[0].span.line, caught.value.diagnostics[0].span.column) == (9, 16)
    del linecache.cache[name]


def test_no_source():
    with pytest.raises(DiagnosticError, match="the source of function `f` cannot be found"):
        exec("@R.function\ndef f(x: R.Object):\n    return x\n", {"R": R})
    with pytest.raises(DiagnosticError, match="the source of class `M` cannot be found"):
        exec("@I.ir_module\nclass M:\n    pass\n", {"I": I})


def test_wrong_objects():
    with pytest.raises(DiagnosticError, match="R.function decorates functions, found a value of type int"):
        R.function(3)
    with pytest.raises(DiagnosticError, match="ir_module decorates classes, found a value of type int"):
        I.ir_module(3)
    with pytest.raises(DiagnosticError, match="R.function has no option `privat`"):
        R.function(privat=True)


@pytest.mark.parametrize(
    "program, message, place",
    [
        ("@R.function(puer=3)\ndef f(x: R.Object):\n    return x", "R.function has no option `puer`", (1, 2, 20)),
        ("@I.ir_module\nclass M:\n  @R.function(puer=3)\n  def f(x: R.Object):\n    return x", "R.function has no option `puer`", (3, 4, 22)),
        ("@R.function\nclass A: ...", "R.function decorates functions, found a class", (1, 2, 12)),
        ("@I.ir_module\ndef f(): ...", "ir_module decorates classes, found a function", (1, 2, 13)),
        ('@R.function\ndef f(x: R.Tensor((2,), "int24")):\n    return x', "unknown dtype 'int24'", (2, 10, 33)),
        ('@R.function\ndef f(x: R.Tensor(("n +",))):\n    return x', "in 'n +': invalid syntax", (2, 10, 28)),
        ('@R.function\ndef f(x: R.Object, ü: R.Tensor(1.5)):\n    return ü', "expected a tuple or list of dimensions, found float", (2, 23, 36)),
        ("@R.function\ndef f(x: R.Tuple(R.Tensor, 3)):\n    return x", "expected struct info such as R.Tensor(...), found int", (2, 10, 30)),
        ("@R.function\ndef f(x: R.Tensor(shap=3)):\n    return x", "R.Tensor(shape, dtype, vdevice, ndim): got an unexpected keyword argument 'shap'", (2, 10, 26)),
        ("@R.function\nasync def f(x: R.Object):\n    return x", "a program is a plain `def`, found an async function", (1, 1, 12)),
        ("f = R.function(lambda x: x)", "a program is a plain `def`, found a lambda", (1, 1, 28)),
    ],
)  # fmt: skip
def test_what_python_evaluates_is_diagnosed_at_its_place(tmp_path, program, message, place):
    # Python calls decorators, and evaluates annotations, before any parser reads them.
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    with pytest.raises(DiagnosticError) as caught:
        exec(compile(program, str(file), "exec", dont_inherit=True), {"R": R, "I": I})
    (found,) = caught.value.diagnostics
    assert found.message == message
    line, column, end = place
    if sys.version_info < (3, 11):  # then only the line is known: a decorator's, or that of what it decorates
        assert found.span.line in (line, line + 1)
    else:
        assert (found.span.line, found.span.column, found.span.end_column) == (line, column, end)


def test_decorating_later():
    def plain(x: R.Tensor((2,), "float32")):
        return R.exp(x)

    assert isinstance(R.function(plain), Function)


def test_namespaces_outside_of_a_function():
    with pytest.raises(DiagnosticError, match=r"R.output belongs inside an R.function"):
        R.output()
    with pytest.raises(AttributeError):
        _ = R.no_such_operator
    assert "exp" in dir(R)
    assert R.nn.relu(relax.Var("x", R.Tensor((2,), "float32"))).op.name == "relax.nn.relu"


def layer(use_bias, activation):
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            if use_bias:
                y = R.add(y, b)
            if activation == "relu":
                y = R.nn.relu(y)
            elif activation == "softmax":
                y = R.nn.softmax(y, axis=-1)
            R.output(y)
        if activation is None:
            return y
        return R.exp(y)

    return main


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("activation, count", [(None, 0), ("relu", 2), ("softmax", 2), ("other", 1)])
def test_an_if_over_python_values_is_decided_while_parsing(use_bias, activation, count):
    func = layer(use_bias, activation)
    assert sum(len(block.bindings) for block in func.body.blocks) == 1 + use_bias + count
    assert_structural_equal(from_source(func.script(show_meta=True)), func)


# ------------------------------------------------------------------------- functions in the text of dimensions


def scalar_calls():
    """A text for each scalar function that can make a dimension of the variable n."""
    forms = ("T.{}(n, 4)", "T.{}(n, T.int64(4))", "T.{}(n)", "T.{}(n > 4, n, 4)", "T.{}(n > 4, n, T.int64(4))",
             'T.{}("int64", n)', 'T.{}("int64", n + 1) * 2')  # fmt: skip
    n = prim.Var("n", "int64")
    for name in dir(T):
        for form in forms:
            try:
                made = eval(form.format(name), {"T": T, "n": n})
            except (TypeError, ValueError, AttributeError, AssertionError, DiagnosticError):
                continue
            if not isinstance(made, prim.PrimExpr) or made.dtype != "int64" or isinstance(made, prim.IntImm):
                continue
            if name not in NO_DIMENSION:
                yield form.format(name)


NO_DIMENSION = {
    "call_extern",
    "call_pure_extern",
    "call_packed",
    "call_intrin",
    "evaluate",
    "ceildiv",
    "min_value",
    "max_value",
}


def test_scalar_functions_are_found():
    found = {call.split("(")[0] for call in scalar_calls()}
    assert {"T.max", "T.min", "T.floordiv", "T.if_then_else", "T.Select", "T.Cast", "T.abs"} <= found


@pytest.mark.parametrize("call", list(scalar_calls()))
def test_a_function_in_the_text_of_a_dimension(call):
    """Python evaluates an annotation before the parser reads it; both find the function, and the same dimension."""
    info = R.Tensor(("n", call), "float32")
    shape = info.shape.values
    expected = eval(call, {"T": T, "n": shape[0]})
    assert_structural_equal(shape[1], prim.dimension(expected))

    @R.function
    def func(x: R.Tensor(("n", call), "float32"), s: R.Shape(["n", call])):
        return s

    parsed = func.params[0].struct_info.shape.values
    assert_structural_equal(parsed[1], prim.dimension(eval(call, {"T": T, "n": parsed[0]})))
    assert_structural_equal(from_source(func.script(show_meta=True)), func)


def test_a_function_in_the_text_of_a_dimension_by_another_name():
    from relax.script import tir as loops

    largest = loops.max

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "loops.max(n, 4)", "largest(n, 5)"), "float32")) -> R.Object:
            return x

    assert 'R.Tensor(("n", "T.max(n, 4)", "T.max(n, 5)"), dtype="float32")' in Module.script()


@pytest.mark.parametrize(
    "text, code, message",
    [
        ("pytest.exit('x')", "E1006", "may not use the attribute `exit`"),
        ("scalar_calls()", "E1006", "may call functions of the script such as T.max, not `scalar_calls`"),
        ("from_source(n)", "E1006", "may call functions of the script such as T.max, not `from_source`"),
        ("eval('1')", "E1002", "`eval` is not defined"),
        ("T.max.__globals__", "E1006", "may not use the attribute `__globals__`"),
        ("T.maximal(n, 4)", "E1003", "`T` has no member `maximal`"),
        ("T.max(n)", "E1004", "missing 1 required positional argument"),
        ("unknown.max(n, 4)", "E1006", "may not use the attribute `max`"),
    ],
)
def test_what_the_text_of_a_dimension_may_not_call(text, code, message):
    with pytest.raises(DiagnosticError) as caught:
        R.Tensor(("n", text), "float32")
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert message in found.message
