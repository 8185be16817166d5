"""What derivation learns of shape variables: from casts, assertions and conditions; where it holds, and where not."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import relax
from relax import transform
from relax.analysis import well_formed
from relax.block_builder import BlockBuilder
from relax.derive.conditions import cast_facts, condition_facts, with_facts
from relax.expr import MatchCast, PrimValue, ShapeExpr, Var
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError, RelaxWarning, assert_structural_equal
from relax.op import add, assert_op
from relax.op.binary import Add
from relax.prim import EQ, SizeVar
from relax.prim import Var as PrimVar
from relax.rewrite.visitor import ExprMutator
from relax.script import from_source
from relax.struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from support import PLAIN_LOOPS

HEAD = "from relax.script import ir as I, relax as R, tir as T\n"
n, m, k = (SizeVar(name, "int64") for name in "nmk")


def parse(body: str, result: str = "", params: str = "", pure: bool = False):
    text = f"""
@I.ir_module
class Module:
    @R.function{"" if pure else "(pure=False)"}
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"){params}){result}:
        n, m, k = T.int64(), T.int64(), T.int64()
"""
    return from_source(HEAD + text + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")


def info(mod, name: str) -> str:
    """The struct info of the variable of that name, wherever it is bound; `name` may be "return"."""
    if name == "return":
        return struct_info_text(mod["main"].ret_struct_info)
    found = []

    class Look(relax.PyExprVisitor):
        def visit_var_def(self, var):
            if var.name_hint == name:
                found.append(struct_info_text(var.struct_info))

    Look().visit_expr(mod["main"])
    assert len(found) == 1, found
    return found[0]


UNKNOWN = 'R.Tensor(dtype="float32", ndim=1)'
KNOWN = 'R.Tensor((n,), "float32")'

PROGRAMS = {
    "nothing known": ("z = R.add(x, y)\nreturn z", UNKNOWN),
    "a cast": ("w = R.match_cast(x, R.Tensor((m,)))\nz = R.add(x, y)\nreturn z", KNOWN),
    "a cast of another dimension": ("w = R.match_cast(x, R.Tensor((n + m - m,)))\nz = R.add(x, y)\nreturn z", UNKNOWN),
    "a cast comes too late": ("z = R.add(x, y)\nw = R.match_cast(x, R.Tensor((m,)))\nreturn z", UNKNOWN),
    "a cast to an expression": (
        "w = R.match_cast(x, R.Tensor((m * 2,)))\nz = R.add(x, R.concat([y, y]))\nreturn z",
        KNOWN,
    ),
    "a cast of a shape": ("s = R.match_cast(R.shape([n]), R.Shape([m]))\nz = R.add(x, y)\nreturn z", KNOWN),
    "a cast of a scalar": ("s = R.match_cast(R.prim_value(n), R.Prim(value=m))\nz = R.add(x, y)\nreturn z", KNOWN),
    "a cast of a tuple": (
        "t = R.match_cast((x, y), R.Tuple(R.Tensor((m,)), R.Tensor((m,))))\nz = R.add(x, y)\nreturn z",
        KNOWN,
    ),
    "a cast of a condition": (
        "s = R.match_cast(R.prim_value(n == m), R.Prim(value=T.bool(True)))\nz = R.add(x, y)\nreturn z",
        KNOWN,
    ),
    "a cast in a dataflow block": (
        "with R.dataflow():\n    w = R.match_cast(x, R.Tensor((m,)))\n    z = R.add(x, y)\n    R.output(z)\nreturn z",
        KNOWN,
    ),
    "two casts": (
        "w = R.match_cast(x, R.Tensor((k * 2,)))\nv = R.match_cast(y, R.Tensor((k + k,)))\nz = R.add(x, y)\nreturn z",
        KNOWN,
    ),
    "an annotation that is checked": ("w: R.Tensor((m,), 'float32') = x\nz = R.add(x, y)\nreturn z", KNOWN),
    "an assertion": ("assert n == m\nz = R.add(x, y)\nreturn z", KNOWN),
    "assert_op": ("R.assert_op(R.prim_value(n == m))\nz = R.add(x, y)\nreturn z", KNOWN),
    "two equations": ("assert T.And(n == 2 * k, m == k + k)\nz = R.add(x, y)\nreturn z", KNOWN),
    "an assertion of another thing": ("assert n <= m\nz = R.add(x, y)\nreturn z", UNKNOWN),
    "an assertion comes too late": ("z = R.add(x, y)\nassert n == m\nreturn z", UNKNOWN),
    "a size that is not 1 is what a dimension is stretched to": ("assert n > 1\nz = R.add(x, y)\nreturn z", KNOWN),
    "the branch where it holds": (
        "if R.prim_value(n == m):\n    z0 = R.add(x, y)\n    w = z0\nelse:\n    w = x\nreturn w",
        KNOWN,
        "z0",
    ),
    "the branch where it does not": (
        "if R.prim_value(n == m):\n    w = x\nelse:\n    z0 = R.add(x, y)\n    w = z0\nreturn w",
        UNKNOWN,
        "z0",
    ),
    "the branch where the opposite does not": (
        "if R.prim_value(n != m):\n    w = x\nelse:\n    z0 = R.add(x, y)\n    w = z0\nreturn w",
        KNOWN,
        "z0",
    ),
    "after an if": ("if R.prim_value(n == m):\n    w = x\nelse:\n    w = R.exp(x)\nz = R.add(x, y)\nreturn z", UNKNOWN),
    "a cast in a branch ends with it": (
        "if c:\n    w0 = R.match_cast(x, R.Tensor((m,), 'float32'))\n    w = R.exp(x)\n"
        "else:\n    w = R.exp(x)\nz = R.add(x, y)\nreturn z",
        UNKNOWN,
    ),
    "a closure made where it holds": (
        "assert n == m\n"
        "@R.function\n"
        "def f(a: R.Tensor((n,), 'float32'), b: R.Tensor((m,), 'float32')):\n"
        "    z0 = R.add(a, b)\n    return z0\n"
        "z = f(x, y)\nreturn z",
        KNOWN,
    ),
    "what is learnt in a closure stays there": (
        "@R.function(pure=False)\n"
        "def f():\n    assert n == m\n    z0 = R.add(x, y)\n    return z0\n"
        "z1 = f()\nz = R.add(x, y)\nreturn z",
        UNKNOWN,
    ),
    "a nested if": (
        "if R.prim_value(n <= m):\n"
        "    if R.prim_value(m <= n):\n        z0 = R.add(x, y)\n        v = z0\n"
        "    else:\n        v = x\n"
        "    w = v\nelse:\n    w = x\nreturn w",
        KNOWN,
        "z0",
    ),
}


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize("case", PROGRAMS)
def test_what_is_known(case):
    body, expected, *name = PROGRAMS[case]
    extra = ', d: R.Tensor(("k",), "float32")' if " k" in body or "(k" in body else ""
    extra += ', c: R.Tensor((), "bool")' if "if c" in body else ""
    mod = parse(body, params=extra)
    assert info(mod, name[0] if name else "z") == expected
    assert well_formed(mod)
    again = from_source(mod.script(show_meta=True))
    assert_structural_equal(again, mod)


def test_normalizing_again_derives_the_same():
    mod = parse("assert n == m\nz = R.add(x, y)\nreturn z")
    assert transform.Normalize()(mod) is mod or info(transform.Normalize()(mod), "z") == KNOWN


class Rederive(ExprMutator):
    """Emits every binding anew."""

    def visit_call_(self, call):
        call = super().visit_call_(call)
        return relax.Call(call.op, call.args, call.attrs, call.sinfo_args)


@pytest.mark.parametrize("case", ["a cast", "an assertion", "the branch where it holds", "a nested if"])
def test_a_pass_derives_what_the_parser_does(case):
    body, expected, *name = PROGRAMS[case]
    mod = parse(body)
    rederive = Rederive(mod)
    result = rederive.visit_expr(mod["main"])
    assert info({"main": result}, name[0] if name else "z") == expected


def test_a_fact_that_is_lost_weakens_only():
    """Without the cast, the sum's shape is unknown again; the result is then checked when the program runs."""
    mod = parse(
        "with R.dataflow():\n    w = R.match_cast(x, R.Tensor((m,)))\n    z = R.add(x, y)\n    R.output(z)\nreturn z",
        ' -> R.Tensor(("n",), "float32")',
        pure=True,
    )
    swept = transform.DeadCodeElimination()(mod)
    assert "match_cast" not in swept.script()
    result = Rederive(swept).visit_expr(swept["main"])
    assert (info({"main": result}, "z"), struct_info_text(result.ret_struct_info)) == (UNKNOWN, KNOWN)
    assert well_formed(relax.IRModule({"main": result}))
    main = relax.VirtualMachine(relax.build(swept, PLAIN_LOOPS), relax.cpu())["main"]
    three, four = (relax.nd.array(np.arange(size, dtype="float32")) for size in (3, 4))
    assert main(three, three).numpy().tolist() == [0, 2, 4]
    with pytest.raises((ValueError, AssertionError), match="broadcast|dimension 0"):
        main(three, four)


