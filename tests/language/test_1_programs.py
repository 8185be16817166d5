"""Section 1: what a program consists of."""

from __future__ import annotations

import numpy as np
import pytest
from programs import info, machine, module, ones, packed, refused

import relax
from relax.script import from_source

# ------------------------------------------------------------------------------------- modules, functions


def test_a_module_maps_names_to_functions_of_both_levels():
    """An IRModule maps GlobalVars to Functions and PrimFuncs, and has attributes and virtual devices."""
    mod = module("""
    @I.ir_module
    class M:
        I.module_attrs({"origin": "here"})
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @T.prim_func
        def loops(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                B[i] = A[i]

        @R.function
        def main(x: R.Object) -> R.Object:
            return x
    """)
    assert {g.name_hint: type(f) for g, f in mod.functions.items()} == {
        "loops": relax.tir.PrimFunc,
        "main": relax.Function,
    }
    assert mod.attrs["origin"] == "here"
    assert [type(device) for device in mod.global_infos["vdevice"]] == [relax.VDevice]


def test_what_a_function_is_made_of():
    """A Function has parameters, a body, a return annotation (derived if not written), purity (True) and attributes."""
    for header, pure in (
        ("@R.function\ndef main(x: R.Object):", True),
        ("@R.function(pure=False)\ndef main(x: R.Object) -> R.Object:", False),
    ):
        function = from_source(f'{header}\n    R.func_attr({{"mark": 3}})\n    return x\n')
        assert [p.name_hint for p in function.params] == ["x"]
        assert isinstance(function.body, relax.SeqExpr)
        assert function.is_pure is pure
        assert isinstance(function.ret_struct_info, relax.ObjectStructInfo)
        assert function.attrs["mark"] == 3


def test_what_a_prim_func_is_made_of():
    """A PrimFunc has parameters, a statement, and buffers that its handles stand for."""
    function = from_source("""
    @T.prim_func
    def copy(a: T.handle, n: T.int64, B: T.Buffer((4,), "float32")):
        A = T.match_buffer(a, (n,), "float32")
        B[0] = A[0]
    """)
    a, n, b = function.params
    assert (a.dtype, n.dtype, b.dtype) == ("handle", "int64", "handle")
    assert [function.buffer_map[p].name for p in (a, b)] == ["A", "B"]
    assert n not in function.buffer_map
    assert isinstance(function.body, relax.tir.Stmt)


RECURSION = """
@I.ir_module
class M:
    @R.function
    def even(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        if R.equal(n, R.const(0, "int64")):
            r = R.const(True, "bool")
        else:
            r = M.odd(R.subtract(n, R.const(1, "int64")))
        return r

    @R.function(private=True)
    def odd(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        if R.equal(n, R.const(0, "int64")):
            r = R.const(False, "bool")
        else:
            r = M.even(R.subtract(n, R.const(1, "int64")))
        return r

    @R.function
    def factorial(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        if R.equal(n, R.const(0, "int64")):
            r = R.const(1, "int64")
        else:
            r = R.multiply(n, M.factorial(R.subtract(n, R.const(1, "int64"))))
        return r
"""


def test_global_functions_see_each_other(run):
    """Global functions see each other, those that come later too: mutual recursion."""
    assert [bool(run(RECURSION, "even", np.array(n)).numpy()) for n in (0, 1, 7, 8)] == [True, False, False, True]


def test_global_functions_see_themselves(run):
    """Global functions see themselves: recursion."""
    assert [int(run(RECURSION, "factorial", np.array(n)).numpy()) for n in (0, 1, 5)] == [1, 1, 120]


# ------------------------------------------------------------------------------------------------ linkage

LINKAGE = """
@I.ir_module
class M:
    @R.function(private={private})
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = M.inner(x)
        return y

    @R.function(private=True)
    def inner(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.add(x, x)
        return y
"""


def test_entry_points_are_called_from_outside(run):
    """★ Linkage: a function with a global_symbol is callable from outside, one without it only from inside."""
    text = LINKAGE.format(private=False)
    assert run(text, "main", ones(2)).numpy().tolist() == [2, 2]
    with pytest.raises(AttributeError, match="'inner' is private"):
        run(text, "inner", ones(2))


