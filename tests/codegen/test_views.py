"""A view of a buffer's memory lies inside of it: no index of a view leads out of the memory it names."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from relax import codegen, tir
from relax.ir import DiagnosticError
from relax.runtime import nd
from relax.script import from_source

HEAD = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int64, m: T.int64):
    A = T.match_buffer(a, (16,), "float32")
    B = T.match_buffer(b, (16,), "float32")
    C = T.decl_buffer({}, data=A.data)
    B[0] = {}
"""


def run(layout, value, n=0, m=0):
    a, b = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    func = from_source(HEAD.format(layout, value))
    codegen.build_module({"main": func})["main"](a, b, n, m)
    expected = np.zeros(16, "float32")
    tir.interpret(func, a, expected, n, m)
    np.testing.assert_array_equal(b, expected)
    return b[0]


@pytest.mark.parametrize(
    "layout, value, n, m, expected",
    [
        ("(4, 4)", "C[1, 2]", 0, 0, 6),
        ("(8,), elem_offset=8", "C[7]", 0, 0, 15),
        ("(4, 3), strides=(4, 1), elem_offset=1", "C[3, 2]", 0, 0, 15),
        ('(32,), "uint16"', 'T.Cast("float32", C[3])', 0, 0, 16256),
        ("(0, 99)", "A[1]", 0, 0, 1),
        ("(n, m)", "C[n - 1, m - 1]", 4, 4, 15),
        ("(n, m)", "A[1]", 0, 99, 1),
        ("(n,), elem_offset=m", "C[0]", 8, 8, 8),
        ("(n, 2), strides=(m, 1)", "C[n - 1, 1]", 4, 4, 13),
        ("(16,)", "C[15]", 0, 0, 15),
    ],
)
def test_inside(layout, value, n, m, expected):
    assert run(layout, value, n, m) == expected


@pytest.mark.parametrize(
    "layout", ["(100000000,)", "(4, 5)", "(16,), elem_offset=1", "(4, 4), strides=(5, 1)", '(16,), "float64"']
)
def test_outside_when_compiled(layout):
    with pytest.raises(DiagnosticError, match=r"E5905.*buffer C, a view of A, needs \d+ bytes, but there are 64"):
        run(layout, "A[0]")


@pytest.mark.parametrize(
    "layout, n, m, error, message",
    [
        ("(n, m)", 4, 5, ValueError, "buffer C, a view of A, needs 80 bytes, but there are 64"),
        ("(n, m)", 4, -1, ValueError, "has dimension 1 of size -1"),
        ("(n, m)", 2**40, 2**40, MemoryError, "buffer C is too large for any memory"),
        ("(n,), elem_offset=m", 8, 9, ValueError, "needs 68 bytes, but there are 64"),
        ("(n,), elem_offset=m", 8, -1, ValueError, "starts at byte -4, but the memory at byte 0"),
        ("(n, 2), strides=(m, 1)", 4, 8, ValueError, "needs 104 bytes, but there are 64"),
    ],
)
def test_outside_when_run(layout, n, m, error, message):
    with pytest.raises(error, match=message):
        run(layout, "A[0]", n, m)


def test_a_view_of_storage_of_the_function():
    source = """
    @T.prim_func
    def main(B: T.Buffer((4,), "float32"), n: T.int64):
        A = T.allocate((n,), "int8")
        C = T.decl_buffer((4,), data=A.data)
        for i in range(4):
            C[i] = T.float32(i)
        for i in range(4):
            B[i] = C[3 - i]
    """
    built = codegen.build_module({"main": from_source(source)})["main"]
    b = np.zeros(4, "float32")
    built(b, 16)
    assert b.tolist() == [3, 2, 1, 0]
    with pytest.raises(ValueError, match="needs 16 bytes, but there are 15"):
        built(b, 15)


@pytest.mark.parametrize(
    "statement",
    [
        "A[0:65536] = A[0:65536]",
        "A[0:65536] = A[0:65536] + 1.0",
        "A[0:2048] = 1.0",
        "A[T.Ramp(0, 1, 1000000)] = T.Broadcast(T.float32(1), 1000000)",
    ],
)
def test_a_vector_that_is_too_long_is_refused(statement):
    source = f"@T.prim_func\ndef main(A: T.Buffer((1000000,), 'float32')):\n    {statement}"
    with pytest.raises(DiagnosticError, match="E5901.*there is no code for vectors of"):
        codegen.build_module({"main": from_source(source)})


