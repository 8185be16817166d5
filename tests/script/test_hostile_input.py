"""Whatever is written, the answer is a program or a diagnostic with its place; never an exception of ours."""

from __future__ import annotations

import random
import textwrap

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.ir import DiagnosticError, save_json
from relax.script import from_source
from relax.script import relax as R
from relax.script import tir as T

RELAX = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), s: R.Shape(["n", 4])):
"""
TIR = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), n: T.int64, p: T.handle):
"""


def complaints(text):
    """What is wrong with a text, each with its place; an empty list if nothing is."""
    try:
        from_source(text)
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            assert diagnostic.span is not None, diagnostic.render()
            assert 1 <= diagnostic.span.line <= len(text.splitlines()) + 1
        return list(error.diagnostics)
    return []


def inside(head, body):
    return head + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"


# ------------------------------------------------------------------------- statements there are not

STATEMENTS = {
    "while": "while c:\n    y = x",
    "try": "try:\n    y = x\nexcept ValueError:\n    y = x",
    "with": "with open('f') as f:\n    y = x",
    "async with": "async with c:\n    pass",
    "async for": "async for i in c:\n    pass",
    "await": "y = await c",
    "lambda": "y = lambda a: a",
    "comprehension": "y = [i for i in c]",
    "set comprehension": "y = {i for i in (1, 2)}",
    "dict": "y = {'a': x}",
    "generator": "y = (i for i in c)",
    "global": "global x",
    "nonlocal": "nonlocal x",
    "del": "del x",
    "yield": "yield x",
    "yield from": "yield from x",
    "raise": "raise ValueError",
    "assert": "assert c",
    "import": "import os",
    "from import": "from os import path",
    "class": "class A:\n    pass",
    "async def": "async def f():\n    pass",
    "match": "match c:\n    case 1:\n        y = x",
    "walrus": "y = R.exp(z := x)",
    "starred assignment": "*y, z = (x, x, x)",
    "starred argument": "y = R.exp(*c)",
    "double starred": "y = R.exp(**c)",
    "f-string": "y = f'{x}'",
    "f-string with a format": "y = f'{3:>10}'",
    "decorated": "@len\ndef f(a: R.Object):\n    return a",
    "two decorators": "@R.function\n@R.function\ndef f(a: R.Object):\n    return a",
    "undecorated": "def f(a):\n    return a",
    "break": "for i in (1, 2):\n    break",
    "continue": "for i in (1, 2):\n    continue",
    "for else": "for i in (1, 2):\n    y = x\nelse:\n    y = c",
    "slice": "y = x[0:1]",
    "ellipsis": "y = x[...]",
    "attribute assignment": "x.y = c",
    "element assignment": "x[0] = c",
    "chained comparison": "y = 1 < x < 2",
    "bytes": "y = b'x'",
    "complex": "y = 1j",
    "huge int": f"y = x + {10**30}",
    "int too long to convert": "y = 1" + "0" * 5000,
    "negative dimension": "y = R.reshape(x, (-5, 4))",
    "string times int": "y = 'a' * 10 ** 9",
    "power": "y = 10 ** 10 ** 10",
    "shift": "y = 1 << 10 ** 10",
    "division by zero": "y = 1 // 0",
    "tower of tuples": "\n".join(["a = (1, 1)"] + ["a = (a, a)"] * 40 + ["y = a"]),
    "recursive lambda": "f = lambda g: g(g)\ny = f(f)",
    "dunder": "y = x.__class__.__subclasses__()",
    "format": "y = '{0.__class__}'.format(x)",
    "self reference": "y = y",
    "shadowed namespace": "R = x\ny = R.exp(x)",
    "null byte in a string": "y = R.str('\\x00')",
    "surrogate": "y = R.str('\\ud800')",
    "annotation without a value": "y: R.Tensor",
    "annotation by a call": "y: print(1) = x",
    "output without a block": "R.output(x)",
    "nothing": "pass",
    "type alias": "type y = int",
    "except star": "try:\n    pass\nexcept* ValueError:\n    pass",
}


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("head", [RELAX, TIR], ids=["relax", "tir"])
def test_statements_one_by_one(head, name):
    complaints(inside(head, STATEMENTS[name]))
    last = "return x" if head == RELAX else "A[0, 0] = T.float32(1)"
    complaints(inside(head, STATEMENTS[name] + "\n" + last))
    complaints(inside(head, f"if c:\n{textwrap.indent(STATEMENTS[name], '    ')}\n{last}"))
    complaints(f"@I.ir_module\nclass M:\n{textwrap.indent(STATEMENTS[name], '    ')}\n")
    complaints(STATEMENTS[name] + "\n")


