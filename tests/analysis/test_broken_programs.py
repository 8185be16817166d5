"""Broken programs as people write them: each is answered with one complaint, at its place, with its rule and a way out.

One program for every rule that text can break, and for every error of derivation. `test_well_formed.py` tells more of
the rules; here it is what a reader of the error gets, and that no way into the compiler lets the program through.
"""

from __future__ import annotations

import textwrap
import warnings

import pytest

import relax
from relax.ir import DiagnosticError, IRModule
from relax.script import from_source

HEAD = "from relax.script import ir as I, relax as R, tir as T\n"


def refused(action):
    """The diagnostics an action is refused with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DiagnosticError) as caught:
            action()
    return list(caught.value.diagnostics)


def text_of(program):
    return HEAD + textwrap.dedent(program).strip() + "\n"


CASES = {}


def case(name, program, code, line, under, message, hint):
    """A broken program; `under` is the part of its `line` (the decorator's is 1) that is underlined."""
    CASES[name] = program, code, line, under, message, hint


def function(body, signature='x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")', decorator="@R.function"):
    """One entry point; its body begins on line 3."""
    return f"{decorator}\ndef main({signature}):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")


# ------------------------------------------------------------------------------------------- rules

case(
    "rule 4",
    '@R.function\ndef main(x: R.Object) -> R.Tensor(("m",), "float32"):\n    m = T.int64()\n'
    '    y = R.match_cast(x, R.Tensor((m,), "float32"))\n    return y',
    "E2004", 2, 'R.Tensor(("m",), "float32")', "rule 4: the return annotation uses m, which no parameter binds",
    "leave the dimension open (ndim=...), or name it in a parameter",
)  # fmt: skip
case(
    "rule 5, a match_cast too late",
    function("m = T.int64()\ns = R.shape([m + 1])\ny = R.match_cast(x, R.Tensor((m, 4)))\nreturn s"),
    "E2005", 4, "R.shape([m + 1])", "rule 5: the shape variable m is used before it is bound", "move the match_cast up",
)  # fmt: skip
case(
    "rule 5, sinfo_args do not bind",
    function('m = T.int64()\ny = R.call_pure_packed("f", x, sinfo_args=R.Tensor((m,), "float32"))\nreturn y'),
    "E2005", 4, 'R.Tensor((m,), "float32")', "rule 5: the shape variable m is not bound here",
    "bind it in the signature, or with R.match_cast, in a dimension of its own",
)  # fmt: skip
case(
    "rule 6",
    function("return x", 'x: R.Tensor(("2 * n",), "float32")'),
    "E2006", 2, 'R.Tensor(("2 * n",), "float32")',
    "rule 6: the signature uses n, but in no parameter does n stand alone in a dimension",
    "only a dimension that is just n binds it",
)  # fmt: skip
case(
    "rule 7",
    '@R.function\ndef main(x: R.Object) -> R.Object:\n    @R.function\n    def f(p: R.Object) -> R.Object:\n'
    "        with R.dataflow():\n            q = f(p)\n            R.output(q)\n        return q\n    return x",
    "E2007", 6, "f(p)", "rule 7: a dataflow block has no recursive calls, found one of f",
    "end the dataflow block before it",
)  # fmt: skip
case(
    "rule 8",
    "@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Object):\n        y = M.main(x)\n        return y",
    "E2008", 4, "def main(x: R.Object):", "rule 8: the recursive function main has no return annotation",
    "write -> <struct info> after its parameters",
)  # fmt: skip
case(
    "rule 9",
    function('y = (R.Op("relax.exp"), x)\nreturn x'),
    "E2009", 3, '(R.Op("relax.exp"), x)', "rule 9: the operator relax.exp is used as a value",
    "call it, or wrap it into a function",
)  # fmt: skip
case(
    "rule 10",
    function("return x", 'x: R.Tensor((4, 5), "float32", ndim=3)'),
    "E2010", 2, 'R.Tensor((4, 5), "float32", ndim=3)', "rule 10: ndim is 3, and the shape has 2 dimensions",
    "leave ndim out",
)  # fmt: skip
case(
    "rule 11",
    function("""
        with R.dataflow():
            y = R.exp(x)
            @R.function
            def f(p: R.Object):
                return y
            R.output(f)
        return f
    """),
    "E2011", 7, "return y", "rule 11: a function captures the dataflow variable y",
    "pass it as an argument, or make it an output of a dataflow block before",
)  # fmt: skip
case(
    "rule 12",
    "@I.ir_module\nclass M:\n    @R.function(private=True)\n    def main(x: R.Object):\n        return x",
    "E2012", 4, "def main(x: R.Object):", "rule 12: the module has no entry point",
    "a function with a global_symbol is one; @R.function(private=True) leaves it out",
)  # fmt: skip
case(
    "rule 13",
    '@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Object):\n        R.func_attr({"global_symbol": "f"})\n'
    "        return x",
    "E2013", 4, "def main(x: R.Object):", "rule 13: the function main has the global_symbol 'f'",
    "both names must be the same; rename one",
)  # fmt: skip
case(
    "rule 14, not in scope",
    function('m = T.int64()\ny: R.Tensor((m, 4), "float32") = x\nreturn c'),
    "E2014", 4, 'R.Tensor((m, 4), "float32")',
    "rule 14: a tensor annotation uses the shape variable m, which is not bound here",
    "only R.match_cast and parameters bind m, where it stands alone in a dimension",
)  # fmt: skip
case(
    "rule 14, negative",
    function("return x", 'x: R.Tensor((-1, 4), "float32")'),
    "E2014", 2, 'R.Tensor((-1, 4), "float32")',
    "rule 14: dimension 0 of a tensor annotation is -1, and no size is negative", "sizes are 0 or more",
)  # fmt: skip
case(
    "rule 14, held by a tensor",
    function("y: R.Tensor(x, ndim=2) = x\nreturn y"),
    "E2014", 3, "R.Tensor(x, ndim=2)",
    'rule 14: the shape of a tensor annotation is x, which holds R.Tensor((n, 4), "float32"), expected a shape',
    "write the dimensions, or a variable in scope that holds a shape of as many",
)  # fmt: skip
case(
    "rule 15",
    function("m = T.int64()\ns: R.Shape([m]) = R.shape([4])\nreturn c"),
    "E2015", 4, "R.Shape([m])", "rule 15: a shape annotation uses the shape variable m, which is not bound here",
    "only R.match_cast and parameters bind m, where it stands alone in a dimension",
)  # fmt: skip
case(
    "rule 16",
    function("m = T.int64()\ns: R.Prim(value=m) = R.prim_value(4)\nreturn c"),
    "E2016", 4, "R.Prim(value=m)", "rule 16: a prim annotation uses the shape variable m, which is not bound here",
    "only R.match_cast and parameters bind m, where it stands alone in a dimension",
)  # fmt: skip
case(
    "rule 17",
    function("return x", 'x: R.Callable((R.Object,), R.Object, derive_func="relax.default_derivation")'),
    "E2017", 2, 'R.Callable((R.Object,), R.Object, derive_func="relax.default_derivation")',
    "rule 17: a function's struct info has either params or derive_func, found both",
    "params for a closure, derive_func for a packed function",
)  # fmt: skip
case(
    "rule 19",
    function("return x", 'x: R.Prim("handle")'),
    "E2019", 2, 'R.Prim("handle")',
    "rule 19: a prim annotation has dtype handle, expected an int, uint or float type",
    "R.Object describes a value that is no number",
)  # fmt: skip
case(
    "rule 20, lanes",
    function("return x", 'x: R.Tensor((4,), "float32x2")'),
    "E2020", 2, 'R.Tensor((4,), "float32x2")', "rule 20: the dtype float32x2 has 2 lanes; in Relax a dtype has one",
    "vectors belong to loops (TIR); a tensor holds their elements one by one",
)  # fmt: skip
case(
    "rule 20, width",
    function("return x", 'x: R.Tensor((4,), "int1")'),
    "E2020", 2, 'R.Tensor((4,), "int1")',
    "rule 20: the dtype int1 is not supported; widths of int are 2, 4, 8, 16, 32, 64", "take the next wider one",
)  # fmt: skip
case(
    "rule 21",
    function('R.func_attr({"relax.force_pure": True})\nreturn x', decorator="@R.function(pure=False)"),
    "E2021", 2, 'def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):',
    "rule 21: a function with relax.force_pure must be pure, and is declared with pure=False", "drop one of the two",
)  # fmt: skip
case(
    "rule 22",
    function("return x", 'x: R.Prim("int32", value=T.int64(3))'),
    "E2022", 2, 'R.Prim("int32", value=T.int64(3))',
    "rule 22: a prim annotation has dtype int32, and its value 3 is int64", "cast the value",
)  # fmt: skip