def test_a_long_vector():
    source = """
    @T.prim_func
    def main(A: T.Buffer((1024,), "float32")):
        A[0:1024] = A[0:1024] + 1.0
    """
    a = np.zeros(1024, "float32")
    codegen.build_module({"main": from_source(source)})["main"](a)
    assert (a == 1).all()


# ------------------------------------------------------------------ both ways the same

FUNCTION = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int64, m: T.int64):
    A = T.match_buffer(a, (16,), "{dtype}")
    B = T.match_buffer(b, (4,), "float32")
{body}
"""


def program(*lines, dtype="float32"):
    return from_source(FUNCTION.format(dtype=dtype, body="\n".join(f"    {line}" for line in lines)))


def both(func, *args):
    """The error of compiled code, its function's name taken away; the interpreter's is the same."""
    compiled = codegen.build_module({"main": func})["main"]
    with pytest.raises(Exception) as of_code:  # noqa: PT011 (its kind is compared)
        compiled(*args)
    with pytest.raises(type(of_code.value)) as of_interpreter:
        tir.interpret(func, *args)
    text = str(of_code.value).removeprefix("main: ")
    assert str(of_interpreter.value) == text
    return text


def arguments(dtype="float32"):
    return np.zeros(16, dtype), np.zeros(4, "float32")


FAR = 100_000_000


@pytest.mark.parametrize(
    "layout, n, m, message",
    [
        ("(n, m)", 4, 5, "buffer C, a view of A, needs 80 bytes, but there are 64"),
        ("(n, m)", 2**40, 2**40, "buffer C is too large for any memory"),
        ("(4,), strides=(n,)", -FAR, 0, "buffer C, a view of A, starts at byte -1200000000, but the memory at byte 0"),
        ("(4,), strides=(n,), elem_offset=m", -2, 5, "starts at byte -4, but the memory at byte 0"),
        ("(4,), strides=(n,), elem_offset=m", 1, 2**62, "buffer C is too large for any memory"),
        ("(4,), elem_offset=n", -1, 0, "starts at byte -4"),
        ("(n, 4)", -1, 0, "has dimension 0 of size -1"),
        ('(n,), "float32x4"', 5, 0, "needs 80 bytes, but there are 64"),
        ('(n,), "float64"', 9, 0, "needs 72 bytes, but there are 64"),
    ],
)
def test_the_interpreter_says_the_same(layout, n, m, message):
    func = program(f"C = T.decl_buffer({layout}, data=A.data)", "B[0] = A[0]")
    assert message in both(func, *arguments(), n, m)


@pytest.mark.parametrize(
    "layout, n, m",
    [
        ("(4,), strides=(n,), elem_offset=m", -5, 15),
        ("(0, n), strides=(m, m)", FAR, -FAR),
        ("(n, 0)", 2**62, 0),
        ("(n,), elem_offset=m", 0, 2**40),
        ("(n,), strides=(m,)", 1, 2**62),
    ],
)
def test_what_is_empty_or_backwards_may_be_anywhere_inside(layout, n, m):
    func = program(f"C = T.decl_buffer({layout}, data=A.data)", "B[0] = A[0]")
    codegen.build_module({"main": func})["main"](*arguments(), n, m)
    tir.interpret(func, *arguments(), n, m)


def test_negative_strides_reach_what_is_before():
    func = program("C = T.decl_buffer((4,), data=A.data, strides=(-5,), elem_offset=15)", "B[0] = C[3]")
    a, b = np.arange(16, dtype="float32"), np.zeros(4, "float32")
    codegen.build_module({"main": func})["main"](a, b, 0, 0)
    assert b[0] == 0
    with pytest.raises(DiagnosticError, match="E5905.*starts at byte -4, but the memory at byte 0"):
        codegen.build_module(
            {"main": program("C = T.decl_buffer((4,), data=A.data, strides=(-5,), elem_offset=14)", "B[0] = C[3]")}
        )


@pytest.mark.parametrize(
    "layout, message",
    [
        (f"(4,), elem_offset={FAR}", "buffer C needs 400000016 bytes, but there are 16"),
        (f"(4, 4), strides=(1, {FAR})", "buffer C needs 1200000016 bytes, but there are 16"),
        (f"(2, 2), strides=(2, -{FAR})", "buffer C starts at byte -400000000, but the memory at byte 0"),
        ("(2**17, 2**17), strides=(2**30, 2**47)", "buffer C is too large for any memory"),
    ],
)
def test_an_allocation_holds_what_its_buffer_names(layout, message):
    first = "C[3]" if layout.startswith("(4,)") else "C[0, 1]"
    func = program(f"C = T.alloc_buffer({layout})", f"{first} = T.float32(0)", f"B[0] = {first}")
    with pytest.raises(DiagnosticError, match=f"E5905.*{message}"):
        codegen.build_module({"main": func})


def test_an_allocation_with_strides_that_are_known_when_run():
    func = program("C = T.alloc_buffer((4, 4), strides=(n, m))", "C[3, 3] = A[0]", "B[0] = C[3, 3]")
    compiled = codegen.build_module({"main": func})["main"]
    compiled(*arguments(), 8, 2)
    tir.interpret(func, *arguments(), 8, 2)
    assert both(func, *arguments(), 4, 2) == "buffer C needs 76 bytes, but there are 64"


# ------------------------------------------------------------------ sizes that are read from memory


@pytest.mark.parametrize(
    "lines, message",
    [
        (("C = T.alloc_buffer((A[0],))", "A[0] = T.int64(99)", "for i in range(A[0]):", "    C[i] = T.float32(1)"), ""),
        (
            ("C = T.alloc_buffer((T.max(A[0], T.int64(1)),))", "A[0] = T.int64(10**8)",
             "C[T.max(A[0], T.int64(1)) - T.int64(1)] = T.float32(1)", "B[0] = C[0]"), "",
        ),
        (
            ("C = T.alloc_buffer((A[0], 4))", "C[0, 0] = T.float32(1)", f"A[0] = T.int64(-{FAR})",
             "B[T.min(A[0], T.int64(3))] = C[0, 0]"), "",
        ),
        (("for i in range(A[0]):", f"    A[0] = T.int64(-{FAR})", "    B[T.max(i - A[0], T.int64(0))] = T.float32(1)"), ""),
        (
            ("C = T.alloc_buffer((A[0],))", "A[0] = T.int64(99)", "C[0] = T.float32(0)",
             "D = T.decl_buffer((A[0],), data=C.data)", "D[98] = T.float32(1)"),
            "buffer D, a view of C, needs 396 bytes, but there are 16",
        ),
    ],
)  # fmt: skip
def test_memory_may_have_changed(lines, message):
    func = program(*lines, dtype="int64")
    compiled = codegen.build_module({"main": func})["main"]
    error = ValueError if message else IndexError
    for run in (compiled, lambda *args: tir.interpret(func, *args)):
        a, b = arguments("int64")
        a[0] = 4
        with pytest.raises(error, match=message or None):
            run(a, b, 0, 0)


def test_a_while_loop_that_never_runs_tells_nothing():
    func = program(
        "while n > 0:", "    C = T.alloc_buffer((n,))", "    C[0] = T.float32(1)", "B[T.min(n, T.int64(3))] = A[0]"
    )
    assert_index_error(func, -FAR)


def assert_index_error(func, n):
    compiled = codegen.build_module({"main": func})["main"]
    for run in (compiled, lambda *args: tir.interpret(func, *args)):
        with pytest.raises(IndexError):
            run(*arguments(), n, 0)


# ------------------------------------------------------------------ pointers


def test_null_is_no_memory():
    func = from_source("""
    @T.prim_func
    def main(p: T.handle, b: T.handle):
        B = T.match_buffer(b, (4,), "float32")
        C = T.decl_buffer((4,), data=p)
        B[0] = C[3]
    """)
    b = np.zeros(4, "float32")
    assert both(func, None, b) == "buffer C: the pointer p is null"
    memory = np.arange(4, dtype="float32")
    codegen.build_module({"main": func})["main"](ctypes.c_void_p(memory.ctypes.data), b)
    assert b[0] == 3


def test_a_view_of_a_bare_pointer_has_sizes():
    func = from_source("""
    @T.prim_func
    def main(p: T.handle, b: T.handle, n: T.int64):
        B = T.match_buffer(b, (4,), "float32")
        C = T.decl_buffer((n,), data=p)
        B[0] = C[100000000]
    """)
    memory, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    message = "buffer C, a view of p, has dimension 0 of size -1"
    with pytest.raises(ValueError, match=message):
        codegen.build_module({"main": func})["main"](ctypes.c_void_p(memory.ctypes.data), b, -1)
    with pytest.raises(ValueError, match=message):
        tir.interpret(func, memory, b, -1)


@pytest.mark.parametrize("value", ['T.reinterpret("handle", T.int64(4096))', 'T.reinterpret("handle", A[0])'])
def test_a_number_is_no_pointer(value):
    func = program(f"p: T.handle = {value}", "C = T.decl_buffer((4,), data=p)", "B[0] = C[0]", dtype="int64")
    with pytest.raises(DiagnosticError, match="E5903.*reinterpret: a pointer is no number") as caught:
        codegen.build_module({"main": func})
    assert "E5909" not in str(caught.value)


def test_a_pointer_is_no_number():
    func = program('A[0] = T.reinterpret("int64", B.data)', dtype="int64")
    with pytest.raises(DiagnosticError, match="E5903.*reinterpret: a pointer is no number"):
        codegen.build_module({"main": func})


@pytest.mark.parametrize(
    "value", ["T.if_then_else(n > 0, A.data, B.data)", "T.Select(n > 0, A.data, B.data)", "T.address_of(A[15])"]
)
def test_a_computed_pointer_is_not_viewed(value):
    func = program(f"p: T.handle = {value}", "C = T.decl_buffer((4,), data=p)", "B[0] = C[3]")
    with pytest.raises(DiagnosticError, match="E5905.*buffer C views a computed pointer, p"):
        codegen.build_module({"main": func})


MODULE = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        {call}

    @T.prim_func
    def middle(p: T.handle, b: T.handle):
        B = T.match_buffer(b, (4,), "float32")
        Module.far(p, B.data)

    @T.prim_func
    def far(p: T.handle, b: T.handle):
        B = T.match_buffer(b, (4,), "float32")
        C = T.decl_buffer((100000000,), data=p)
        B[0] = C[99999999]

    @T.prim_func
    def blind(p: T.handle, b: T.handle):
        B = T.match_buffer(b, (4,), "float32")
        B[0] = T.float32(1)
"""