def test_a_function_that_is_not_there(run):
    """★ Linkage: asking for a function the module has not is an error that lists the entry points."""
    with pytest.raises(AttributeError, match="'mian' does not exist; the entry points are: main$"):
        run(LINKAGE.format(private=False), "mian", ones(2))


def test_the_decorator_sets_the_global_symbol():
    """★ Linkage: @R.function sets global_symbol, @R.function(private=True) does not."""
    mod = module(LINKAGE.format(private=False))
    assert mod["main"].attrs.get("global_symbol") == "main"
    assert "global_symbol" not in mod["inner"].attrs


def test_a_module_has_an_entry_point():
    """★ Linkage: a module needs at least one entry point."""
    assert refused(LINKAGE.format(private=True)) == [("E2012", "rule 12: the module has no entry point")]


def test_the_global_symbol_is_the_name():
    """★ Linkage: global_symbol equals the name of the GlobalVar."""
    text = """
    @R.function
    def main(x: R.Object):
        R.func_attr({"global_symbol": "other"})
        return x
    """
    mod = relax.IRModule({"main": from_source(text, check_well_formed=False)})
    assert refused(mod) == [("E2013", "rule 13: the function main has the global_symbol 'other'")]


def test_main_is_the_conventional_entry(run):
    """`main` is the conventional entry: a function by itself is a module of that one entry point."""
    assert run("@R.function\ndef main(x: R.Object):\n    return x", "main", 3) == 3


# -------------------------------------------------------------------------------------------- expressions


@packed("language.nodes.inc")
def _inc(x):
    return x + 1


def _function(value, pure=True):
    return f"""
@I.ir_module
class M:
    @R.function(private=True)
    def g(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        z = R.add(y, y)
        return z

    @R.function(pure={pure})
    def main(x: R.Tensor((), "int64"), c: R.Tensor((), "bool"), s: R.Shape(["n"])):
        n = T.int64()
        v = {value}
        return v
"""


def _plain(value):
    return value.numpy().tolist() if isinstance(value, relax.NDArray) else value


NODES = {
    "Constant": ("R.const([1, 2], 'int64')", relax.Constant, [1, 2]),
    "Var": ("x", relax.Var, 5),
    "Tuple": ("(s, R.prim_value(1))", relax.Tuple, ((3,), 1)),
    "unit": ("()", relax.Tuple, ()),
    "ShapeExpr": ("R.shape([n + 1, 2])", relax.ShapeExpr, (4, 2)),
    "PrimValue": ("R.prim_value(n * 2)", relax.PrimValue, 6),
    "PrimValue of a float": ("R.prim_value(1.5)", relax.PrimValue, 1.5),
    "StringImm": ("R.str('text')", relax.StringImm, "text"),
    "DataTypeImm": ("R.dtype('float16')", relax.DataTypeImm, "float16"),
    "Call of an operator": ("R.add(x, x)", relax.Call, 10),
    "Call of a global function": ("M.g(x)", relax.Call, 10),
    "TupleGetItem": ("R.split(R.reshape(x, (1,)), 1)[0]", relax.TupleGetItem, [5]),
}


@pytest.mark.parametrize("text, node, value", NODES.values(), ids=NODES)
def test_expressions(run, text, node, value):
    """Every kind of expression is written in a way of its own, and evaluates to a value."""
    program = _function(text)
    binding = module(program)["main"].body.blocks[-1].bindings[-1]
    assert isinstance(binding.value, node)
    assert _plain(run(program, "main", np.array(5), np.array(True), (3,))) == value


def test_global_variables_are_values(run):
    """A GlobalVar evaluates to the function of its name, which can be called."""
    program = _function("M.g")
    assert isinstance(module(program)["main"].body.blocks[0].bindings[0].value, relax.GlobalVar)
    assert run(program, "main", np.array(5), np.array(True), (3,))(np.array(4)).numpy() == 8


def test_extern_functions_are_values(run):
    """An ExternFunc evaluates to the packed function of its name."""
    program = _function("R.ExternFunc('language.nodes.inc')")
    assert isinstance(module(program)["main"].body.blocks[0].bindings[0].value, relax.ExternFunc)
    assert run(program, "main", np.array(5), np.array(True), (3,))(4) == 5