# ------------------------------------------------------------------------- wrong types everywhere

VALUES = """
    None True 3 -1 1.5 10**30 -10**30 'a' '' 'n' 'float32' x c s (x,x) () [] {} [x] {'a':x} R.exp R.Tensor
    R.Tensor((2,)) T.int64() T.float32(1) R T I R.dataflow() ... R.const(1) R.shape([1]) 1j b'a' float('nan')
    float('inf') range(3) R.Op('relax.exp') R.str('a') R.prim_value(3) [[1],[2,3]] '日本' R.match_cast(x,R.Tensor)
    A A[0,0] A[0:2,0] n p A.data T.Buffer((2,)) lambda:1 undefined
""".split()  # fmt: skip


def callables(namespace, prefix):
    for name in dir(namespace):
        if name.startswith("_"):
            continue
        value = getattr(namespace, name)
        if callable(value):
            yield f"{prefix}.{name}"
        elif prefix.count(".") == 0 and hasattr(value, "__dict__"):
            yield from callables(value, f"{prefix}.{name}")


@pytest.mark.parametrize("function", sorted({*callables(R, "R")}))
def test_relax_calls_with_anything(function):
    choose = random.Random(function)
    for _ in range(4):
        given = ", ".join(choose.choices(VALUES, k=choose.randint(0, 3)))
        complaints(inside(RELAX, f"y = {function}({given})\nreturn y"))
        complaints(inside(RELAX, f"y = {function}(x, {given})\nreturn y"))


@pytest.mark.parametrize("function", sorted({*callables(T, "T")}))
def test_tir_calls_with_anything(function):
    choose = random.Random(function)
    for _ in range(3):
        given = ", ".join(choose.choices(VALUES, k=choose.randint(0, 3)))
        complaints(inside(TIR, f"y = {function}({given})\nT.evaluate(y)"))
        complaints(inside(TIR, f"with {function}({given}):\n    pass"))
        complaints(inside(TIR, f"for i in {function}({given}):\n    A[i, 0] = 1.0"))


FORMS = ["R.Tensor", "R.Shape", "R.Prim", "R.Tuple", "R.Callable", "R.Object", "T.Buffer", "T.handle", "T.int64"]


@pytest.mark.parametrize("value", [v for v in VALUES if v not in ("x", "c", "s", "A", "n", "p")])
def test_annotations_of_anything(value):
    choose = random.Random(value)
    calls = ["{}(VALUE)", "{}[VALUE]", "{}((VALUE,))", "{}(ndim=VALUE)", "{}(dtype=VALUE)", "{}(vdevice=VALUE)",
             "{}((2,), VALUE)", "{}((2,), 'float32', VALUE)"]  # fmt: skip
    for form in [value, *(choose.choice(calls).format(form).replace("VALUE", value) for form in FORMS)]:
        complaints(f"@R.function\ndef main(x: {form}):\n    return x\n")
        complaints(f"@R.function\ndef main(x: R.Object) -> {form}:\n    return x\n")
        complaints(f"@T.prim_func\ndef main(x: {form}):\n    pass\n")
        complaints(inside(RELAX, f"y: {form} = x\nreturn y"))


