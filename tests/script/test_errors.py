"""Programs that do not parse: the code, the place and the words of every complaint."""

from __future__ import annotations

import pytest
from script_helpers import error, errors, parse

from relax.ir import DiagnosticError

HEAD = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
"""


def body(text):
    """The only error of a function with this body, lines counted from the body's first."""
    code, line, column, message = error(HEAD + "\n".join("    " + line for line in text.splitlines()) + "\n")
    return code, line - 2, column, message


@pytest.mark.parametrize(
    "text, expected",
    [
        ("return y", ("E1002", 1, 12, "`y` is not defined")),
        ("y = R.exp(x, )\nreturn R.exp(z)", ("E1002", 2, 18, "`z` is not defined")),
        ("return R.expp(x)", ("E1003", 1, 12, "`R` has no member `expp`")),
        ("return R.nn.rel(x)", ("E1003", 1, 12, "`R.nn` has no member `rel`")),
        ("return x.foo", ("E1006", 1, 12, "text given to from_source may not use the attribute `foo` of a value of type Var")),
        ("return R.reshape(x)", ("E1004", 1, 12, "R.reshape(x, shape): missing a required argument: 'shape'")),
        ("return R.exp(x, axes=1)", ("E1004", 1, 12, "R.exp(x): got an unexpected keyword argument 'axes'")),
        ("return 3(x)", ("E1005", 1, 12, "3 is a int, which cannot be called")),
        ("x[0] = x\nreturn x", ("E1001", 1, 5, "only names can be assigned: values are immutable")),
        ("del x\nreturn x", ("E1001", 1, 5, "del cannot be used here")),
        ("while c:\n    pass\nreturn x", ("E1001", 1, 5, "while cannot be used here")),
        ("import os\nreturn x", ("E1001", 1, 5, "import cannot be used here")),
        ("class A:\n    pass\nreturn x", ("E1001", 1, 5, "a class cannot be used here")),
        ("return (yield x)", ("E1001", 1, 13, "yield cannot be used in a script")),
        ("return {x}", ("E1001", 1, 12, "a set cannot be used in a script")),
        ("return x if c else x", ("E1001", 1, 12, "a Relax condition needs an if statement")),
        ("5\nreturn x", ("E1005", 1, 5, "this statement has no effect")),
        ("x: R.Tensor\nreturn x", ("E1001", 1, 5, "a variable is given a value where it is declared")),
        ("y = R.func_attr({})\nreturn x", ("E1005", 1, 5, "this has no value to assign")),
        ("a, b, d = (x, x)\nreturn x", ("E1005", 1, 5, "3 names for a tuple of 2 values")),
        ("for i in 5:\n    pass\nreturn x", ("E1005", 1, 14, "a int cannot be iterated over")),
        ("with c:\n    pass\nreturn x", ("E1001", 1, 5, "the only `with` in a Relax function is `with R.dataflow():`")),
        ("with R.dataflow() as d:\n    pass\nreturn x", ("E1001", 1, 26, "a dataflow block has no name")),
        ("with R.dataflow():\n    with R.dataflow():\n        pass\nreturn x", ("E1010", 2, 9, "a dataflow block cannot stand inside another")),
        ("with R.dataflow():\n    return x", ("E1010", 2, 9, "a dataflow block cannot return")),
        ("with R.dataflow():\n    if c:\n        y = x\n    else:\n        y = x\nreturn x", ("E1010", 2, 9, "a dataflow block has no control flow")),
        ("R.output(x)\nreturn x", ("E1010", 1, 5, "R.output belongs inside a dataflow block")),
        ("with R.dataflow():\n    y = R.exp(x)\n    R.output(x)\nreturn x", ("E1010", 3, 9, "R.output: `x` is not a variable bound in this dataflow block")),
        ("with R.dataflow():\n    y = R.exp(x)\n    R.output(y)\n    R.output(y)\nreturn y", ("E1010", 4, 9, "a dataflow block lists its outputs once")),
        ("with R.dataflow():\n    y = R.exp(x)\n    R.output(y)\n    z = R.exp(y)\nreturn y", ("E1010", 4, 9, "R.output is the last statement of a dataflow block")),
        ("with R.dataflow():\n    y = R.exp(x)\n    z = R.exp(y)\n    R.output(z)\nreturn y", ("E1002", 5, 12, "`y` is not defined")),
        ("if c:\n    y = x\nelse:\n    z = x\nreturn x", ("E1001", 1, 5, "the branches end by assigning different names: y and z")),
        ("if c:\n    y = x\nelse:\n    R.exp(x)\nreturn y", ("E1002", 5, 12, "`y` is not defined")),
        ("if c:\n    return x\nelse:\n    y = x", ("E1010", 1, 5, "one branch of this `if` returns, the other does not")),
        ("return x\nreturn x", ("E1010", 2, 5, "this is never reached: it comes after a return")),
        ("y = x", ("E1010", 0, 1, "function `main` does not return a value")),
        ("y: R.Tensor((k,)) = x\nreturn y", ("E1002", 1, 18, "`k` is not defined")),
        ("y: 5 = x\nreturn y", ("E1009", 1, 8, "an annotation is struct info such as R.Tensor(...), found int")),
        ('y: R.Tensor(("n",), "float33") = x\nreturn y', ("E1005", 1, 8, "unknown dtype 'float33'")),
        ('y: R.Tensor(("n +",)) = x\nreturn y', ("E1001", 1, 8, "in 'n +': invalid syntax")),
        ('y: R.Tensor(("n", 1.5)) = x\nreturn y', ("E1005", 1, 8, "a dimension must be an integer expression, found dtype float32")),
        ("n = T.int64()\nm = n / 2\nreturn x", ("E1005", 2, 9, "integers divide in several ways; write a // b (floor) or T.truncdiv(a, b)")),
        ("n = T.int32()\nreturn x", ("E1005", 1, 5, "`n` is a shape variable of dtype int64 already")),
        ("@T.prim_func\ndef f(a: T.handle):\n    pass\nreturn x", ("E1010", 2, 5, "only R.function may stand inside a Relax function")),
        ("def f(a: R.Object):\n    return a\nreturn x", ("E1008", 1, 5, "function `f` has no decorator")),
        ("return R.match_shape(x)", ("E1004", 1, 12, "match_shape takes a value and the dimensions to match it with")),
        ("y = 1 / 0\nreturn x", ("E1005", 1, 9, "division by zero")),
        ("return R.exp(R.match_cast(x, R.Tensor((2, 4))))", ("E1010", 1, 18, "a match_cast is a binding: it cannot stand inside an expression")),
        ("return R.sum(x=R.match_cast(x, R.Tensor((2, 4))))", ("E1010", 1, 20, "a match_cast is a binding: it cannot stand inside an expression")),
        ("y = (R.match_cast(x, R.Tensor((2, 4))), x)\nreturn y", ("E1010", 1, 10, "a match_cast is a binding: it cannot stand inside an expression")),
        ("y = R.match_cast(x, R.Tensor((2, 4))) + x\nreturn y", ("E1010", 1, 9, "a match_cast is a binding: it cannot stand inside an expression")),
        ("return R.add(x, sinfo)", ("E1002", 1, 21, "`sinfo` is not defined")),
    ],
)  # fmt: skip
def test_statements(text, expected):
    assert body(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("@R.function\ndef f(x):\n    return x", ("E1009", 2, 7, "parameter `x` has no annotation")),
        ("@R.function\ndef f(x: 3):\n    return x", ("E1009", 2, 10, "an annotation is struct info such as R.Tensor(...), found int")),
        ("@R.function\ndef f(*x: R.Object):\n    return x", ("E1008", 2, 8, "a Relax function has plain parameters only")),
        ("@R.function\ndef f(x: R.Object = 3):\n    return x", ("E1008", 2, 21, "a parameter of a Relax function has no default value")),
        ("@R.function(puer=True)\ndef f(x: R.Object):\n    return x", ("E1008", 1, 2, "R.function has no option `puer`")),
        ("def f(x: R.Object):\n    return x", ("E1008", 1, 1, "function `f` has no decorator")),
        ("@R.function\ndef f(x: R.Object, x: R.Object):\n    return x", ("E1001", 2, 20, "two parameters are called `x`")),
        ("@T.prim_func\ndef f(a: T.handle, b: T.handle, a: T.int64):\n    pass", ("E1001", 2, 33, "two parameters are called `a`")),
        ('@R.function\ndef f(x: R.Tensor(ndim="two")):\n    return x', ("E1005", 2, 10, "ndim is the number of dimensions, found str")),
        ("@R.function\ndef f(x: R.Shape(ndim=True)):\n    return x", ("E1005", 2, 10, "ndim is the number of dimensions, found bool")),
        ("@len\ndef f(x: R.Object):\n    return x", ("E1005", 1, 2, "this decorator is none of the script's")),
        ("class M:\n    pass", ("E1008", 1, 1, "class `M` needs the decorator @I.ir_module")),
        ("@R.function\nclass M:\n    pass", ("E1008", 1, 2, "a class in a script is decorated with @I.ir_module")),
        ("@I.ir_module\nclass M(object):\n    pass", ("E1008", 2, 9, "a module has no base class")),
        ("@I.ir_module\nclass M:\n    for i in range(3):\n        pass", ("E1001", 3, 5, "for cannot be used here")),
        ("@R.function\ndef f(x: R.Object) -> R.Tensor((q,)):\n    return x", ("E1002", 2, 33, "`q` is not defined")),
        ("3", ("E1001", 1, 1, "a script defines functions and modules; this statement does nothing")),
        ("def f(:\n    pass", ("E1001", 1, 7, "invalid syntax")),
        ("@R.function\ndef f(x: R.Object):\n  return (x", ("E1001", 3, 10, "'(' was never closed")),
    ],
)  # fmt: skip
def test_definitions(text, expected):
    assert error(text) == expected


