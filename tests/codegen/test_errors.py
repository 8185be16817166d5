"""Errors while running (defined, never a crash), and programs there is no code for (all of it reported)."""

from __future__ import annotations

import builtins
import ctypes

import numpy as np
import pytest

from relax import codegen, te, tir
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def take(a: T.handle, i: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, 3), "float32")
        Index = T.match_buffer(i, (m,), "int32")
        B = T.match_buffer(b, (m, 3), "float32")
        for k, j in T.grid(m, 3):
            B[k, j] = A[Index[k], j]

    @T.prim_func
    def scatter(i: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        Index = T.match_buffer(i, (m,), "int64")
        B = T.match_buffer(b, (n,), "int32")
        for k in range(m):
            B[Index[k]] = B[Index[k]] + 1

    @T.prim_func
    def divide(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        C = T.match_buffer(c, (n,), "int32")
        for i in range(n):
            C[i] = A[i] // B[i]

    @T.prim_func
    def places(i: T.handle, a: T.handle, b: T.handle):
        n = T.int64()
        Index = T.match_buffer(i, (3,), "int64")
        A = T.match_buffer(a, (n, n), "int32")
        B = T.match_buffer(b, (n, n), "int32")
        B[Index[0], 1 // Index[1]] = A[Index[2], 0 % Index[2]]

    @T.prim_func
    def guarded(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        C = T.match_buffer(c, (n,), "int32")
        for i in range(n):
            C[i] = T.Select(B[i] != 0, A[i] % B[i], -1)

    @T.prim_func
    def positive(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            assert A[i] > T.float32(0), "100% of the values must be positive"
            A[i] = T.float32(0)

    @T.prim_func
    def shifted(a: T.handle, k: T.int32):
        A = T.match_buffer(a, (10,), "float32")
        for i in range(10):
            A[i + k] = T.float32(i)

    @T.prim_func
    def storage(k: T.int64):
        t = T.alloc_buffer((k, 8), "float32")
        for i in range(k):
            t[i, 0] = T.float32(1)

    @T.prim_func
    def product(k: T.int64, m: T.int64):
        t = T.alloc_buffer((k * m,), "float32")
        for i, j in T.grid(k, m):
            t[i * m + j] = T.float32(1)

    @T.prim_func
    def square(k: T.int64):
        t = T.alloc_buffer((k, k), "float32")
        t[0, 0] = T.float32(1)

    @T.prim_func
    def constant(k: T.int64):
        t = T.alloc_buffer((1125899906842624, 0), "int8")
        for i in range(k):
            t[i, 0] = T.int8(1)

    @T.prim_func
    def outer(a: T.handle, i: T.handle, b: T.handle):
        A = T.match_buffer(a, (5, 3), "float32")
        Index = T.match_buffer(i, (2,), "int32")
        B = T.match_buffer(b, (2, 3), "float32")
        large = T.alloc_buffer((100000,), "float32")
        large[0] = T.float32(1)
        Module.take(A.data, Index.data, B.data)


@pytest.fixture(scope="module")
def module():
    return codegen.build_module(Module)


def raises(error, message, function, *args):
    with pytest.raises(error) as caught:
        function(*args)
    assert str(caught.value) == message


def i32(*values):
    return np.array(values, "int32")


@pytest.mark.parametrize("index", [5, -1, 2**31 - 1, -(2**31)])
def test_indices_out_of_bounds(module, index):
    a, b = np.ones((5, 3), "float32"), np.zeros((2, 3), "float32")
    raises(
        IndexError,
        f"take: buffer A: index {index} is out of bounds for dimension 0 of size 5",
        module["take"], a, i32(0, index), b,
    )  # fmt: skip
    np.testing.assert_array_equal(b, [[1] * 3, [0] * 3])  # what came before was done
    raises(
        IndexError,
        f"scatter: buffer B: index {index} is out of bounds for dimension 0 of size 4",
        module["scatter"], np.array([index]), np.zeros(4, "int32"),
    )  # fmt: skip


def test_an_index_computed_from_a_parameter(module):
    a = np.zeros(10, "float32")
    module["shifted"](a, 0)
    np.testing.assert_array_equal(a, np.arange(10))
    message = "shifted: buffer A: index {} is out of bounds for dimension 0 of size 10"
    raises(IndexError, message.format(10), module["shifted"], a, 3)
    raises(IndexError, message.format(-2), module["shifted"], a, -2)
    raises(IndexError, message.format(2**31 - 1), module["shifted"], a, 2**31 - 1)


def test_division_by_zero(module):
    raises(
        ZeroDivisionError, "divide: integer division by zero",
        module["divide"], i32(1, 2), i32(1, 0), i32(0, 0),
    )  # fmt: skip
    c = i32(0, 0, 0)
    module["divide"](i32(7, -7, -(2**31)), i32(2, 2, -1), c)
    assert c.tolist() == [3, -4, -(2**31)]


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ((0, 1, 1), None),
        ((9, 0, 9), "ZeroDivisionError: integer division by zero"),
        ((9, 1, 9), "IndexError: buffer A: index 9 is out of bounds for dimension 0 of size 2"),
        ((9, 1, 0), "ZeroDivisionError: integer division by zero"),
        ((9, 1, 1), "IndexError: buffer B: index 9 is out of bounds for dimension 0 of size 2"),
    ],
)
def test_what_fails_first(module, indices, message):
    """All indices are evaluated, those of the store before its value; then each is compared with its dimension."""
    place, a, b = np.array(indices), np.full((2, 2), 7, "int32"), np.zeros((2, 2), "int32")
    if message is None:
        module["places"](place, a, b)
        assert b.tolist() == [[0, 7], [0, 0]]
        return
    kind = getattr(builtins, message.split(":")[0])
    raises(kind, f"places: {message.split(': ', 1)[1]}", module["places"], place, a, b)
    with pytest.raises(kind):
        tir.interpret(Module["places"], place, a, b)


def test_a_select_does_not_evaluate_what_would_fail(module):
    c = i32(9, 9)
    module["guarded"](i32(7, 7), i32(4, 0), c)
    assert c.tolist() == [3, -1]


def test_assertions(module):
    a = np.ones(3, "float32")
    module["positive"](a)
    raises(AssertionError, "positive: 100% of the values must be positive", module["positive"], a)


def test_storage_that_cannot_be(module):
    module["storage"](0)
    module["storage"](100)
    expected = "expected a size, at least 0 and less than 2**48"
    for k in (-1, -(2**63), 2**48, 2**58, 2**62):
        raises(ValueError, f"storage: buffer t: dimension 0 is {k}, {expected}", module["storage"], k)
    raises(ValueError, f"constant: buffer t: dimension 0 is {2**50}, {expected}", module["constant"], 1)
    raises(MemoryError, "square: buffer t is too large for any memory", module["square"], 2**40)
    with pytest.raises(MemoryError, match=r"storage: out of memory: buffer t needs \d+ bytes"):
        module["storage"](2**47)


def test_storage_of_a_size_that_leaves_64_bits(module):
    """Not a small one, beyond which the loops would write."""
    module["product"](3, 5)
    overflow = "a size does not fit into 64 bits: k * m"
    for k, m in ((2**32, 2**32), (2**62, 4), (2**40, 2**24 + 1)):
        raises(OverflowError, f"product: {overflow}", module["product"], k, m)
        with pytest.raises(OverflowError) as caught:
            tir.interpret(Module["product"], k, m)
        assert str(caught.value) == overflow
    expected = "expected a size, at least 0 and less than 2**48"
    for k, m in ((2**24, 2**24), (-1, 3)):
        raises(ValueError, f"product: buffer t: dimension 0 is {k * m}, {expected}", module["product"], k, m)
        with pytest.raises(ValueError, match="^buffer t: dimension 0 is") as found:
            tir.interpret(Module["product"], k, m)
        assert str(found.value) == f"buffer t: dimension 0 is {k * m}, {expected}"


def test_the_error_of_a_called_function_is_the_callers(module):
    a, b = np.ones((5, 3), "float32"), np.zeros((2, 3), "float32")
    module["outer"](a, i32(0, 4), b)
    raises(
        IndexError, "take: buffer A: index 5 is out of bounds for dimension 0 of size 5",
        module["outer"], a, i32(0, 5), b,
    )  # fmt: skip


def test_storage_is_given_back_on_errors(module):
    """A million bytes each time, a thousand times."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("no way to ask the allocator")

    class Info(ctypes.Structure):
        _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd usmblks fsm u f k".split()]

    libc.mallinfo2.restype = Info
    used = lambda: libc.mallinfo2().u + libc.mallinfo2().hblkhd  # noqa: E731
    a, b = np.ones((5, 3), "float32"), np.zeros((2, 3), "float32")

    def run():
        for index in (4, 5) * 100:
            try:
                module["outer"](a, i32(0, index), b)
            except IndexError:
                pass

    run()
    before = used()
    run()
    assert used() - before < 1_000_000


def test_messages_too_long_are_cut():
    a = tir.decl_buffer((4,), "float32", "x" * 3000)
    i, p = tir.decl_buffer((1,), "int32", "I"), tir.Var("p", "handle")
    q = tir.Var("q", "handle")
    func = tir.PrimFunc((p, q), tir.BufferStore(a, 1.0, [i[0]]), buffer_map={p: a, q: i})
    with pytest.raises(IndexError, match="main: buffer xxx") as caught:
        codegen.build_module(func)["main"](np.zeros(4, "float32"), i32(9))
    assert len(str(caught.value)) < 1100


def test_a_loop_longer_than_its_variable_can_count():
    i, n, p = tir.Var("i", "int8"), tir.Var("n", "int64"), tir.Var("p", "handle")
    b = tir.decl_buffer((n,), "int32", "B")
    loop = tir.For(i, 0, n, "serial", tir.BufferStore(b, 1, [i]))
    built = codegen.build_module(tir.PrimFunc((p,), loop, buffer_map={p: b}))["main"]
    out = np.zeros(128, "int32")
    built(out)
    assert out.all()
    raises(OverflowError, "main: loop i: 128 does not fit int8", built, np.zeros(129, "int32"))


# ------------------------------------------------------------------------------- no code for it


def diagnostics(funcs):
    with pytest.raises(DiagnosticError) as caught:
        codegen.compile_module(funcs)
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_everything_without_code_is_reported_at_once(kernels):
    from relax.prim import Call

    n, free = tir.Var("n", "int64"), tir.Var("free", "int64")
    a = tir.decl_buffer((n,), "float32", "A")
    stray = tir.decl_buffer((4,), "float32", "stray")
    i = tir.Var("i", "int64")
    two_mistakes = tir.SeqStmt((
        tir.BufferStore(a, Call("float32", "tir.exq", (a[0],)), [0]),
        tir.BufferStore(stray, 1.0, [0]),
        tir.For(i, 0, 4, "thread_binding", tir.BufferStore(a, 1.0, [i]), thread_binding="threadIdx.x"),
    ))  # fmt: skip
    b = tir.decl_buffer((free * 2,), "float32", "B")
    found = diagnostics({"one": kernels.over(two_mistakes, a), "two": kernels.over(tir.BufferStore(b, 1.0, [0]), b)})
    assert found == [
        ("E5903", "there is no code for the intrinsic tir.exq"),
        ("E5905", "buffer stray is used where it has no storage"),
        ("E5906", "loop i is bound to a GPU's threads; the target is a CPU"),
        ("E5907", "free, in dimension 0 of buffer B, stands alone in no dimension of any parameter"),
    ]


def test_an_error_points_at_its_statement():
    from relax.script import from_source

    func = from_source("""
@T.prim_func
def f(a: T.Buffer((8,), "float32")):
    for i in range(8):
        a[i] = T.float32(1)
    for i in T.thread_binding(8, thread="threadIdx.x"):
        a[i] = T.cast(T.cast(a[i], "int1"), "float32")
""")
    with pytest.raises(DiagnosticError) as caught:
        codegen.build_module({"f": func})
    assert [(d.code, d.span.line, d.span.column) for d in caught.value.diagnostics] == [("E5906", 6, 5)]
    with pytest.raises(DiagnosticError) as caught:
        codegen.build_module({"f": from_source(SMALL_INTEGER)})
    assert [(d.code, d.span.line, d.span.column) for d in caught.value.diagnostics] == [("E5901", 5, 9)]


SMALL_INTEGER = """
@T.prim_func
def f(a: T.Buffer((8,), "float32")):
    for i in range(8):
        b = T.alloc_buffer((1,), "int1")
        b[0] = T.cast(a[i], "int1")
"""


def test_the_message_names_the_function_and_close_names(kernels):
    from relax.prim import Call

    func = kernels.elementwise(lambda x: Call("float32", "tir.tanhh", (x,)), ["float32"], "float32")
    with pytest.raises(DiagnosticError) as caught:
        codegen.compile_module({"f": func})
    assert "in PrimFunc f" in str(caught.value)
    assert "similar ones: tanh" in str(caught.value)


@pytest.mark.parametrize("dtype", ["int1", "int1x4"])
def test_types_there_is_no_code_for(kernels, dtype):
    func = kernels.elementwise(lambda x: x, [dtype], dtype)
    assert diagnostics({"f": func})[0] == ("E5901", f"there is no code for values of dtype '{dtype}'")


def test_a_call_must_fit_the_function_called():
    from relax.ir import GlobalVar

    a = tir.decl_buffer((4,), "float32", "A")
    p = tir.Var("p", "handle")
    callee = tir.PrimFunc((p,), tir.BufferStore(a, 1.0, [0]), buffer_map={p: a})

    def caller(name, buffer, *args):
        q = tir.Var("q", "handle")
        call = tir.Evaluate(tir.Call("int32", GlobalVar(name), args))
        return tir.PrimFunc((q,), call, buffer_map={q: buffer})

    b = tir.decl_buffer((4,), "float64", "B")
    funcs = {
        "f": callee,
        "missing": caller("g", b, b.data),
        "count": caller("f", b, b.data, b.data),
        "kind": caller("f", b, b.data),
    }
    assert diagnostics(funcs) == [
        ("E5903", "the function g is not in the module being compiled"),
        ("E5903", "a call of f has 2 arguments, expected 1"),
        ("E5903", "f: buffer B is float64 of 1 dimensions, parameter A is float32 of 1"),
    ]
    c = tir.decl_buffer((5,), "float32", "C")
    built = codegen.build_module({"f": callee, "g": caller("f", c, c.data)})
    raises(
        ValueError, "g: call of f: argument A: dimension 0 is 5, expected 4",
        built["g"], np.zeros(5, "float32"),
    )  # fmt: skip


def test_c_functions_that_cannot_be_called(kernels):
    def func(*args):
        return kernels.elementwise(lambda x: tir.call_extern("float32", *args, x), ["float32"], "float32")

    wrong_name = ("E5903", "call_extern: the first argument must be the name of a C function")
    assert diagnostics({"f": func("llvm.trap")})[0] == wrong_name
    assert diagnostics({"f": func("")})[0] == wrong_name
    half = kernels.elementwise(lambda x: tir.call_extern("float16", "g", x), ["float16"], "float16")
    message = "call_extern g: a C function cannot take or return a float16"
    assert diagnostics({"f": half})[0] == ("E5903", message)
    ((code, message),) = diagnostics({"f": func(codegen.symbol_name("f"))})
    assert code == "E5909"
    assert message == "call_extern __tvm_ffi_f: this is no C function, but one that the module itself defines"
    others = {"g": func(codegen.symbol_name("f")), "f": kernels.elementwise(lambda x: x, ["float32"], "float32")}
    assert [code for code, _ in diagnostics(others)] == ["E5909"]
    with pytest.raises(ValueError, match="it needs symbols nobody here defines: no_such_function"):
        codegen.build_module({"f": func("no_such_function")})


def test_only_prim_funcs():
    with pytest.raises(DiagnosticError, match="main: only PrimFuncs can be compiled here"):
        codegen.build_module({"main": te.placeholder})