PARTS = {
    "R.Tensor": ("shape", "dtype", "ndim", "vdevice"),
    "R.Shape": ("values", "ndim"),
    "R.Prim": ("dtype", "value"),
    "R.Tuple": ("fields",),
    "R.Callable": ("params", "ret", "purity", "derive_func"),
}


@pytest.mark.parametrize("form", PARTS)
def test_annotations_of_several_things(form):
    """Also of quoted ones, which are read apart from each other."""
    choose = random.Random(form)
    values = [*VALUES, '"n"', '"q + 1"', '"int9"', '"float32"', '("n", 2)', 'R.Prim("int8", value="q")']
    for _ in range(60):
        given = [choose.choice(values) for _ in range(choose.randrange(3))]
        given += [f"{part}={choose.choice(values)}" for part in PARTS[form] if choose.random() < 0.4]
        info = f"{form}({', '.join(given)})"
        complaints(f"@R.function\ndef main(x: {info}, y: R.Tuple({info})):\n    return x\n")
        complaints(f"@R.function\ndef main(x: R.Object) -> {info}:\n    return x\n")
        complaints(inside(RELAX, f"y: {info} = x\nz = R.match_cast(x, {info})\nreturn y"))


@pytest.mark.parametrize("value", VALUES)
def test_decorators_and_members_of_anything(value):
    function = "    @R.function\n    def f(x: R.Object):\n        return x\n"
    for option in ("private", "pure", "name", "check_well_formed"):
        complaints(f"@R.function({option}={value})\ndef main(x: R.Object):\n    return x\n")
        complaints(f"@T.prim_func({option}={value})\ndef main():\n    pass\n")
    complaints(f"@{value}\ndef main(x: R.Object):\n    return x\n")
    complaints(f"@{value}\nclass M:\n{function}")
    for member in (f"a = {value}", f"I.module_attrs({value})", f"I.module_attrs({{'a': {value}}})", value,
                   f"I.module_global_infos({value})", f"I.module_global_infos({{'vdevice': [{value}]}})"):  # fmt: skip
        complaints(f"@I.ir_module\nclass M:\n    {member}\n{function}")


@pytest.mark.parametrize("value", VALUES)
def test_operators_on_anything(value):
    choose = random.Random(value)
    for symbol in ("+", "/", "//", "**", "@", "<<", "&", "<", "==", "is", "in", "and"):
        other = choose.choice(VALUES)
        complaints(inside(RELAX, f"y = {value} {symbol} {other}\nreturn y"))
        complaints(inside(TIR, f"A[0, 0] = {value} {symbol} {other}"))
    for statement in ("y = -({0})", "y = ({0})[{1}]", "y, z = {0}", "y = {0}(x)", "y = f'{{{0}}}'", "A[{0}] = {1}",
                      "y = x if {0} else c", "R.func_attr({0})", "R.func_attr({{'a': {0}}})", "return {0}",
                      "if {0}:\n    y = x\nelse:\n    y = c", "with {0}:\n    y = x", "for i in {0}:\n    y = x",
                      "x += {0}", "y = R.match_cast({0}, {1})", "A[0, 0] += {0}"):  # fmt: skip
        text = statement.format(value, choose.choice(VALUES))
        complaints(inside(RELAX, text + "\nreturn y"))
        complaints(inside(TIR, text))


# ------------------------------------------------------------------------- depth, length, names