@pytest.mark.parametrize("callee", ["far", "middle"])
@pytest.mark.parametrize("pointer", ["A.data", "T.address_of(A[1])", 'A.access_ptr("r")'])
def test_a_pointer_passed_on_keeps_its_extent(callee, pointer):
    with pytest.raises(DiagnosticError, match="E5903.*parameter p is viewed as a buffer"):
        codegen.build_module(from_source(MODULE.format(call=f"Module.{callee}({pointer}, B.data)")))


def test_a_pointer_nobody_looks_behind_is_passed_on():
    module = codegen.build_module(from_source(MODULE.format(call="Module.blind(A.data, B.data)")))
    b = np.zeros(4, "float32")
    module["main"](np.zeros(4, "float32"), b)
    assert b[0] == 1


def test_access_ptr_leads_to_the_buffer_or_its_end():
    func = from_source(
        """
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), n: T.int64):
        T.evaluate(T.call_extern("int32", "memcmp", A.access_ptr("r", offset=n), A.data, T.uint64(0)))
    """,
        allow_extern=True,
    )
    compiled, a = codegen.build_module({"main": func})["main"], np.zeros(16, "float32")
    compiled(a, 16)
    for n in (17, -1, 2**62):
        with pytest.raises(IndexError, match=f"element {n} is outside of the memory of A, 16 elements"):
            compiled(a, n)


