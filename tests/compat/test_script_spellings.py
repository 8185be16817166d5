"""TVMScript in TVM's older and rarer spellings: each is read, printed, read again equal, and run where a CPU can."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import codegen, te, tir, topi
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import PLAIN_LOOPS, compiled, interpreted, run, same

HEAD = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (16,), "float32")
    B = T.match_buffer(b, (16,), "float32")
"""


def program(body):
    """The program, after a look whether its text is read again as the same."""
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    func = from_source(text, allow_extern=True)
    assert_structural_equal(from_source(func.script(show_meta=True), allow_extern=True), func)
    return func


def results(body, cpu=True):
    """A, and B by the interpreter, which is that of compiled code, unless a CPU cannot run it."""
    func, a = program(body), np.linspace(0.1, 0.9, 16, dtype="float32")
    found = interpreted(func, a, np.zeros(16, "float32"))
    if cpu:
        same(compiled(func, a, np.zeros(16, "float32"), target=PLAIN_LOOPS), found, rtol=1e-5)
    return found


# ------------------------------------------------------------------ dtype=

UNARY = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "sqrt", "rsqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "erf", "floor", "ceil", "trunc", "round", "nearbyint",
    "fabs", "abs",
)  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_dtype_of_a_unary_function(name):
    loop = "for i in range(16):\n    B[i] = T.{}(A[i]{})"
    assert_structural_equal(
        program(loop.format(name, ', dtype="float32"')), program(loop.format(name, "")), map_free_vars=True
    )
    with pytest.raises(DiagnosticError, match="the result has dtype float32, found dtype='float16'; cast an operand"):
        program(loop.format(name, ', dtype="float16"'))


@pytest.mark.parametrize(
    "old, new",
    [
        ('T.pow(A[0], A[1], dtype="float32")', "T.pow(A[0], A[1])"),
        ('T.atan2(A[0], A[1], dtype="float32")', "T.atan2(A[0], A[1])"),
        ('T.fmod(A[0], A[1], dtype="float32")', "T.fmod(A[0], A[1])"),
        ('T.if_then_else(A[0] < A[1], A[0], A[1], dtype="float32")', "T.if_then_else(A[0] < A[1], A[0], A[1])"),
        ('T.Cast("float32", T.isnan(A[0], dtype="bool"))', 'T.Cast("float32", T.isnan(A[0]))'),
        ('T.Cast("float32", T.popcount(7, dtype="int32"))', 'T.Cast("float32", T.popcount(7))'),
        ('T.Cast("float32", T.shift_left(3, 2, dtype="int32"))', 'T.Cast("float32", T.shift_left(3, 2))'),
        ('T.reinterpret(T.int32(5), dtype="float32")', 'T.reinterpret("float32", T.int32(5))'),
        ('T.call_pure_extern("sinf", A[0], dtype="float32")', 'T.call_pure_extern("float32", "sinf", A[0])'),
        ('T.call_intrin("tir.exp", A[0], dtype="float32")', 'T.call_intrin("float32", "tir.exp", A[0])'),
    ],
)
def test_dtype_of_other_functions(old, new):
    assert_structural_equal(program(f"B[0] = {old}"), program(f"B[0] = {new}"))


def test_extern_calls_with_their_dtype_last():
    first = program('T.evaluate(T.call_extern("f", A.data, A.access_ptr("r", offset=4), dtype="int32"))')
    second = program('T.evaluate(T.call_extern("int32", "f", A.data, T.tvm_access_ptr("float32", A.data, 4, '
                     'T.int64(12), 1)))')  # fmt: skip
    assert_structural_equal(first, second)
    program('T.evaluate(T.call_cpacked("f", A.data, dtype="int32"))')
    with pytest.raises(DiagnosticError, match="intrinsics of LLVM are not part of the language"):
        program('B[0] = T.call_llvm_pure_intrin("float32", "llvm.exp", T.uint32(1), A[0])')


# ------------------------------------------------------------------ loops, vectors, memory