@pytest.mark.parametrize(
    "text",
    [
        inside(RELAX, "return " + "(" * 10000 + "x" + ")" * 10000),
        inside(RELAX, "return " + "R.exp(" * 10000 + "x" + ")" * 10000),
        inside(RELAX, "return " + "-" * 10000 + "x"),
        inside(RELAX, "return x" + " + x" * 10000),
        inside(RELAX, "return x" + "[0]" * 10000),
        inside(RELAX, "return x" + ".a" * 10000),
        inside(RELAX, "return " + "(x, " * 10000 + "x" + ")" * 10000),
        inside(RELAX, "y = x\n" + "y = R.exp(y)\n" * 3000 + "return y"),
        inside(RELAX, "return (" + "x, " * 10000 + ")"),
        inside(RELAX, "y = R.reshape(x, (" + "1, " * 5000 + "))\nreturn y"),
        inside(TIR, "A[0, 0] = " + "(" * 10000 + "1.0" + ")" * 10000),
        inside(TIR, "A[0, 0] = A[0, 0]" + " + A[0, 0]" * 10000),
        "@R.function\ndef main(x: " + "R.Tuple(" * 10000 + "R.Object" + ")" * 10000 + "):\n    return x\n",
        "@R.function\ndef main(x: R.Tensor(('n" + " + 1" * 10000 + "',))):\n    return x\n",
        "@R.function\ndef main(" + ", ".join(f"x{i}: R.Object" for i in range(3000)) + "):\n    return x0\n",
        "".join(" " * i + "if c:\n" for i in range(99)) + " " * 99 + "pass\n",
    ],
    ids=["parentheses", "calls", "signs", "sum", "subscripts", "attributes", "tuples", "bindings", "a long tuple",
         "a long shape", "tir parentheses", "tir sum", "annotation", "dimension", "parameters", "blocks"],
)  # fmt: skip
def test_depth_and_length(text):
    found = complaints(text)
    assert all(d.code in ("E1001", "E1005", "E1009", "E2106", "E3009", "E3102", "E1006", "E2006") for d in found)


def test_nested_branches():
    depth = 15
    lines = ["y = x"]
    for _ in range(depth):
        inner = textwrap.indent("\n".join(lines), "    ")
        lines = f"if c:\n{inner}\nelse:\n    y = x".splitlines()
    assert complaints(inside(RELAX, "\n".join(lines) + "\nreturn y")) == []


def test_identifiers_of_every_script():
    text = """
@R.function
def функция(größe: R.Tensor(("ширина", "高さ"), "float32")):
    π = R.exp(größe)
    変数 = R.add(π, größe)
    return 変数
"""
    assert complaints(text) == []
    (found,) = complaints(text.replace("π, größe", "π, größer"))
    assert (found.code, found.span.line, found.span.column, found.span.end_column) == ("E1002", 5, 19, 25)
    assert "did you mean `größe`?" in found.render()


@pytest.mark.parametrize(
    "text, place",
    [
        ("y = R.add(\n    x,\n    unknown,\n)\nreturn y", (6, 9, 16)),
        ("y = (\n    R.exp(x)\n    + unknown\n)\nreturn y", (6, 11, 18)),
        ("y = R.exp(\\\n    unknown)\nreturn y", (5, 9, 16)),
        ("y = R.exp(x);  z = unknown\nreturn y", (4, 24, 31)),
        ('y = R.str("""a\nb"""), unknown\nreturn y', (5, 12, 19)),
        ('y = R.str("\t→"), unknown\nreturn y', (4, 22, 29)),
    ],
)
def test_columns_in_the_middle_of_anything(text, place):
    (found,) = complaints(inside(RELAX, text))
    span = found.span
    assert found.message == "`unknown` is not defined"
    assert (span.line, span.column, span.end_column) == place
    assert span.source.line(span.line)[span.column - 1 : span.end_column - 1] == "unknown"


def test_tabs_and_other_line_ends():
    text = RELAX + "\ty = R.exp(unknown)\n\treturn y\n"
    (found,) = complaints(text)
    assert (found.span.line, found.span.column) == (4, 12)
    assert found.render().splitlines()[4] == "  | \t          ^^^^^^^"
    for end in ("\r\n", "\r", "\x0c\n"):
        (found,) = complaints(text.replace("\n", end))
        assert found.span.source.line(found.span.line).strip() == "y = R.exp(unknown)"