# ------------------------------------------------------------------------------------------- derivation

LOCAL = '@R.function\ndef f(p: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):\n    return p\n'

case(
    "an argument that does not fit",
    function(LOCAL + 'y = f(R.const([1, 2, 3], "float32"))\nreturn y'),
    "E3001", 6, 'R.const([1, 2, 3], "float32")', "f: argument 0: dimension 0: expected 2, found 3",
    "give a value of what the parameter declares, or declare the parameter as what it is given",
)  # fmt: skip
case(
    "too many arguments",
    function(LOCAL + "y = f(x, c)\nreturn y"),
    "E3002", 6, "f(x, c)", "f takes 1 argument, found 2", "give one argument for each parameter",
)  # fmt: skip
case(
    "a call of a tensor",
    function("y = x(c)\nreturn y"),
    "E3003", 3, "x(c)", "only functions can be called",
    "call a function of the module, a local function, or a value annotated as R.Callable(...)",
)  # fmt: skip
case(
    "an effect in a dataflow block",
    function('with R.dataflow():\n    y = R.print(x, format="{}")\n    R.output(y)\nreturn y', decorator="@R.function(pure=False)"),
    "E3004", 4, 'R.print(x, format="{}")', "the call of relax.print is impure, inside a dataflow block",
    "move it out of the dataflow block",
)  # fmt: skip
case(
    "an effect in a pure function",
    function('y = R.call_packed("f", x, sinfo_args=R.Object)\nreturn y'),
    "E3005", 3, 'R.call_packed("f", x, sinfo_args=R.Object)', "the call of f is impure, inside a pure function",
    "declare the function with pure=False, or, if it has no visible effect, call it through R.call_pure_packed",
)  # fmt: skip
case(
    "an annotation that contradicts",
    function('y: R.Tensor((n, 5), "float32") = R.exp(x)\nreturn y'.replace("n,", '"n",')),
    "E3006", 3, "y", "the value does not fit the annotation of y: dimension 1: expected 5, found 4",
    "leave the annotation out to get what was derived",
)  # fmt: skip
case(
    "a result that contradicts",
    '@R.function\ndef main(x: R.Tensor((2,), "float32")) -> R.Tensor((3,), "float32"):\n    y = R.exp(x)\n    return y',
    "E3007", 4, "return y", "main does not return what it declares: dimension 0: expected 3, found 2",
    "declare what the function returns, or return what it declares",
)  # fmt: skip
case(
    "a cast that never succeeds",
    function('y = R.match_cast(x, R.Tensor(("m",), "float32"))\nreturn y'),
    "E3008", 3, 'y = R.match_cast(x, R.Tensor(("m",), "float32"))',
    "this match_cast can never succeed: rank: expected 1, found 2",
    "cast to what the value may be, or leave the match_cast out",
)  # fmt: skip
case(
    "a field of a tensor",
    function("y = x[0]\nreturn y"),
    "E3009", 3, "x[0]", "only tuples have fields", "R.take picks elements of a tensor",
)  # fmt: skip
case(
    "a field too far",
    function("y = (x, c)\nz = R.TupleGetItem(y, 2)\nreturn z"),
    "E3009", 4, "R.TupleGetItem(y, 2)", "index 2 is out of range for a tuple of 2", "its fields are 0 to 1",
)  # fmt: skip
case(
    "a condition that is no bool",
    function("if R.sum(x):\n    y = x\nelse:\n    y = x\nreturn y"),
    "E3010", 3, "R.sum(x)", "the condition of an if must be a bool scalar",
    "compare, or cast, to get a bool of rank 0",
)  # fmt: skip
case(
    "a function there is not",
    '@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Object):\n        y = I.GlobalVar("mein")(x)\n        return y',
    "E3011", 5, 'I.GlobalVar("mein")(x)', "the module has no function mein", "did you mean main?",
)  # fmt: skip
case(
    "a derivation there is not",
    function("y = f()\nreturn y", 'f: R.Callable(derive_func="nowhere", purity=True)'),
    "E3012", 3, "f()", "the derivation 'nowhere' is not registered",
    "register it with relax.struct_info.register_derivation(name, function)",
)  # fmt: skip
case(
    "an operand of another kind",
    function("y = R.exp(R.shape([2]))\nreturn y"),
    "E3101", 3, "R.exp(R.shape([2]))", "exp: x must be a tensor, found a shape",
    "give what relax.op.exp takes: help() of it tells",
)  # fmt: skip
case(
    "shapes that do not fit",
    function("y = R.matmul(x, R.const([1, 2, 3], 'float32'))\nreturn y"),
    "E3102", 3, "R.matmul(x, R.const([1, 2, 3], 'float32'))", "matmul: the reduced dimensions differ",
    "transpose x or x2, or match_cast it if its shape is only known at run time",
)  # fmt: skip
case(
    "dtypes that differ",
    function('y = R.add(x, R.const([1], "int8"))\nreturn y'),
    "E3103", 3, 'R.add(x, R.const([1], "int8"))', "add: x1 and x2 must have one dtype, found float32 and int8",
    'cast one of them: R.astype(x2, "float32")',
)  # fmt: skip
case(
    "an axis there is not",
    function("y = R.sum(x, axis=2)\nreturn y"),
    "E3104", 3, "R.sum(x, axis=2)", "sum: axis 2 is out of range: expected from -2 to 1",
    "axes count from 0, or from the end as -1",
)  # fmt: skip
case(
    "devices that differ",
    function('y = R.to_vdevice(x, "llvm:0")\nz = R.to_vdevice(x, "llvm:1")\nw = R.add(y, z)\nreturn w'),
    "E3106", 5, "R.add(y, z)", "add: the operands are on different devices", "move one of them with R.to_vdevice",
)  # fmt: skip