def test_annotations_and_steps_of_loops():
    func = program('for i in range(16, annotations={"pragma": 1}):\n    B[i] = A[i]')
    assert func.body.annotations == {"pragma": 1}
    a, b = results("for i in T.serial(0, 16, step=4):\n    B[i] = A[i]")
    assert b.nonzero()[0].tolist() == [0, 4, 8, 12]
    with pytest.raises(DiagnosticError, match="range has no argument `note`"):
        program("for i in range(16, note=1):\n    B[i] = A[i]")
    for step in ("0", "2.5", "True", "i"):
        with pytest.raises(DiagnosticError, match="the step of a loop is a positive constant integer, found"):
            program(f"for i in range(2):\n    for j in T.serial(0, 16, step={step}):\n        B[j] = A[j]")


@pytest.mark.parametrize("body", ["B[T.Ramp(0, 1, 2.5)] = A[0:2]", "B[0:2] = T.Broadcast(T.float32(1), 2.5)"])
def test_a_vector_has_no_fraction_of_a_lane(body):
    with pytest.raises(DiagnosticError, match="'float' object cannot be interpreted as an integer"):
        program(body)


@pytest.mark.parametrize(
    "body, expected",
    [
        ("B[0:4] = A[0:4] + T.Broadcast(T.float32(1), 4)", lambda a: [*(a[:4] + 1), *[0] * 12]),
        ("B[0:4] = A[4:8] * 2.0", lambda a: [*(a[4:8] * 2), *[0] * 12]),
        ("B[0:4] = T.float32(2) - A[4:8]", lambda a: [*(2 - a[4:8]), *[0] * 12]),
        ("for i in range(4):\n    B[i * 4:i * 4 + 4] = A[i * 4:i * 4 + 4]", lambda a: a),
        ("B[0:8:2] = A[8:16:2]", lambda a: [a[8], 0, a[10], 0, a[12], 0, a[14], 0, *[0] * 8]),
        ("B[0:4] = 1.0", lambda a: [1] * 4 + [0] * 12),
        ("B[0:4] = A[0:4]\nB[0:4] += A[4:8]", lambda a: [*(a[:4] + a[4:8]), *[0] * 12]),
        ("B[3:4] = T.max(A[3:4], 0.5)", lambda a: [0, 0, 0, 0.5, *[0] * 12]),
        ("B[0:4] = T.max(A[0:4], T.float32(0.2))", lambda a: [*np.maximum(a[:4], np.float32(0.2)), *[0] * 12]),
    ],
)
def test_vector_slices(body, expected):
    a, b = results(body)
    np.testing.assert_allclose(b, np.asarray(expected(a), "float32"), rtol=1e-6)


@pytest.mark.parametrize(
    "body, message",
    [
        ("n = A[0]\nfor i in range(4):\n    B[0:i] = A[0:i]", "a constant number of elements, found i"),
        ("B[0:4] = A[0:8]", "BufferStore|lanes|holds float32x4"),
        ("B[4:0] = A[4:0]", "a constant number of elements, found -4"),
    ],
)
def test_slices_that_are_no_vectors(body, message):
    with pytest.raises(DiagnosticError, match=message):
        program(body)


def test_pointers_and_views():
    a, b = results('p: T.handle("float32") = A.data\nC = T.Buffer((16,), "float32", data=p)\nB[0] = C[3]')
    assert b[0] == a[3]
    results("p: T.Ptr[T.float32] = A.data\nC = T.Buffer((4, 4), data=p)\nB[0] = C[1, 2]")
    results("C = T.Buffer((16,))\nC[0] = A[0]\nB[0] = C[0]")
    results(
        'C = T.allocate([16], "float32", "global")\nD = T.Buffer((16,), "float32", data=C)\nD[0] = A[1]\nB[0] = D[0]'
    )
    func = from_source(
        """
    @T.prim_func
    def main(p: T.Ptr[T.float32], q: T.handle("float32", "global")):
        T.evaluate(T.call_extern("int32", "f", p, q))
    """,
        allow_extern=["f"],
    )
    assert [str(p.dtype) for p in func.params] == ["handle", "handle"]
    assert_structural_equal(from_source(func.script(show_meta=True), allow_extern=True), func)


def test_constants_in_memory():
    for text in (
        'C = T.allocate_const([1., 2., 3., 4.], "float32", [4])\nD = T.decl_buffer((4,), "float32", data=C)\nB[0] = D[1]',
        'with T.allocate_const([1, 2, 3, 4], "float32", (2, 2)) as C:\n    B[0] = C[0, 1]',
    ):
        _, b = results(text)
        assert b[0] == 2
    with pytest.raises(DiagnosticError, match="found 3 numbers for the shape"):
        program('C = T.allocate_const([1, 2, 3], "float32", [4])')
    with pytest.raises(DiagnosticError, match="more than 4096 numbers"):
        program('C = T.allocate_const([0] * 5000, "float32", [5000])')