@pytest.mark.parametrize(
    "text",
    ["", "\n", "\x00", "\ufeff", "#", '"""', "(", "def", "@", "@R.function", "@R.function\nx = 1", "class", "\\", "\t", "日本",
     "@R.function\ndef f(): pass", "@R.function\ndef f(): ...", "@R.function\ndef f(): return", "@I.ir_module\nclass M: pass",
     "@I.ir_module\nclass M: ...", "@I.ir_module\nclass M:\n    R", "@T.prim_func\ndef f(): ...", "\ud800", "# coding: latin-9\nx = 1",
     "@R.function\ndef f(f: R.Object): return f", "@R.function\ndef R(x: R.Object): return R.exp(x)",
     "@I.ir_module\nclass I:\n    @R.function\n    def f(x: R.Object):\n        return I.f(x)"],
)  # fmt: skip
def test_almost_nothing(text):
    complaints(text)


# ------------------------------------------------------------------------- what escaped once


def message_of(text):
    (found,) = complaints(text)
    return found.code, found.message


def test_options_have_their_types():
    text = "@R.function({})\ndef main(x: R.Object):\n    return x\n"
    expected = ("E1008", "R.function: a function's name is a string, found [1]")
    assert message_of(text.format("name=[1]")) == expected
    expected = ("E1008", "R.function: the option `pure` is True or False, found 'no'")
    assert message_of(text.format("pure='no'")) == expected


def test_the_data_of_a_buffer_is_a_variable():
    text = "@T.prim_func\ndef main(x: T.Buffer((2,), 'float32', [])):\n    pass\n"
    assert message_of(text) == ("E1004", "T.Buffer: the data of a buffer is a variable, found list")


def test_what_only_answers_to_indices_is_not_walked_over():
    # Python would try 0, 1, 2 … without an end.
    assert message_of(inside(RELAX, "y = x in R.Tensor\nreturn x"))[0] == "E1005"
    assert message_of(inside(RELAX, "y = 3 in R.Tensor\nreturn x"))[0] == "E1005"
    assert message_of(inside(RELAX, "for i in R.Tensor:\n    y = x\nreturn x"))[0] == "E1005"
    assert message_of(inside(TIR, "y = 3 in A")) == ("E1005", "argument of type 'Buffer' is not iterable")
    assert message_of(inside(TIR, "y = list(A)")) == ("E1004", "list: 'Buffer' object is not iterable")


def test_a_buffer_statement_that_fails_has_a_place():
    found = message_of(inside(TIR, "y = T.Buffer((2,), range(3), data=A.data)"))
    assert found == ("E1004", "T.Buffer: unknown dtype 'range(0, 3)'")


def test_a_variables_name_is_text():
    found = message_of(inside(TIR, "y = T.SizeVar(A[0, 0])"))
    assert found == ("E1004", "T.SizeVar: a variable's name is text, found BufferLoad")


def test_a_parameter_is_not_visible_in_its_own_annotation():
    text = "@T.prim_func\ndef main(x: T.Buffer((2,), x)):\n    pass\n"
    assert message_of(text)[0] == "E1002"


def test_a_text_without_a_program_has_a_place():
    assert message_of("x = 1\n") == ("E1008", "<string> defines no function and no module")


def test_a_class_without_arguments():
    text = "@I.ir_module\nclass M({}):\n    @R.function\n    def f(x: R.Object):\n        return x\n"
    assert message_of(text.format("metaclass=type")) == ("E1008", "a module has no metaclass")
    assert message_of(text.format("flag=True")) == ("E1008", "a module's class takes no arguments")
    assert message_of(text.format("**R")) == ("E1008", "a module's class takes no arguments")
    assert message_of(text.format("R.Object")) == ("E1008", "a module has no base class")


# ------------------------------------------------------------------------- long lines, long names