def test_two_parameters_have_two_data_variables():
    p, q, data = (tir.Var(name, "handle") for name in ("p", "q", "d"))
    a, b = (tir.decl_buffer((size,), "float32", name, data=data) for name, size in (("A", 4), ("B", 400)))
    func = tir.PrimFunc((p, q), tir.BufferStore(b, a[0], [399]), buffer_map={p: a, q: b})
    with pytest.raises(DiagnosticError, match="E5905.*buffers A and B are in different memory under one data variable"):
        codegen.build_module({"main": func})


def test_a_buffer_that_is_not_declared_is_a_view_too():
    a, b = tir.decl_buffer((4,), "float32", "A"), tir.decl_buffer((4,), "float32", "B")
    n, p, q = tir.Var("n", "int64"), tir.Var("p", "handle"), tir.Var("q", "handle")
    view = tir.decl_buffer((n,), "float32", "V", data=a.data)
    func = tir.PrimFunc((p, q, n), tir.BufferStore(b, view[n - 1], [0]), buffer_map={p: a, q: b})
    compiled = codegen.build_module({"main": func})["main"]
    compiled(np.zeros(4, "float32"), np.zeros(4, "float32"), 4)
    with pytest.raises(ValueError, match="buffer V, a view of A, needs 4000 bytes, but there are 16"):
        compiled(np.zeros(4, "float32"), np.zeros(4, "float32"), 1000)