def test_facts_of_buffers():
    a, b = results("B[0] = T.Cast(A.dtype, A.shape[0]) + T.float32(A.ndim)\n"
               "C = T.alloc_buffer((4, 4), strides=[8, 1])\n"
               "B[1] = T.Cast('float32', C.strides[0] + C.offset_of([2, 1])[0])")  # fmt: skip
    assert (b[0], b[1]) == (17, 25)


# ------------------------------------------------------------------ statements of rarer use


def test_assume_and_undef():
    a, b = results("T.assume(A[0] > T.float32(0))\nB[0] = A[0]\nB[1] = T.undef(dtype='float32')")
    assert b[0] == a[0]
    results("T.evaluate(T.assume(A[0] > T.float32(0)))\nB[0] = A[0]")
    wrong = program("T.assume(A[0] < T.float32(0))\nB[0] = A[0]")
    with pytest.raises(AssertionError, match=r"the assumption .* does not hold"):
        tir.interpret(wrong, np.ones(16, "float32"), np.ones(16, "float32"))
    codegen.build_module({"main": wrong})["main"](np.ones(16, "float32"), np.ones(16, "float32"))  # not relied on


def test_ret_is_kept_and_refused_by_name():
    func = program("B[0] = A[0]\nT.ret(0)")
    assert func.body.seq[1].value.op.name == "tir.ret"
    with pytest.raises(TypeError, match="returns a value"):
        tir.interpret(func, np.ones(16, "float32"), np.ones(16, "float32"))
    with pytest.raises(DiagnosticError, match="E5903.*ret is an intrinsic of plain functions"):
        codegen.build_module({"main": func})


def test_target_of_a_function():
    assert program('T.func_attr({"target": T.target("llvm")})\nB[0] = A[0]').attrs["target"] == "llvm"
    described = program('T.func_attr({"target": T.target({"kind": "llvm"}, host="llvm")})\nB[0] = A[0]')
    assert described.attrs["target"] == {"kind": "llvm", "host": "llvm"}
    hosted = program('T.func_attr({"target": T.target("cuda", host="llvm")})\nB[0] = A[0]')
    assert hosted.attrs["target"] == {"kind": "cuda", "host": "llvm"}
    with pytest.raises(DiagnosticError, match="described by text or by a table"):
        program('T.func_attr({"target": T.target(1)})\nB[0] = A[0]')


@pytest.mark.parametrize(
    "body",
    [
        'tx = T.env_thread("threadIdx.x")\nT.launch_thread(tx, 16)\nB[tx] = A[tx]',
        'with T.launch_thread("threadIdx.x", 16) as tx:\n    B[tx] = A[tx]',
        'tx = T.launch_thread("threadIdx.x", 16)\nB[tx] = A[tx]',
        'bx = T.launch_thread("blockIdx.x", 4)\ntx = T.launch_thread("threadIdx.x", 4)\nB[bx * 4 + tx] = A[bx * 4 + tx]',
        'tx = T.env_thread("threadIdx.x")\nwith T.launch_thread(tx, 8):\n    B[tx] = A[tx]\n'
        "with T.launch_thread(tx, 8):\n    B[tx + 8] = A[tx + 8]",
    ],
)
def test_threads_are_kept_and_refused_on_a_cpu(body):
    a, b = results(body, cpu=False)  # the interpreter runs one thread after the other
    np.testing.assert_array_equal(a, b)
    func = program(body)
    assert "T.env_thread(" in func.script()
    tir.verify_well_formed(func)
    lowered = tir.lower(func)
    assert_structural_equal(from_source(lowered.script(show_meta=True)), lowered)
    with pytest.raises(DiagnosticError, match=r"E5906.*is a thread of a GPU \((threadIdx|blockIdx).x\)"):
        codegen.build_module({"main": func})


def test_wrong_threads():
    with pytest.raises(DiagnosticError, match="`i` is no thread; make it by T.env_thread"):
        program("for i in range(4):\n    T.launch_thread(i, 4)\n    B[i] = A[i]")
    with pytest.raises(DiagnosticError, match="launch_thread takes a thread's tag"):
        program("T.launch_thread(4, 4)\nB[0] = A[0]")