LONG = "a" * 10_000
LONG_TEXTS = {
    "a line": inside(RELAX, "y = R.exp(x" + ", x" * 5000 + ")\nreturn y"),
    "a line with its error at the end": inside(RELAX, "y = (x" + ", x" * 5000 + ", unknown)\nreturn y"),
    "a comment": inside(RELAX, "y = unknown  # " + LONG + "\nreturn y"),
    "a name": inside(RELAX, f"y = {LONG}\nreturn y"),
    "a member": inside(RELAX, f"y = R.{LONG}(x)\nreturn y"),
    "an attribute": inside(RELAX, f"y = x.{LONG}\nreturn y"),
    "a keyword": inside(RELAX, f"y = R.exp(x, {LONG}=1)\nreturn y"),
    "a dtype": f"@R.function\ndef main(x: R.Tensor((2,), '{LONG}')):\n    return x\n",
    "a dimension": f"@R.function\ndef main(x: R.Tensor(('{LONG} +',))):\n    return x\n",
    "a bad dimension": f"@R.function\ndef main(x: R.Tensor(('{LONG}.x',))):\n    return x\n",
    "a decorator": f"@{LONG}\ndef main(x: R.Object):\n    return x\n",
    "an option": f"@R.function({LONG}=1)\ndef main(x: R.Object):\n    return x\n",
    "a class": f"@I.ir_module\nclass {LONG}({LONG}):\n    pass\n",
    "a string": inside(RELAX, f"y = R.Op('{LONG}')\nreturn y"),
    "a list": inside(RELAX, "y = R.reshape(x, [" + "-1, " * 5000 + "])\nreturn y"),
    "a TIR name": inside(TIR, f"A[{LONG}] = 1"),
    "a C function": inside(TIR, f"T.evaluate(T.call_extern('int32', '{LONG}', 1))"),
    "no Python": "@R.function\ndef main(x: R.Object):\n    return x " + LONG + "\n",
    "a function": f"@R.function\ndef {LONG}(x: R.Object):\n    return y\n",
    "indentation": "@R.function\ndef main(x: R.Object):\n" + " " * 10_000 + "return y\n",
    "a variable": inside(RELAX, f"{LONG} = x\ny = R.add({LONG}, c, c)\nreturn y"),
    "a parameter": f"@R.function\ndef main({LONG}: R.Tensor((2,), 'int8')):\n    y = R.nn.softmax({LONG}, 9)\n    return y\n",
}


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_no_message_repeats_a_long_line(name):
    found = complaints(LONG_TEXTS[name])
    assert found
    for diagnostic in found:
        lines = diagnostic.render().splitlines()
        assert max(map(len, lines)) < 2500
        assert sum(map(len, lines)) < 10_000


# ------------------------------------------------------------------------- functions outside of the program

CALL = 'T.call_pure_extern("int64", "system", n)'
EXTERN = {
    "index": f"A[{CALL}] = T.float32(0)",
    "value": f'A[0] = T.Cast("float32", {CALL})',
    "extent": f"for i in range({CALL}):\n    A[0] = T.float32(0)",
    "statement": f"T.evaluate({CALL})",
    "with effects": 'T.evaluate(T.call_extern("int32", "system", A.data))',
    "condition": f"if {CALL} > 0:\n    A[0] = T.float32(0)",
    "assertion": f"assert {CALL} > 0, 'x'",
    "predicate": f"with T.block('b'):\n    T.where({CALL} > 0)\n    A[0] = T.float32(0)",
    "region": f"with T.block('b'):\n    T.reads(A[{CALL}:8])\n    A[0] = T.float32(0)",
    "variable": f"v = {CALL}\nA[v] = T.float32(0)",
    "size": f"B = T.alloc_buffer(({CALL},), 'float32')\nB[0] = T.float32(0)",
    "view": f"B = T.decl_buffer(({CALL},), 'float32', data=A.data)\nB[0] = T.float32(0)",
    "offset": f"B = T.decl_buffer((8,), 'float32', data=A.data, elem_offset={CALL})\nB[0] = T.float32(0)",
    "by its operator": 'T.evaluate(T.call_intrin("int64", "tir.call_extern", "system", n))',
}
PRIM_FUNC = "@T.prim_func\ndef main(a: T.handle, n: T.int64):\n    A = T.match_buffer(a, (8,), 'float32')\n"


