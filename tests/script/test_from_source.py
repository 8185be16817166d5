"""Text is interpreted, never executed: what it sees, and what it must not reach."""

from __future__ import annotations

import contextlib
import gc
import types

import numpy as np
import pytest
from script_helpers import error, errors, parse, roundtrip

import relax
from relax.ir import DiagnosticError, IRModule
from relax.script import from_source
from relax.script import relax as R
from relax.script import tir as T

PLAIN = "@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    return x\n"


@pytest.mark.parametrize(
    "imports",
    [
        "",
        "from relax.script import relax as R",
        "from relax.script import ir as I, relax as R, tir as T",
        "from tvm.script import relax as R",
        "import tvm.script\nfrom tvm.script import relax as R, tir as T",
        "from tvm import relax\nimport numpy as np\nfrom __future__ import annotations\nfrom tvm.script import relax as R",
        "import relax\nR = relax.script.relax",
        "import tvm.script.relax as R",
        "from relax import script\nR = script.relax",
    ],
)
def test_imports_name_the_namespaces(imports):
    assert from_source(imports + "\n" + PLAIN).attrs["global_symbol"] == "f"


def test_the_namespaces_under_other_names():
    mod = from_source("""
from relax.script import ir as ir_, relax as rx, tir as t

@ir_.ir_module
class Mod:
    @t.prim_func
    def g(a: t.Buffer((4,), "float32")):
        for i in range(4):
            a[i] = t.float32(0)
    @rx.function
    def f(x: rx.Tensor(("n",), "float32")):
        n = t.int64()
        return rx.exp(x)
""")
    assert isinstance(mod, IRModule)
    text = mod.script(relax_prefix="rx", tir_prefix="t", ir_prefix="ir_", module_alias="this", name="Mod")
    assert "from relax.script import relax as rx" in text
    assert "class Mod:" in text
    again = from_source(text.replace("# from", "from"))
    relax.ir.assert_structural_equal(again, mod)


def test_the_last_definition_is_returned_and_may_use_those_before():
    mod = from_source("""
@T.prim_func
def double(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        b[i] = a[i] * T.float32(2)

shape = (4,)

@I.ir_module
class Mod:
    size = 4
    twice = double
    @R.function
    def main(x: R.Tensor(shape, "float32")):
        a = R.call_tir(cls.twice, (x,), R.Tensor((size,), "float32"))
        return R.call_tir(double, (a,), R.Tensor(shape, "float32"))
""")
    assert [g.name_hint for g in mod.functions] == ["main", "twice"]
    roundtrip(mod)


def test_extra_vars():
    n = relax.tir.Var("n", "int64")
    func = from_source(
        "@R.function\ndef f(x: R.Tensor((n, k), dtype)):\n    return R.add(x, c)",
        {"n": n, "k": 4, "dtype": "float32", "c": relax.const(np.ones(4, "float32"))},
    )
    assert func.params[0].struct_info.shape.values[0] is n


def test_functions_given_from_outside_may_be_called():
    func = from_source(
        "@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    return twice(x)", {"twice": lambda x: R.add(x, x)}
    )
    assert len(func.body.blocks[0].bindings) == 1


def test_comprehensions_and_friends():
    func = from_source("""
sizes = [i * 2 for i in range(4) if i]
table = {f"k{i}": i for i in sizes}
pairs = [(a, b) for a, b in zip(sizes, reversed(sizes))]
double = lambda v: v * 2
@R.function
def f(x: R.Tensor(tuple(sizes), "float32"), y: R.Tensor([*sizes, table["k4"], len(pairs)])):
    t = R.tuple(*[x for _ in range(3)])
    return R.shape([double(s) if s > 2 else s for s in sizes])
""")
    assert [int(v) for v in func.params[1].struct_info.shape.values] == [2, 4, 6, 4, 3]
    assert [int(v) for v in func.body.body.values] == [2, 8, 12]


ATTACKS = [
    ("open('/etc/passwd')", "E1002"),
    ("__import__('os')", "E1002"),
    ("eval('1')", "E1002"),
    ("exec('1')", "E1002"),
    ("getattr(x, 'span')", "E1002"),
    ("type(x)", "E1002"),
    ("print(x)", "E1002"),
    ("x.__class__", "E1006"),
    ("x.__class__.__mro__", "E1006"),
    ("().__class__", "E1006"),
    ("''.format", "E1006"),
    ("'{0.__class__}'.format(x)", "E1006"),
    ("R.const(1).data", "E1006"),
    ("R.const(1).data.tofile('/tmp/x')", "E1006"),
    ("R.__dict__", "E1003"),
    ("R.sys", "E1003"),
    ("R.builtins", "E1003"),
    ("R.annotations", "E1003"),
    ("R.op", "E1003"),
    ("T.sys", "E1003"),
    ("I.sys", "E1003"),
    ("I._load_json", "E1003"),
    ("R.nn.__module__", "E1003"),
    ("R.nn.np", "E1003"),
    ("R.function.dialect", "E1006"),
    ("x.show()", "E1006"),
    ("x.script()", "E1006"),
    ("x.replace(name_hint='y')", "E1006"),
    ("R.add.__globals__", "E1006"),
    ("(lambda: 1).__globals__", "E1006"),
    ("relax.__loader__", "E1003"),
    ("relax.script.__builtins__", "E1003"),
    ("f'{x:>{10 ** 9}}'", "E1006"),
    ("10 ** 10 ** 10", "E1006"),
    ("1 << 10 ** 9", "E1006"),
    ("'a' * 10 ** 10", "E1006"),
    ("[0] * 10 ** 9", "E1006"),
    ("10 ** 9 * [0]", "E1006"),
    ("'%999999999d' % 1", "E1006"),
    ("[i for i in enumerate(range(10 ** 12))]", "E1006"),
    ("sum([i for i in range(10 ** 12)])", "E1006"),
    ("list(range(10 ** 12))", "E1006"),
    ("tuple(range(10 ** 12))", "E1006"),
    ("sum(range(10 ** 12))", "E1006"),
    ("max(range(10 ** 12))", "E1006"),
    ("R.split(x, 10 ** 9)", "E3105"),
    ("(lambda f: f(f))(lambda f: f(f))", "E1001"),
]