KERNEL = """@I.ir_module
class M:
    @T.prim_func
    def k(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i]

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((5,), "float32")):
        z = {}
        return z"""

case(
    "an output of unknown shape",
    KERNEL.format('R.call_tir(M.k, (x,), R.Tensor(ndim=1, dtype="float32"))'),
    "E3110", 10, 'R.call_tir(M.k, (x,), R.Tensor(ndim=1, dtype="float32"))',
    "call_tir: the shape of the output is not known, so it cannot be allocated",
    "give every dimension, as an integer or an expression over shape variables",
)  # fmt: skip
case(
    "an argument the kernel does not take",
    KERNEL.format('R.call_tir(M.k, (y,), R.Tensor((4,), "float32"))'),
    "E3111", 10, 'R.call_tir(M.k, (y,), R.Tensor((4,), "float32"))',
    "call_tir: argument 0 does not fit: dimension 0: expected 4, found 5",
    "pass what the PrimFunc declares: inputs, integers (tir_vars), outputs",
)  # fmt: skip
case(
    "an in-place index there is not",
    KERNEL.format('R.call_tir_inplace(M.k, (x,), [1], R.Tensor((4,), "float32"))'),
    "E3112", 10, 'R.call_tir_inplace(M.k, (x,), [1], R.Tensor((4,), "float32"))',
    "call_tir_inplace: inplace_indices: there is no argument 1; there are 1, counted from 0",
    "give for each result the argument it reuses, or -1 for a fresh one",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_broken_program_is_answered_with_its_rule(name):
    program, code, line, under, message, hint = CASES[name]
    text = text_of(program)
    [found] = refused(lambda: from_source(text, name="program.py"))
    assert (found.code, found.message, found.hint) == (code, message, hint)
    start = text.splitlines()[line].index(under) + 1  # the import comes first
    assert (found.span.line, found.span.column) == (line + 1, start)
    shown = found.render().splitlines()
    assert shown[0] == f"error[{code}]: {message}"
    assert shown[1].strip() == f"--> program.py:{line + 1}:{start}"
    assert text.splitlines()[line] in shown[3]
    underlined = shown[4].split("|", 1)[1]
    assert underlined[1:].index("^") == start - 1
    assert shown[-1].strip() == f"= help: {hint}"


# Derived without the check, what an annotation claims is cast to, and a cast binds.
BECOME_CASTS = ("rule 14, not in scope", "rule 15", "rule 16")


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("rule") and n not in BECOME_CASTS])
def test_what_the_parser_was_told_not_to_check_is_refused_by_build_and_interpret(name):
    program, code, *_, message, _hint = CASES[name]

    def parse():
        parsed = from_source(text_of(program), check_well_formed=False)
        return parsed if isinstance(parsed, IRModule) else IRModule.from_expr(parsed)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mod = parse()
        except DiagnosticError:  # it cannot be derived either
            return
    for action in (lambda: relax.build(mod, "llvm"), lambda: relax.interpret(mod, "main")):
        assert (code, message) in [(d.code, d.message) for d in refused(action)]
    assert "def main(" in mod.script()