def test_nothing_defined():
    with pytest.raises(DiagnosticError, match="defines no function and no module"):
        parse("x = 1")


def test_every_error_is_reported_and_none_twice():
    found = errors("""
        @I.ir_module
        class Mod:
            @R.function
            def f(x: R.Tensor((2,), "float32")):
                a = R.foo(x)
                b = R.exp(a)
                c = unknown
                d = R.add(b, c)
                return d

            @R.function
            def g(x: R.Tensor((2,), "float33")):
                y = cls.h(x)
                return missing
        """)
    assert [(d.code, d.span.line, d.message) for d in found] == [
        ("E1003", 6, "`R` has no member `foo`"),
        ("E1002", 8, "`unknown` is not defined"),
        ("E1005", 13, "unknown dtype 'float33'"),
        ("E1003", 14, "the module has no function `h`"),
        ("E1002", 15, "`missing` is not defined"),
    ]


def test_the_error_is_shown_in_the_source():
    (found,) = errors("""
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.matmull(x, x)
            return y
        """)
    assert found.render() == "\n".join([
        "error[E1003]: `R` has no member `matmull`",
        "  --> <string>:4:9",
        "  |",
        "4 |     y = R.matmull(x, x)",
        "  |         ^^^^^^^^^",
        "  = help: did you mean `matmul`?",
    ])  # fmt: skip