@pytest.mark.parametrize("name", ["a cast", "an assertion", "two casts", "a cast in a dataflow block"])
def test_programs_with_facts_run(name):
    body = PROGRAMS[name][0]
    extra = ', d: R.Tensor(("k",), "float32")' if "(k" in body else ""
    main = relax.VirtualMachine(relax.build(parse(body, params=extra), PLAIN_LOOPS), relax.cpu())["main"]
    for size in (0, 2, 6):
        value = relax.nd.array(np.arange(size, dtype="float32"))
        more = [relax.nd.array(np.zeros(size // 2, "float32"))] if extra else []
        assert main(value, value, *more).numpy().tolist() == [2.0 * i for i in range(size)]
    with pytest.raises((ValueError, AssertionError)):
        main(*(relax.nd.array(np.zeros(size, "float32")) for size in ((4, 2, 2) if extra else (4, 2))))


# ------------------------------------------------------------------------------------ shapes, checks, errors


def test_a_variable_that_a_cast_defines_outlives_its_scope_in_what_it_is():
    mod = parse(
        "w = R.match_cast(R.concat([x, x]), R.Tensor((k,), 'float32'))\n"
        "t = (w, R.shape([k + n]), R.prim_value(k))\nreturn t"
    )
    assert (
        info(mod, "return") == 'R.Tuple(R.Tensor((n * 2,), "float32"), R.Shape([n * 3]), R.Prim("int64", value=n * 2))'
    )


def test_a_cast_of_what_is_not_known_defines_nothing():
    mod = parse("u = R.add(x, y)\nw = R.match_cast(u, R.Tensor((k,), 'float32'))\nreturn w")
    assert info(mod, "return") == UNKNOWN


def test_what_a_block_builder_casts_outlives_the_function_in_what_it_is():
    x = Var("x", TensorStructInfo((n,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        w = builder.match_cast(builder.emit(x), TensorStructInfo((k,), "float32"))
        builder.emit_func_output(w)
    assert struct_info_text(builder.get()["main"].ret_struct_info) == KNOWN


def test_a_block_builder_knows_what_it_emitted():
    x, y = (Var(name, TensorStructInfo((size,), "float32")) for name, size in (("x", n), ("y", m)))
    builder = BlockBuilder()
    with builder.function("main", [x, y], pure=False):
        before = builder.emit(add(x, y))
        builder.emit(assert_op(PrimValue(EQ(n, m))))
        after = builder.emit(add(x, y))
        builder.emit_func_output(after)
    assert (struct_info_text(before.struct_info), struct_info_text(after.struct_info)) == (UNKNOWN, KNOWN)


def test_another_function_knows_nothing_of_it():
    """Inside a function that is added while another one is built, its facts do not hold."""
    x, y = (Var(name, TensorStructInfo((size,), "float32")) for name, size in (("x", n), ("y", m)))
    mod = parse("z = R.add(x, y)\nreturn z")
    other = mod["main"]
    builder = BlockBuilder()
    with builder.function("main", [x, y], pure=False):
        builder.emit(assert_op(PrimValue(EQ(n, m))))
        added = builder.add_func(other.replace(ret_struct_info=None).without_attr("global_symbol"), "other")
        builder.emit_func_output(x)
    assert struct_info_text(builder.get()[added].ret_struct_info) == UNKNOWN


def test_branches_agree_where_the_condition_makes_them():
    body = "if R.prim_value(n == 4):\n    z = R.match_cast(x, R.Tensor((4,), 'float32'))\nelse:\n    z = R.exp(x)\nreturn z"
    assert info(parse(body), "return") == KNOWN
    body = "if R.prim_value(n != 4):\n    z = R.exp(x)\nelse:\n    z = R.match_cast(x, R.Tensor((4,), 'float32'))\nreturn z"
    assert info(parse(body), "return") == KNOWN
    body = (
        "if R.prim_value(n > 4):\n    z = R.match_cast(x, R.Tensor((5,), 'float32'))\nelse:\n    z = R.exp(x)\nreturn z"
    )
    assert info(parse(body), "return") == UNKNOWN


def test_no_check_is_inserted_where_the_facts_settle_it(recwarn):
    mod = parse("assert n == m\nw: R.Tensor((m,), 'float32') = x\nreturn w", ' -> R.Tensor(("m",), "float32")')
    assert not any(isinstance(b, MatchCast) for block in mod["main"].body.blocks for b in block.bindings)
    assert not [w for w in recwarn if issubclass(w.category, RelaxWarning)]


def test_a_call_fits_where_the_facts_say_so(recwarn):
    text = """
@I.ir_module
class Module:
    @R.function(private=True)
    def same(a: R.Tensor(("n",), "float32"), b: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return R.add(a, b)

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        n, m = T.int64(), T.int64()
        assert n == m
        return Module.same(x, y)
"""
    assert info(from_source(HEAD + text), "return") == KNOWN
    assert not [w for w in recwarn if issubclass(w.category, RelaxWarning)]


def test_an_error_that_rests_on_facts_names_them():
    with pytest.raises(DiagnosticError, match="this match_cast can never succeed") as error:
        parse("assert n == 4\nassert m > 2\nw = R.match_cast(x, R.Tensor((5,)))\nreturn w")
    assert error.value.diagnostics[0].notes[-1] == "known here: n == 4"


def test_where_the_program_never_comes_nothing_is_known():
    """n is 4 and is not: everything would follow, also that no cast can succeed."""
    body = """
    assert n == 4
    if R.prim_value(n == 5):
        w = R.match_cast(x, R.Tensor((7,), "float32"))
    else:
        w = R.match_cast(x, R.Tensor((4,), "float32"))
    return w
    """
    assert info(parse(body), "return") == UNKNOWN


# ------------------------------------------------------------------------------------ the facts themselves


def test_facts_of_a_cast():
    def equations(value, cast):
        return [f"{e.a.name} == {e.b.name}" for e in cast_facts(value, cast)]

    tensor, shape = TensorStructInfo((n, m)), ShapeStructInfo((n, m))
    assert equations(tensor, TensorStructInfo((n, k))) == ["m == k"]
    assert equations(tensor, TensorStructInfo(ndim=2)) == []
    assert equations(TensorStructInfo(ndim=2), tensor) == []
    assert equations(shape, ShapeStructInfo((k, k))) == ["n == k", "m == k"]
    assert equations(ObjectStructInfo(), tensor) == []
    assert equations(PrimStructInfo(value=n), PrimStructInfo(value=m)) == ["n == m"]
    assert equations(PrimStructInfo("int64"), PrimStructInfo(value=m)) == []
    narrow, half = PrimVar("s", "int32"), PrimVar("h", "float32")
    assert equations(PrimStructInfo(value=narrow), PrimStructInfo(value=m)) == []
    assert equations(PrimStructInfo(value=half), PrimStructInfo(value=PrimVar("g", "float32"))) == []
    assert equations(TupleStructInfo((tensor,)), TupleStructInfo((TensorStructInfo((k, m)),))) == ["n == k"]
    assert equations(TensorStructInfo(Var("s", shape)), TensorStructInfo(ShapeExpr((k, k)))) in (
        ["n == k", "m == k"],
        [],
    )


def test_facts_of_a_condition():
    assert [*condition_facts(PrimStructInfo("bool"))] == []
    assert [*condition_facts(TensorStructInfo((), "bool"))] == []
    (negated,) = condition_facts(PrimStructInfo(value=EQ(n, m)), holds=False)
    assert negated.a.a is n


def test_facts_are_shared_until_there_is_a_new_one():
    assert with_facts(None, ()) is None
    first = with_facts(None, [EQ(n, m)])
    assert with_facts(first, [EQ(m, n), n <= m]) is first
    second = with_facts(first, [EQ(n, 4), m >= k])
    assert first.prove(EQ(m, 4)) is None
    assert second.prove(EQ(m, 4)) is True
    assert second.prove(k <= 4) is True
    assert with_facts(second, [EQ(n, 5)]) is None


# ------------------------------------------------------------------------------------ how an assertion is written


def test_an_assertion_is_an_assert_op():
    written = parse('assert n % 2 == 0, "{odd}"\nreturn x')
    assert_structural_equal(written, parse('R.assert_op(R.prim_value(n % 2 == 0), format="{{odd}}")\nreturn x'))
    main = relax.VirtualMachine(relax.build(written, PLAIN_LOOPS), relax.cpu())["main"]
    even, odd = (relax.nd.array(np.zeros(size, "float32")) for size in (2, 3))
    assert main(even, even).numpy().tolist() == [0, 0]
    with pytest.raises(AssertionError, match="{odd}"):
        main(odd, odd)
    assert "R.const(False" in parse("assert 1 == 2\nreturn x").script()


@pytest.mark.parametrize(
    "statement, message",
    [
        ("assert n == 2, n", "the message of an assertion is a string"),
        ("assert n", "assert_op: condition must be a bool scalar, found int64"),
        ("assert x", "assert_op: condition must be a bool scalar, found"),
    ],
)
def test_an_assertion_that_makes_no_sense(statement, message):
    with pytest.raises(DiagnosticError, match=message):
        parse(f"{statement}\nreturn x")


def test_an_assertion_is_no_pure_call():
    with pytest.raises(DiagnosticError, match="relax.assert_op is impure, inside a pure function"):
        parse("assert n == 2\nreturn x", pure=True)


def test_a_slice_is_written_the_same_with_facts_and_without():
    """Found at random: a pass removed the cast that the clamps of the slice had been decided by."""
    program = """
from relax.script import relax as R, tir as T

@R.function
def main(y: R.Tensor(("m - 1",), "int64"), x: R.Tensor(("m",), "int64")):
    m, k = T.int64(), T.int64()
    {cast}
    return R.strided_slice(R.concat([y, y], axis=0), [0], [m - 1], [(m - 1) + (m - 1)])
"""
    plain = from_source(program.format(cast="pass"))
    cast = from_source(program.format(cast='w = R.match_cast(y, R.Tensor((k,), "int64"))  # hence m >= 1'))
    sizes = [str(function.body.body.struct_info.shape[0]) for function in (plain, cast)]
    assert sizes[0].replace("m", "") == sizes[1].replace("m", "")
    after = transform.CanonicalizeBindings()(relax.IRModule.from_expr(cast))
    assert_structural_equal(from_source(after.script(show_meta=True)), after)


def test_a_call_is_inferred_again_only_where_something_is_known():
    """`add` is inferred when it is called; what that left open is decided where a cast made the sizes equal."""
    x, y = Var("x", TensorStructInfo((n,), "float32")), Var("y", TensorStructInfo((m,), "float32"))
    call = add(x, y)
    builder = BlockBuilder()
    with builder.function("plain", [x, y]):
        plain = builder.emit(call)
        builder.emit_func_output(plain)
    assert struct_info_text(plain.struct_info) == 'R.Tensor(dtype="float32", ndim=1)'

    u, v = Var("u", TensorStructInfo((n,), "float32")), Var("v", TensorStructInfo((m,), "float32"))
    with builder.function("cast", [u, v]):
        later = add(u, v)
        builder.match_cast(v, TensorStructInfo((n,), "float32"))
        total = builder.emit(later)
        builder.emit_func_output(total)
    assert struct_info_text(total.struct_info) == 'R.Tensor((n,), "float32")'


def test_a_call_is_inferred_once(monkeypatch):
    """When it is built: normalisation reads the result."""
    asked = []
    infer = Add.infer
    monkeypatch.setattr(Add, "infer", lambda self, *infos: asked.append(infos) or infer(self, *infos))
    x = Var("x", TensorStructInfo((n,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        once = builder.emit(add(x, x))
        twice = builder.emit(add(once, x))
        builder.emit_func_output(twice)
    assert [len(infos) for infos in asked] == [2, 2]
    assert struct_info_text(twice.struct_info) == 'R.Tensor((n,), "float32")'