@pytest.mark.parametrize("chosen", [True, False])
def test_an_if_is_an_expression(run, chosen):
    """An If evaluates to one of its branches, each a SeqExpr."""
    program = """
    @R.function
    def main(x: R.Tensor((), "int64"), c: R.Tensor((), "bool")) -> R.Tensor((), "int64"):
        if c:
            r = R.add(x, x)
        else:
            r = x
        return r
    """
    choice = module(program)["main"].body.blocks[0].bindings[0].value
    assert isinstance(choice, relax.If)
    assert isinstance(choice.true_branch, relax.SeqExpr)
    assert isinstance(choice.false_branch, relax.SeqExpr)
    assert run(program, "main", np.array(3), np.array(chosen)).numpy() == (6 if chosen else 3)


def test_a_function_is_an_expression(run):
    """A Function inside an expression is a literal without a name; it evaluates to a closure."""
    program = """
    @R.function
    def main(x: R.Tensor((), "int64")) -> R.Object:
        @R.function
        def add_x(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            z = R.add(x, y)
            return z

        return add_x
    """
    literal = module(program)["main"].body.blocks[0].bindings[0].value
    assert isinstance(literal, relax.Function)
    assert "global_symbol" not in literal.attrs
    assert run(program, "main", np.array(3))(np.array(4)).numpy() == 7


def test_an_op_is_only_called():
    """An Op is the `op` of a Call, nothing else."""
    call = module(_function("R.add(x, x)"))["main"].body.blocks[0].bindings[0].value
    assert call.op is relax.Op.get("relax.add")


LEAVES = [
    *("R.const(1)", "x", "M.g", "(x, (x, M.g))", "R.shape([n])", "R.prim_value(n)", "R.str('a')"),
    *("R.dtype('int8')", "R.ExternFunc('f')"),
]
OTHERS = ["R.add(x, x)", "M.g(x)", "(x, R.add(x, x))"]


@pytest.mark.parametrize("text", LEAVES + OTHERS)
def test_leaves(text):
    """Which expressions are leaves; a Tuple is one if its fields are."""
    mod = from_source(_function(text), check_well_formed=False)
    blocks = mod["main"].body.blocks
    bound = [binding.value for block in blocks for binding in block.bindings]
    assert relax.expr.is_leaf(bound[0]) is (text in LEAVES)


def test_blocks_and_bindings(run):
    """There are BindingBlocks and DataflowBlocks, and in them VarBindings and MatchCasts."""
    program = """
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n,), "float32"))
        with R.dataflow():
            z = R.add(y, y)
            w = R.add(z, y)
            R.output(w)
        return w
    """
    plain, dataflow = module(program)["main"].body.blocks
    assert (type(plain), type(dataflow)) == (relax.BindingBlock, relax.DataflowBlock)
    assert [type(b) for b in plain.bindings] == [relax.MatchCast]
    assert [type(b) for b in dataflow.bindings] == [relax.VarBinding] * 2
    assert [type(b.var) for b in dataflow.bindings] == [relax.DataflowVar, relax.Var]
    for size in (0, 1, 3):
        assert run(program, "main", ones(size)).numpy().tolist() == [3] * size


def test_the_variable_of_a_match_cast_may_be_left_out(run):
    """A MatchCast for its check alone needs no variable."""
    program = """
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Shape(ndim=1):
        n = T.int64()
        R.match_cast(x, R.Tensor((n,), "float32"))
        s = R.shape([n + 1])
        return s
    """
    assert run(program, "main", ones(2)) == (3,)


# ------------------------------------------------------------------------------------ scalar expressions