def test_nonlocal():
    size, name = 8, "A"

    @T.prim_func
    def main(A: T.Buffer((size,), "float32")):
        nonlocal size
        for i in range(size):
            A[i] = T.float32(size)

    x = np.zeros(8, "float32")
    tir.interpret(main, x)
    assert x.tolist() == [8] * 8
    with pytest.raises(DiagnosticError, match="`nothing` is not defined around this function"):
        program("global nothing\nB[0] = A[0]")


def test_range_and_iter_var_in_a_script():
    thread = tir.AttrStmt(
        tir.IterVar((0, 4), "t", 0), "note", tir.IntImm("int32", 1), tir.Evaluate(tir.IntImm("int32", 0))
    )
    assert "T.iter_var(t, (0, 4)" in thread.script()
    program(
        "for i in range(16):\n    with T.block('b'):\n        v = T.axis.spatial(T.Range(0, 16), i)\n        B[v] = A[v]"
    )


# ------------------------------------------------------------------ macros

SCALE = 3.0


@T.macro
def fill(buffer, n, value=SCALE, *rest):
    """Numbers in the first elements."""
    for i in range(n):
        buffer[i] = value


@T.macro(hygienic=False)
def at_k(buffer):
    buffer[k] = T.float32(factor)


@T.macro
def twice_over(buffer):
    fill(buffer, 4)
    fill(buffer, n=2, value=T.float32(1))


def test_macros():
    factor = 7

    @T.prim_func
    def main(B: T.Buffer((8,), "float32")):
        twice_over(B)
        for k in range(4, 6):  # noqa: B007 (a name for the macro)
            at_k(B)

    x = np.zeros(8, "float32")
    tir.interpret(main, x)
    assert x.tolist() == [1, 1, 3, 3, 7, 7, 0, 0]
    assert_structural_equal(from_source(main.script(show_meta=True)), main)


MACRO = """
@T.macro
def inc(A, i):
    A[i] = A[i] + T.float32(1)

@T.macro
def loop(A):
    loop(A)

@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        CALL
"""


def test_macros_in_text():
    func = from_source(MACRO.replace("CALL", "inc(A, i)"))
    x = np.zeros(8, "float32")
    tir.interpret(func, x)
    assert x.tolist() == [1] * 8


@pytest.mark.parametrize(
    "call, message",
    [
        ("inc(A)", "macro inc: argument `i` is missing"),
        ("inc(A, 1, 2)", "macro inc: expected 2 arguments, found 3"),
        ("inc(A, j=1)", "macro inc: no parameter for the argument `j`"),
        ("inc(A, q)", "`q` is not defined"),
        ("loop(A)", "the macro loop calls itself"),
        ("inc(i, A)", "a Var has no elements to index"),
    ],
)
def test_wrong_calls_of_macros(call, message):
    with pytest.raises(DiagnosticError, match=message):
        from_source(MACRO.replace("CALL", call))


def test_macros_are_no_functions():
    with pytest.raises(TypeError, match="the macro fill is called inside a function of T"):
        fill(None, 4)
    with pytest.raises(DiagnosticError, match=r"T\.macro decorates functions"):
        T.macro(3)
    with pytest.raises(DiagnosticError, match="fill is a macro of T, which cannot be called here"):

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            fill(x, 4)
            return x


@R.macro
def doubled(x, function, *, bias=None):
    y = function(x)
    return R.add(y, y)


def test_macros_of_relax():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = doubled(x, R.exp)
                b = doubled(a, lambda v: v)
                R.output(b)
            return b

    assert_structural_equal(from_source(Module.script(show_meta=True)), Module)
    x = np.array([0.5, 1], "float32")
    out = run(Module, x)
    np.testing.assert_allclose(out, 4 * np.exp(x), rtol=1e-5)


# ------------------------------------------------------------------ Relax


def scaled(a, n):
    return te.compute(a.shape, lambda *i: a(*i) * 2.0 + n.astype("float32"), "scaled")