# ------------------------------------------------------------------ alignment, empty arguments, offsets


def test_a_wider_view_of_bytes_may_begin_anywhere():
    func = from_source("""
    @T.prim_func
    def main(A: T.Buffer((257,), "int8"), B: T.Buffer((64,), "float32")):
        C = T.decl_buffer((64,), data=A.data)
        for i in range(64):
            B[i] = C[i]
    """)
    module = codegen.build_module({"main": func})
    assert "load float, ptr" in module.get_source()
    assert not re.search(r"load float, ptr %\w+, align 4", module.get_source())
    memory = np.zeros(258, "int8")
    memory[1:257] = np.arange(64, dtype="float32").view("int8")
    for run in (module["main"], lambda *args: tir.interpret(func, *args)):
        b = np.zeros(64, "float32")
        run(memory[1:], b)
        assert b.tolist() == list(range(64))


def test_a_call_requires_alignment():
    module = codegen.build_module(
        from_source("""
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((17,), "int8"), B: T.Buffer((4,), "float32")):
            C = T.decl_buffer((4,), data=A.data)
            Module.copy(C[0], B.data)

        @T.prim_func
        def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                B[i] = A[i]
    """)
    )
    memory, b = np.zeros(64, "int8"), np.zeros(4, "float32")
    begin = -memory.ctypes.data % 4
    module["main"](memory[begin : begin + 17], b)
    with pytest.raises(ValueError, match="call of copy: argument A: its data is not aligned to 4 bytes"):
        module["main"](memory[begin + 1 : begin + 18], b)


def test_an_empty_argument_has_no_memory():
    func = from_source("""
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((4,), "float32"), k: T.int64):
        n, m, s, t = T.int64(), T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32", strides=(s, t))
        C = T.decl_buffer((k,), data=A.data)
        B[0] = C[k - 1]
    """)
    compiled, b = codegen.build_module({"main": func})["main"], np.zeros(4, "float32")
    wide = np.arange(100, dtype="float32").reshape(10, 10)
    compiled(wide, b, 100)
    assert b[0] == 99
    for empty in (wide.T[:0], wide[:0], wide[:, :0]):
        with pytest.raises(ValueError, match="needs 4 bytes, but there are 0"):
            compiled(empty, b, 1)


def test_no_code_for_what_is_proven():
    func = from_source("""
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m, 4), "float32")
        B = T.match_buffer(b, (1,), "float32")
        C = T.decl_buffer((m * 4, n), "float32", data=A.data)
        D = T.decl_buffer((n, m, 2), "float64", data=A.data)
        B[0] = C[0, 0] + T.Cast("float32", D[0, 0, 0])
    """)
    assert "a view of" not in codegen.build_module({"main": func}).get_source()


def test_an_offset_counts_whole_elements():
    func = from_source("""
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((1,), "float32")):
        o = T.int64()
        A = T.match_buffer(a, (4,), "float32", elem_offset=o)
        B[0] = A[0]
    """)
    compiled, b = codegen.build_module({"main": func})["main"], np.zeros(1, "float32")
    a = nd.array(np.arange(4, dtype="float32"))
    fields = (ctypes.c_int64 * 6).from_address(a.tensor.__chandle__() + 24)  # a DLTensor: data first, offset last
    data = fields[0]
    fields[0], fields[5] = data + 2, 2
    with pytest.raises(ValueError, match="argument A: offset is 2 bytes, expected a multiple of 4"):
        compiled(a, b)
    fields[0], fields[5] = data - 4, 8
    compiled(a, b)
    fields[0], fields[5] = data, 0
    assert b[0] == 1