def test_hints():
    assert errors(HEAD + "    k = R.Tensor((k,))\n    return x")[0].hint == "declare the shape variable: k = T.int64()"
    assert errors(HEAD + "    return X")[0].hint == "did you mean `x`?"
    found = errors(HEAD + "    with R.dataflow():\n        y = R.exp(x)\n        R.output()\n    return y")
    assert found[0].hint == "it is local to its dataflow block; list it in R.output(..., y)"


@pytest.mark.parametrize(
    "text, note",
    [
        ("with R.dataflow():\n    y = R.exp(x)\n    R.output()\nreturn y", "rule 1: a variable of a dataflow block is not used outside of it"),
        ("return y", "rule 2: a variable is a parameter, or is bound once"),
        ("y = R.exp(z)\nz = R.exp(x)\nreturn y", "rule 3: a variable is used only after its binding, and where that is in scope"),
        ("y: R.Tensor((k,)) = x\nreturn y", "rule 5: a shape variable is bound, by a parameter or a match_cast, before it is used"),
        ("with R.dataflow():\n    if c:\n        y = x\n    else:\n        y = x\nreturn x", "rule 7: there is no If inside a dataflow block"),
    ],
)  # fmt: skip
def test_the_rule_of_the_language_is_named(text, note):
    found = errors(HEAD + "\n".join("    " + line for line in text.splitlines()))
    assert found[0].notes == (note,)


