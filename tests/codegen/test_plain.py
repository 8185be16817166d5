"""Plain functions: PrimFuncs with a C signature, called at their addresses."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from relax.codegen import resolve
from relax.codegen.module import module_text
from relax.codegen.plain import Data, plain_module_text
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.ir import DiagnosticError, structural_equal
from relax.runtime.native import load_object
from relax.script import from_source
from relax.script import tir as T
from relax.target.c_structs import STRUCTS
from relax.tir.interpret import interpret

plain = T.prim_func(linkage="external", prefix="test.")
inner = T.prim_func(linkage="internal", prefix="test.", attributes="noinline nounwind")
Any = T.struct("TVMFFIAny")
Tensor = T.struct("DLTensor")

CTYPES = {
    "": None, "int32": ctypes.c_int32, "int64": ctypes.c_int64, "handle": ctypes.c_void_p, "bool": ctypes.c_bool,
    "float64": ctypes.c_double,
}  # fmt: skip
LIBRARIES = []


def compiled(*functions, **arguments):
    """The last of the functions, as one of ctypes."""
    machine = machine_of(resolve("llvm"))
    text = plain_module_text(functions, machine.triple, **arguments)
    library = load_object(worker.emit_object(f'target triple = "{machine.triple}"\n{text}', machine))
    LIBRARIES.append(library)
    func = functions[-1]
    types = [CTYPES[str(param.dtype)] for param in func.params]
    return ctypes.CFUNCTYPE(CTYPES[str(func.ret_type or "")], *types)(library.address(func.attrs["global_symbol"]))


def text_of(*functions, triple="x86_64-unknown-linux-gnu", **arguments):
    return plain_module_text(functions, triple, **arguments)


@inner
def is_even(n: T.int64) -> T.bool:
    return n % 2 == 0


@plain
def first_even(numbers: T.handle, count: T.int64) -> T.int64:
    """The first even number, -1 if there is none: a return from a loop."""
    values = T.decl_buffer((count,), "int64", data=numbers)
    for i in range(count):
        if is_even(values[i]):
            return values[i]
    return -1


@pytest.mark.parametrize("numbers, expected", [([], -1), ([3], -1), ([4], 4), ([1, 5, 8, 2], 8)])
def test_a_return_inside_of_a_loop(numbers, expected):
    array = (ctypes.c_int64 * len(numbers))(*numbers)
    assert compiled(is_even, first_even)(ctypes.addressof(array), len(numbers)) == expected


@plain
def sum_of_odd(count: T.int32) -> T.int32:
    """The sum of the odd numbers below `count`, at most of 100."""
    i = T.alloc_var("int32", -1)
    total = T.alloc_var("int32", 0)
    while True:
        i += 1
        if i >= count:
            break
        if i % 2 == 0:
            continue
        total += i
        if i > 100:
            return -1
    return total


@pytest.mark.parametrize("count, expected", [(0, 0), (1, 0), (2, 1), (6, 9), (100, 2500), (200, -1)])
def test_a_loop_is_left_and_continued(count, expected):
    assert compiled(sum_of_odd)(count) == expected


def test_break_and_continue_in_a_counted_loop():
    @plain
    def until(stop: T.int64) -> T.int64:
        total = T.alloc_var("int64", 0)
        for i in range(10):
            if i == stop:
                break
            if i == 1:
                continue
            total += i
        return total

    assert [compiled(until)(stop) for stop in (0, 1, 3, 20)] == [0, 0, 2, 44]


@plain
def volume(tensor: Tensor) -> T.int64:
    dims = T.decl_buffer((tensor.ndim,), "int64", data=tensor.shape)
    total = T.alloc_var("int64", 1)
    for axis in range(tensor.ndim):
        total *= dims[axis]
    tensor.byte_offset = total
    return total


def test_fields_of_a_struct():
    class DLTensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
            ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_int64),
        ]  # fmt: skip

    offsets = STRUCTS["DLTensor"].layout(8 * ctypes.sizeof(ctypes.c_void_p)).offsets
    assert all(
        offsets[name] == getattr(DLTensor, name).offset for name in ("data", "ndim", "dtype", "shape", "strides")
    )
    dims = (ctypes.c_int64 * 3)(2, 3, 4)
    tensor = DLTensor(ndim=3, shape=ctypes.addressof(dims))
    assert compiled(volume)(ctypes.addressof(tensor)) == 24
    assert tensor.byte_offset == 24


@pytest.mark.parametrize(
    "triple, places", [("x86_64-unknown-linux-gnu", (16, 24, 40)), ("wasm32-unknown-unknown", (12, 20, 32))]
)
def test_offsets_follow_the_width_of_pointers(triple, places):
    text = text_of(volume, triple=triple)
    assert all(f"getelementptr i8, ptr %p0, i64 {place}\n" in text for place in places)
    assert re.search(rf"load ptr, ptr %v\d+, align {8 if triple.startswith('x86') else 4}\n", text)


@plain
def second_kind(cells: Any, index: T.int64) -> T.int32:
    cell = cells[index]
    cell.type_index += 1
    return cells[1].type_index


def test_elements_of_an_array_of_structs():
    cells = (ctypes.c_int64 * 6)(1, 10, 2, 20, 3, 30)
    function = compiled(second_kind)
    assert function(ctypes.addressof(cells), 1) == 3
    assert function(ctypes.addressof(cells), 2) == 3
    assert list(cells) == [1, 10, 3, 20, 4, 30]


def test_structs_inside_of_structs_and_unions():
    layout = STRUCTS["TVMFFIAny"].layout(64)
    assert layout.offsets["object"] == layout.offsets["value"] == 8
    assert (layout.size, STRUCTS["TVMFFIObject"].layout(32).size) == (16, 24)


@plain
def exchange(place: T.handle, expected: T.int32, value: T.int32) -> T.int32:
    if T.atomic_cmpxchg(place, expected, value, "acq_rel", "acquire") != expected:
        return -1
    before = T.atomic_add(place, 2, "seq_cst")
    T.atomic_store(place, T.atomic_load("int32", place, "acquire") + 1, "release")
    return before


def test_atomic_operations():
    word = ctypes.c_int32(5)
    function = compiled(exchange)
    assert function(ctypes.addressof(word), 4, 7) == -1
    assert function(ctypes.addressof(word), 5, 7) == 7
    assert word.value == 10
    text = text_of(exchange)
    for line in (
        "cmpxchg ptr %p0, i32 %p1, i32 %p2 acq_rel acquire", "atomicrmw add ptr %p0, i32 2 seq_cst",
        "load atomic i32, ptr %p0 acquire, align 4",
    ):  # fmt: skip
        assert line in text


@inner
def twice(n: T.int64) -> T.int64:
    return 2 * n


@plain
def apply(function: T.handle, n: T.int64) -> T.int64:
    chosen = T.if_then_else(T.isnullptr(function), T.symbol_address(twice), function)
    return T.call_pointer("int64", chosen, n)


def test_calls_of_function_pointers():
    function = compiled(twice, apply)
    assert function(None, 21) == 42
    negate = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda n: -n)
    assert function(ctypes.cast(negate, ctypes.c_void_p), 21) == -21


@plain
def first_or(pointer: T.handle, otherwise: T.int64) -> T.int64:
    values = T.decl_buffer((1,), "int64", data=pointer)
    return T.if_then_else(T.isnullptr(pointer), otherwise, values[0])


def test_a_load_is_made_only_where_it_is_chosen():
    word = ctypes.c_int64(3)
    function = compiled(first_or)
    assert function(ctypes.addressof(word), 7) == 3
    assert function(None, 7) == 7


@plain
def digits(n: T.int64) -> T.int64:
    text = T.alloc_buffer((16,), "uint8", scope="local")
    T.call_extern("int32", "snprintf", text.data, 16, "%lld!", n)
    return T.call_extern("int64", "strlen", text.data)


def test_variadic_c_functions_and_strings():
    assert [compiled(digits)(n) for n in (0, -7, 12345)] == [2, 3, 6]
    assert "call i32 (ptr, i32, ptr, ...) @snprintf(ptr %v1, i32 16," in text_of(
        digits, triple="wasm32-unknown-unknown"
    )


@plain
def reversed_sum(count: T.int64) -> T.int64:
    """Storage of dynamic size, and a pointer into it."""
    words = T.alloc_buffer((count,), "int64", scope="local")
    T.call_extern("", "memset", words.data, 0, count * 8)
    for i in range(count):
        last = T.decl_buffer((1,), "int64", data=T.handle_add_byte_offset(words.data, (count - 1 - i) * 8))
        last[0] = i
    total = T.alloc_var("int64", 0)
    for i in range(count):
        total = total * 10 + words[i]
    return total


def test_stack_memory_of_dynamic_size():
    assert [compiled(reversed_sum)(count) for count in (0, 1, 4)] == [0, 0, 3210]


@plain
def name_of(kind: T.int32) -> T.handle:
    names = T.decl_buffer((2,), "handle", data=T.symbol_address("test.names"))
    counter = T.decl_buffer((1,), "int64", data=T.symbol_address("test.calls"))
    counter[0] += 1
    if counter[0] > 3:
        return T.reinterpret("handle", T.int64(0))
    return names[kind]


def test_variables_of_the_object():
    data = [Data("test.names", texts=("none", "some")), Data("test.calls", "int64")]
    function = compiled(name_of, data=data)
    assert [ctypes.string_at(function(kind)) for kind in (0, 1, 1)] == [b"none", b"some", b"some"]
    assert function(0) is None


@plain
def product_fits(a: T.int64, b: T.int64) -> T.bool:
    return not T.umul_overflows(a, b)


def test_products_that_overflow():
    function = compiled(product_fits)
    assert [function(*pair) for pair in ((2**32, 2**31), (2**32, 2**32), (-1, 1), (-1, 2))] == [
        True,
        False,
        True,
        False,
    ]


@T.prim_func(linkage="external")
def never(n: T.int64) -> T.int64:
    if n > 0:
        return n


def test_a_missing_result_is_an_error():
    with pytest.raises(DiagnosticError, match="E5904.*may end without a result"):
        text_of(never)


def test_plain_functions_raise_nothing():
    @plain
    def asserts(n: T.int64):
        assert n > 0, "positive"

    with pytest.raises(DiagnosticError, match="E5904.*a plain function raises no errors"):
        text_of(asserts)


@pytest.mark.parametrize(
    "call, message",
    [
        ('T.symbol_address("nowhere")', "E5903.*nowhere is no function or variable"),
        ('T.call_extern("int32", "strlen", n, n)', "E5903.*a call of strlen has 2 arguments, expected 1"),
        ('T.call_extern("int64", "strlen", n)', "E5903.*expected a ptr, found a int64"),
        ("T.break_loop()", "E5903.*break_loop: there is no loop around it"),
    ],
)
def test_wrong_uses_are_reported(call, message):
    func = from_source(
        f"@T.prim_func(linkage='external')\ndef f(n: T.int64):\n    T.evaluate({call})\n", allow_extern=["strlen"]
    )
    with pytest.raises(DiagnosticError, match=message):
        text_of(func)


@pytest.mark.parametrize(
    "call, message",
    [
        ('T.tvm_struct_get(p, 0, "DLTensor.rank")', "struct DLTensor has no field 'rank'"),
        ('T.tvm_struct_get(p, 0, "Tensor.rank")', "there is no struct 'Tensor'"),
        ('T.tvm_struct_set(p, 0, "DLTensor.data", 1)', "expected a handle, found int32"),
        ('T.atomic_load("int32", p, "relaxed")', "there is no memory order 'relaxed'"),
        ("T.isnullptr(T.int64(1))", "isnullptr: expected a pointer, found int64"),
        ('T.system_call("fork")', "there is no number for the system call 'fork'"),
    ],
)
def test_wrong_arguments_are_rejected_where_they_are_written(call, message):
    with pytest.raises(DiagnosticError, match=message):
        from_source(f"@T.prim_func\ndef f(p: T.handle):\n    T.evaluate({call})\n")


def test_intrinsics_of_plain_functions_have_no_code_in_kernels():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int64")):
        A[0] = T.tvm_struct_get(A.data, 0, "TVMFFIAny.value")

    with pytest.raises(DiagnosticError, match="E5903.*tvm_struct_get is an intrinsic of plain functions"):
        module_text({"kernel": kernel}, resolve("llvm"))


def test_break_belongs_to_plain_functions():
    with pytest.raises(DiagnosticError, match="break cannot be used here"):
        from_source("@T.prim_func\ndef f(n: T.int64):\n    while n > 0:\n        break\n")


def test_a_call_without_a_result_has_no_name():
    with pytest.raises(DiagnosticError, match="`x` would be the result of a call that has none"):
        from_source('@T.prim_func\ndef f(p: T.handle):\n    x = T.atomic_store(p, 1, "release")\n')


def test_a_result_fits_the_signature():
    source = "@T.prim_func(linkage='external')\ndef f(n: T.int64){}:\n    return{}\n"
    with pytest.raises(DiagnosticError, match="the function returns nothing"):
        from_source(source.format("", " n"))
    with pytest.raises(DiagnosticError, match="the function returns a int32"):
        from_source(source.format(" -> T.int32", ""))


@pytest.mark.parametrize(
    "func", [first_even, sum_of_odd, volume, second_kind, exchange, apply, digits, reversed_sum, name_of, product_fits]
)
def test_printed_functions_are_read_back(func):
    again = from_source(func.script(), allow_extern=["snprintf", "strlen", "memset", "test.is_even"])
    assert structural_equal(again, func)


def test_the_interpreter_does_not_run_them():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int64")):
        A[0] = T.tvm_struct_get(A.data, 0, "TVMFFIAny.value")

    for func in (kernel, second_kind):
        with pytest.raises(TypeError, match=r"tvm_struct_get\(.*|T.ret\) cannot be run"):
            interpret(func, *np.zeros((1, 4), "int64"))