def test_every_rule_that_text_can_break_has_a_program():
    """The others (1 to 3 and 18) are about objects: in text, a variable out of scope is a name without a meaning."""
    rules = {int(code[3:]) for _, code, *_ in CASES.values() if code.startswith("E20")}
    assert rules == set(range(1, 23)) - {1, 2, 3, 18}


@pytest.mark.parametrize(
    ("body", "line", "under"),
    [
        ("with R.dataflow():\n    y = R.exp(x)\n    z = R.exp(y)\n    R.output(z)\nreturn y", 7, "y"),
        ("y = R.exp(stray)\nreturn y", 3, "stray"),
        ("y = R.exp(y)\nreturn y", 3, "y)"),
        ("if c:\n    y = R.exp(x)\n    z = y\nelse:\n    z = x\nreturn y", 8, "y"),
        ("y = R.exp(z)\nz = R.exp(x)\nreturn y", 3, "z"),
    ],
)
def test_in_text_a_variable_out_of_scope_is_not_defined(body, line, under):
    text = text_of(function(body))
    [found] = refused(lambda: from_source(text))
    shown = text.splitlines()[line]
    assert found.code == "E1002"
    assert (found.span.line, found.span.column) == (line + 1, shown.rindex(under) + 1)


def test_several_errors_are_told_together():
    body = 'y = R.exp(R.shape([2]))\nz = R.add(x, R.const([1], "int8"))\nw = x[0]\nreturn (y, z, w)'
    found = refused(lambda: from_source(text_of(function(body))))
    assert [(d.code, d.span.line) for d in found] == [("E3101", 4), ("E3103", 5), ("E3009", 6)]