def test_emit_te_and_facts_of_tensors():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, "n"), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.emit_te(topi.add, x, R.sqrt(x))
                b = R.emit_te(scaled, a, n, primfunc_name_hint="scaled_by_n")
                c = R.reshape(b, R.ShapeExpr([x.shape[0] * x.shape[1]]))
                d = R.astype(c, x.dtype)
                e = R.full(R.shape([x.ndim]), R.const(1, x.dtype), x.dtype)
                s = R.prim_value(x.strides[0] + x.elem_offset)
                R.output(d, e, s)
            return (d, e, s)

    assert_structural_equal(from_source(Module.script(show_meta=True)), Module)
    assert {g.name_hint for g in Module.get_global_vars()} == {"main", "add", "scaled_by_n"}
    x = np.ones((4, 3), "float32")
    d, e, s = run(Module, x)
    np.testing.assert_allclose(d, np.full(12, 7))
    assert (e.tolist(), s) == ([1, 1], 3)


def test_the_rank_of_a_shape():
    @R.function
    def main(s: R.Shape(ndim=3)):
        return R.prim_value(s.ndim)

    assert main.body.body.value == 3


@pytest.mark.parametrize(
    "line, message",
    [
        ("y = x.shape[0]", "the `shape` of this tensor is not known here; match_cast it"),
        ("y = s.dtype", "`dtype` is known of tensors only"),
        ("y = R.emit_te(1, x)", "R.emit_te adds a function: it stands in a class under @I.ir_module"),
    ],
)
def test_facts_that_are_not_known(line, message):
    with pytest.raises(DiagnosticError, match=message):
        from_source(f"@R.function\ndef f(x: R.Tensor(ndim=2), s: R.Shape(ndim=2)):\n    {line}\n    return y")


def test_emit_te_of_what_is_no_function_or_not_known():
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), o: R.Object):
            y = R.emit_te(CALL)
            return y
    """
    for call, message in [
        ("1, x", "R.emit_te takes a function of tensor expressions"),
        ("", "R.emit_te takes a function of tensor expressions"),
        ("f, o", "has no form in tensor expressions"),
    ]:
        with pytest.raises(DiagnosticError, match=message):
            from_source(text.replace("CALL", call), {"f": topi.exp})


# ------------------------------------------------------------------ printing


@I.ir_module
class Aliased:
    @T.prim_func(private=True)
    def fill_one(a: T.handle, n: T.int64):
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = T.float32(1)

    @T.prim_func(private=True)
    def calls(a: T.handle, n: T.int64):
        A = T.match_buffer(a, (n,), "float32")
        Aliased.fill_one(A.data, n)

    @R.function
    def g(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return x

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        R.func_attr({"note": 1})
        z: R.Object = R.add(x, x)
        y = Aliased.g(x)
        return (y, z)


@pytest.mark.parametrize(
    "options, shown",
    [
        ({}, "cls.g(x)"),
        ({"module_alias": ""}, "Module.g(x)"),
        ({"module_alias": "", "name": "Mine"}, "Mine.g(x)"),
        ({"module_alias": "mod"}, "mod = Module"),
        ({"module_alias": "Module"}, "Module.g(x)"),
        ({"show_all_struct_info": False}, "        y = cls.g(x)"),
        ({"show_all_struct_info": False}, "z: R.Object = R.add(x, x)"),
    ],
)
def test_options_of_the_printer(options, shown):
    text = Aliased.script(**options)
    assert shown in text
    assert_structural_equal(from_source(text), Aliased)


def test_views():
    """R.memory.view gives a tensor of its own."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            whole = R.memory.view(x, R.shape([4, n]))
            part = R.memory.view(x, R.shape([n, 2]), relative_byte_offset=8)
            same = R.memory.view(x, dtype="float32")
            return (whole, part, same)

    x = np.arange(12, dtype="float32").reshape(3, 4)
    whole, part, same = run(Module, x)
    np.testing.assert_array_equal(whole, x.reshape(4, 3))
    np.testing.assert_array_equal(part, x.ravel()[2:8].reshape(3, 2))
    np.testing.assert_array_equal(same, x)
    assert relax.interpret(Module, "main", x)[1].numpy().tolist() == part.tolist()