@pytest.mark.parametrize("place", EXTERN)
def test_c_functions_are_called_only_if_allowed(place):
    text = inside(PRIM_FUNC, EXTERN[place])
    (found,) = complaints(text)
    assert found.code == "E1006"
    assert found.span.line >= 4
    assert found.message == "text given to from_source may not call `system`, a function outside of the program"
    assert found.hint == "allow_extern= of from_source takes the names of C functions that may be called"
    for allowed in (["system"], {"system", "other"}, "system", True):
        assert from_source(text, allow_extern=allowed) is not None
    for refused in ([], ["other"], "systems", False):
        with pytest.raises(DiagnosticError, match="may not call `system`"):
            from_source(text, allow_extern=refused)


@pytest.mark.parametrize(
    "statement",
    [
        f"y = R.shape([{CALL}])",
        f"y = R.prim_value({CALL})",
        f"y = R.match_cast(x, R.Tensor(({CALL},), 'float32'))",
        f"y: R.Tensor(({CALL},), 'float32') = R.match_cast(x, R.Tensor(({CALL},), 'float32'))",
    ],
)
def test_c_functions_in_relax(statement):
    head = "@R.function\ndef main(x: R.Tensor(('n',), 'float32')):\n    n = T.int64()\n"
    text = inside(head, statement + "\nreturn y")
    with pytest.raises(DiagnosticError, match="may not call `system`"):
        from_source(text, check_well_formed=False)


def test_c_functions_hidden_in_json():
    """A program's metadata may hold any node."""
    hidden = save_json(from_source(inside(PRIM_FUNC, EXTERN["statement"]), allow_extern=True))
    text = f"""
@I.ir_module
class M:
    f = I.load_json({hidden!r})

    @R.function
    def main(x: R.Object):
        return x
"""
    assert message_of(text)[0] == "E1006"
    assert len(from_source(text, allow_extern=True).functions) == 2


def test_every_refused_call_is_reported():
    body = (
        'T.evaluate(T.call_extern("int32", "a"))\nT.evaluate(T.call_extern("int32", "b", T.call_extern("int32", "c")))'
    )
    found = complaints(inside(PRIM_FUNC, body))
    assert [(d.message.split("`")[1], d.span.line) for d in found] == [("a", 4), ("b", 5), ("c", 5)]


def test_decorated_functions_call_what_they_like():
    @T.prim_func
    def main(A: T.Buffer((2,), "float32")):
        A[0] = T.call_pure_extern("float32", "sinf", A[1])

    assert "sinf" in main.script()


def test_reading_a_text_calls_no_packed_function():
    """R.call_packed only names one; it is looked up, and called, when the program runs."""
    calls = []
    tvm_ffi.register_global_func("testing.hostile.record", lambda *_: calls.append(1), override=True)
    text = inside(RELAX, 'y = R.call_packed("testing.hostile.record", x, sinfo_args=R.Object)\nreturn x')
    text = text.replace("@R.function", "@R.function(pure=False)")
    module = relax.IRModule.from_expr(from_source(text))
    executable = relax.build(module)
    assert calls == []
    relax.VirtualMachine(executable)["main"](np.zeros((2, 4), "float32"), np.array(True), (2, 4))
    assert calls == [1]


def test_only_a_running_program_opens_files(tmp_path, monkeypatch):
    """Neither reading nor building does, though the path is a constant."""
    path = str(tmp_path / "x.npy")
    np.save(path, np.ones(3, "float32"))
    opened = []
    load = np.load
    monkeypatch.setattr("numpy.load", lambda *args, **options: opened.append(args) or load(*args, **options))
    text = f"@R.function\ndef main() -> R.Object:\n    y = R.read_tensor_from_file(R.str({path!r}))\n    return y\n"
    executable = relax.build(relax.IRModule.from_expr(from_source(text)))
    assert opened == []
    assert relax.VirtualMachine(executable)["main"]().numpy().tolist() == [1, 1, 1]
    assert opened == [(path,)]