def test_rules_that_other_complaints_name():
    found = errors("@R.function\ndef f(x: R.Tensor((2,))) -> R.Tensor((q,)):\n    return x")
    assert found[0].notes[0].startswith("rule 4:")
    (found,) = errors('@R.function\ndef f(x: R.Tensor(("n",), ndim=2)):\n    return x')
    assert found.message.startswith("rule 10:")
    (found,) = errors("@R.function\ndef f(x: R.Object):\n    return matmul(x, x)")
    assert (found.code, found.notes) == ("E1002", ())


def test_columns_count_characters_not_bytes():
    code, line, column, _ = error('@R.function\ndef f(x: R.Object):\n    return ("→ü", unknown)')
    assert (code, line, column) == ("E1002", 3, 19)


def test_an_operators_complaint_is_placed_at_its_call():
    found = errors(HEAD + "    y = R.exp(x)\n    z = R.matmul(y, R.zeros((5, 6), 'float32'))\n    return z")
    assert len(found) == 1
    assert (found[0].span.line, found[0].span.column) == (5, 9)
    assert found[0].code.startswith("E3")


def test_several_match_casts_in_one_assignment():
    parse(HEAD + "    y, z = R.match_cast(x, R.Tensor((2, 4))), R.match_cast(x, R.Tensor((2, 4)))\n    return (y, z)")


def test_an_error_of_a_tuple_is_placed_at_the_tuple():
    (found,) = errors(HEAD + "    y = (x, R.Op('relax.exp'))\n    return y")
    assert (found.code, found.span.line, found.span.column) == ("E2009", 4, 9)


def test_an_error_of_the_result_is_placed_at_the_return():
    text = (
        '@R.function\ndef f(x: R.Tensor((2,), "float32")) -> R.Tensor((3,), "float32"):\n    y = R.exp(x)\n    return y'
    )
    (found,) = errors(text)
    assert (found.code, found.span.line, found.span.column) == ("E3007", 4, 5)


def test_what_to_write_instead():
    found = errors(HEAD + "    while c:\n        pass\n    return x")
    assert found[0].hint == "a loop whose length is not known is a recursive function, or stands in a T.prim_func"


def test_two_functions_of_one_name():
    code, line, column, message = error("""
@I.ir_module
class M:
    @R.function
    def f(x: R.Object):
        return x

    @R.function
    def f(x: R.Object):
        return x
""")
    assert (code, line, column, message) == ("E1008", 8, 5, "the module already has a function `f`")


def test_deep_nesting_is_an_error_not_a_crash():
    found = errors("@R.function\ndef f(x: R.Object):\n    return " + "(" * 5000 + "x" + ")" * 5000)
    assert found[0].code == "E1001"


def test_null_bytes():
    assert errors("@R.function\ndef f():\x00 pass")[0].code == "E1001"


@pytest.mark.parametrize("index", ['"q"', "None", "x", "T.float32(1)", "[0]", "1.5"])
def test_the_index_of_a_field_is_an_integer(index):
    code, line, column, message = body(f"y = R.TupleGetItem((x, x), {index})\nreturn y")
    assert (code, line, column) == ("E2100", 1, 9)
    assert message.startswith("broken node: TupleGetItem: index is ")