@pytest.mark.parametrize("text, code", ATTACKS)
def test_nothing_leads_outside(text, code):
    found = errors(f"@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    y = {text}\n    return x\n")
    assert found[0].code == code, found[0].render()


@pytest.mark.parametrize(
    "lines",
    [
        "a = ()\n" + "a = (a, a)\n" * 40 + "b = str(a)\n",
        "a = [0]\n" + "a = [a, a]\n" * 40 + "b = f'{a}'\n",
        "a = {0: 0}\n" + "a = {0: a, 1: a}\n" * 40,
        "a = 0\n" + "a = [a for _ in range(2)]\n" * 40,
        "a = 0\n" + "a = {k: a for k in range(2)}\n" * 40,
        "a = [[0] * 9]\n" + "a = a + a\n" * 40,
        "f = lambda n: f(n - 1) + f(n - 2) if n > 1 else 1\na = f(60)\n",
    ],
)
def test_a_few_lines_do_not_make_a_lot_of_work(lines):
    assert errors(lines + PLAIN)[0].code == "E1006"


@pytest.mark.parametrize("value", ["x + " * 5000 + "x", "-" * 5000 + "x"])
def test_deep_expressions_are_an_error_not_a_crash(value):
    found = errors(f"@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    y = {value}\n    return x\n")
    assert found[0].code == "E1001"


def test_not_and_invert():
    func = from_source("@R.function\ndef f(x: R.Tensor((2,), 'bool')):\n    y = not x\n    return ~y\n")
    assert "R.logical_not(x)" in func.script()
    assert "R.bitwise_not(y)" in func.script()


@pytest.mark.parametrize(
    "text",
    [
        "from relax.script.relax import sys\n",
        "from relax.script import os\n",
        "import os\n",
        "import relax.script.parser.core.safety as sys\n",
        "from os import path as sys\n",
    ],
)
def test_imports_lead_nowhere(text):
    name = "os" if "os\n" in text else "sys"
    found = errors(text + f"@R.function\ndef f(x: R.Object):\n    return {name}.foo\n")
    assert (found[0].code, found[0].message) == ("E1002", f"`{name}` is not defined")


def test_modules_given_from_outside_stay_closed():
    found = errors(PLAIN.replace("return x", "return np.save('/tmp/x', x)"), extra_vars={"np": np})
    assert found[0].code == "E1006"
    assert found[0].hint == "compute the value in Python and pass it in extra_vars"


def test_a_plain_namespace_given_from_outside_is_open():
    func = from_source(PLAIN.replace("(2,)", "(cfg.n,)"), {"cfg": types.SimpleNamespace(n=7)})
    assert int(func.params[0].struct_info.shape.values[0]) == 7


def test_metadata_that_is_no_program():
    code, line, _, message = error('metadata = I.load_json("nonsense")\n' + PLAIN)
    assert (code, line) == ("E1004", 1)
    assert message.startswith("I.load_json: not a saved relax program")


def test_the_name_of_the_text_is_in_the_errors():
    with pytest.raises(DiagnosticError, match="model.py:3:12"):
        parse(PLAIN.replace("return x", "return y"), name="model.py")


def test_well_formedness_is_checked_unless_asked_not_to():
    text = """
@R.function
def f(x: R.Tensor(("n * 2",), "float32")):
    return x
"""
    assert errors(text)[0].code == "E2006"
    from_source(text, check_well_formed=False)


def test_values_of_the_namespaces():
    assert isinstance(T.float32(1), relax.tir.FloatImm)
    assert R.const(1).struct_info.dtype == "int32"


def test_a_text_may_stand_indented_in_its_program():
    func = from_source("""
        @R.function
        def f(x: R.Tensor((2,), "float32")):
            return x
        """)
    assert func.attrs["global_symbol"] == "f"


def test_a_text_that_is_no_text():
    with pytest.raises(TypeError, match="from_source takes text, found int"):
        from_source(3)


def test_what_the_namespaces_members_are_called():
    assert repr(R.Tensor) == "R.Tensor"
    assert repr(R.function) == "@R.function"
    assert repr(R.function(private=True)) == "@R.function(private=True)"
    assert {"exp", "nn", "Tensor", "dot"} <= set(dir(R))
    assert "softmax" in dir(R.nn)
    assert "R.Tensor(shape, dtype, vdevice, ndim)" in R.Tensor.__doc__


def test_cycles_are_collected_as_before_when_a_text_is_read():
    before = gc.get_threshold()
    for text in ("from relax.script import relax as R\n@R.function\ndef f(x: R.Object):\n    return x", "def ("):
        with contextlib.suppress(DiagnosticError):
            from_source(text)
        assert gc.get_threshold() == before