VIEWS = {
    "dtype='uint32'": ('R.Tensor((3, 4), "uint32")', lambda x: x.view("uint32")),
    "dtype=R.dtype('float16')": ('R.Tensor((3, 8), "float16")', lambda x: x.view("float16")),
    "R.shape([4, 3])": ('R.Tensor((4, 3), "float32")', lambda x: x.reshape(4, 3)),
    "R.shape([2, 5])": ('R.Tensor((2, 5), "float32")', lambda x: x.ravel()[:10].reshape(2, 5)),
    "R.shape([2, 5]), 'uint8'": ('R.Tensor((2, 5), "uint8")', lambda x: x.view("uint8").ravel()[:10].reshape(2, 5)),
    "R.shape([6]), R.dtype('float64')": ('R.Tensor((6,), "float64")', lambda x: x.ravel().view("float64")),
    "R.shape([3]), 'float64', 4": ('R.Tensor((3,), "float64")', lambda x: x.ravel()[1:7].view("float64")),
    "R.shape([3, 2]), 'int16', R.prim_value(8)": (
        'R.Tensor((3, 2), "int16")',
        lambda x: x.view("int16").ravel()[4:10].reshape(3, 2),
    ),
}


KNOWN = ('(3, 4), "float32"', '("n", 4), "float32"', '"float32", ndim=2', '"float32"', "")
NEEDS_DTYPE = ("R.shape([3]), 'float64', 4", "R.shape([3, 2]), 'int16', R.prim_value(8)")


@pytest.mark.parametrize(
    "arguments, known", [(a, known) for a in VIEWS for known in KNOWN if known or a not in NEEDS_DTYPE]
)
def test_views_of_bytes(arguments, known):
    """R.memory.view reads bytes as another dtype, and a tensor of which nothing is known."""
    info, expected = VIEWS[arguments]
    module = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({known})):
        y = R.memory.view(x, {arguments})
        return y
""")
    if "3, 4" in known:
        assert struct_info_text(module["main"].ret_struct_info) == info
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    np.testing.assert_array_equal(run(module, x), expected(x))
    np.testing.assert_array_equal(relax.interpret(module, "main", x).numpy(), expected(x))


@pytest.mark.parametrize("arguments", NEEDS_DTYPE)
def test_an_offset_needs_the_width_of_elements(arguments):
    with pytest.raises(relax.DiagnosticError, match="an offset needs the dtype of data, which is not known"):
        from_source(f"""
            @R.function
            def main(x: R.Tensor):
                return R.memory.view(x, {arguments})
        """)


def test_a_view_of_an_unknown_tensor_derives_its_shape():
    function = from_source("""
        @R.function
        def main(A: R.Tensor):
            return R.memory.view(A, R.shape([4, 4]))
    """)
    assert struct_info_text(function.ret_struct_info) == "R.Tensor((4, 4))"


@pytest.mark.parametrize(
    "call, message",
    [
        ('R.memory.view(x, dtype="int4")', "dtype must be a dtype of whole bytes"),
        ('R.memory.view(x, R.shape([4]), dtype="float64")', "the numbers of elements differ"),
        ('R.memory.view(x, R.shape([2]), "float64", 2)', "a number of whole elements"),
        ('R.memory.view(x, dtype="foo")', "memory.view: unknown dtype 'foo'"),
        ("R.memory.view(x, R.shape([2]), relative_byte_offset=3)", "a number of whole elements"),
        ("R.memory.view(x, relative_byte_offset=4)", "shape must be given"),
        ("R.memory.view(x, R.shape([7]))", "the numbers of elements differ"),
        ("R.memory.view(x, R.shape([3]), relative_byte_offset=16)", "the numbers of elements differ"),
    ],
)
def test_views_that_are_none(call, message):
    with pytest.raises(relax.DiagnosticError, match=message):
        from_source(f"""
            @R.function
            def main(x: R.Tensor((6,), "float32")):
                return {call}
        """)


def test_a_dtype_that_is_none_is_a_diagnostic_of_calls_too():
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    for call, name in (
        (lambda: R.memory.view(x, dtype="foo"), "memory.view"),
        (lambda: R.builtin.alloc_tensor(R.shape([3]), "foo", 0), "alloc_tensor"),
        (lambda: R.memory.alloc_storage(R.shape([3]), 0, "global", "foo"), "alloc_storage"),
    ):
        with pytest.raises(relax.DiagnosticError, match=f"{name}: .*unknown dtype 'foo'"):
            call()


@pytest.mark.parametrize("option", ["module_alias", "ir_prefix", "tir_prefix", "relax_prefix"])
def test_a_prefix_is_a_name(option):
    with pytest.raises(ValueError, match=f"{option} must be a name, found 'a b'"):
        relax.IRModule().script(**{option: "a b"})