SCALARS = [
    *(("n", 7), ("n + m", 9), ("n - m", 5), ("n * m", 14), ("n // m", 3), ("n % m", 1)),
    *(("m - n", -5), ("(m - n) // m", -3), ("(m - n) % m", 1)),
    *(("T.truncdiv(m - n, m)", -2), ("T.truncmod(m - n, m)", -1)),
    *(("T.min(n, m)", 2), ("T.max(n, m)", 7)),
    *(("n == m", False), ("n != m", True), ("n < m", False), ("n <= 7", True), ("n > m", True), ("m >= n", False)),
    *(("T.And(n > m, n > 0)", True), ("T.Or(n < m, m < 0)", False), ("T.Not(n < m)", True)),
    *(("T.Select(n < m, n, m)", 2), ("T.if_then_else(n > m, n, m)", 7), ("T.Let(n + 1, where={n: m})", 3)),
    *(("T.Cast('float32', n)", 7.0), ("T.Cast('int8', n * 100)", -68), ("T.sqrt(T.Cast('float64', n + m))", 3.0)),
    *(("3", 3), ("1.5", 1.5), ("T.float32(0.5)", 0.5), ("T.bool(True)", True)),
]  # fmt: skip


@pytest.mark.parametrize("text, value", SCALARS, ids=[text for text, _ in SCALARS])
def test_scalar_expressions(run, text, value):
    """Scalar expressions over shape variables: arithmetic, comparisons, logic, Select, Let, Cast, intrinsics."""
    program = f"""
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    v = R.prim_value({text})
    return v
"""
    result = run(program, "main", ones(7, 2))
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize("size", [4, 8])
def test_scalar_expressions_of_tir(run, size):
    """In TIR there are loads from buffers, vectors (Ramp, Broadcast) and reductions besides."""
    program = f"""
@I.ir_module
class M:
    @T.prim_func
    def f(A: T.Buffer(({size},), "float32"), B: T.Buffer(({size},), "float32"), S: T.Buffer((), "float32")):
        for i in range({size} // 4):
            B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)] * T.Broadcast(T.float32(2), 4)
        for k in range({size}):
            with T.block("sum"):
                vk = T.axis.reduce({size}, k)
                with T.init():
                    S[()] = T.float32(0)
                S[()] = S[()] + T.max(A[vk], T.float32(1))

    @R.function
    def main(x: R.Tensor(({size},), "float32")):
        y = R.call_tir(M.f, (x,), [R.Tensor(({size},), "float32"), R.Tensor((), "float32")])
        return y
"""
    doubled, total = run(program, "main", np.arange(size, dtype="float32"))
    assert doubled.numpy().tolist() == [2 * i for i in range(size)]
    assert total.numpy() == sum(max(i, 1) for i in range(size))


def test_dimensions_are_int64():
    """In shapes, scalars are int64."""
    values = info("""
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        s = R.shape([n, n * 2, 3])
        return s
    """).values
    assert [value.dtype for value in values] == ["int64"] * 3


# ------------------------------------------------------------------------------------------------- dtypes

DTYPES = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"),
    *("bool", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int2", "int4", "uint2", "uint4"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(run, dtype):
    """Tensors of every supported dtype are passed, computed with and returned."""
    program = f"""
@R.function
def main(x: R.Tensor(("n",), "{dtype}"), y: R.Tensor(("n",), "{dtype}")) -> R.Tensor(("n",), "{dtype}"):
    z = R.where(R.equal(x, y), x, y)
    return z
"""
    for values in ([], [1], [0, 1, 1]):
        x = relax.nd.array(np.array(values).astype(relax.DataType(dtype).numpy()))
        result = run(program, "main", x, x)
        assert result.dtype == dtype
        assert result.numpy().astype("int64").tolist() == values


def test_uint1_is_bool():
    """bool is uint1."""
    assert relax.DataType("uint1") == relax.DataType("bool")


def test_void_is_an_unknown_dtype():
    """void is an unknown dtype, prints as "", and has no lanes; others have one lane in Relax."""
    void = relax.DataType("")
    assert (str(void), void.lanes) == ("", 0)
    assert str(relax.TensorStructInfo(None, "", None, 2)) == "R.Tensor(ndim=2)"
    assert relax.DataType("float32").lanes == 1
    with pytest.raises(relax.DiagnosticError, match="rule 20: the dtype float32x4 has 4 lanes"):
        from_source('@R.function\ndef main(x: R.Tensor((2,), "float32x4")):\n    return x')


def test_there_is_no_other_way_in():
    """What is compiled is what the text says: the machine lists exactly the entry points."""
    vm = machine(LINKAGE.format(private=False))
    assert "main" in vm
    assert "inner" not in vm
