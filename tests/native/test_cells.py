"""Cells of compiled Relax functions: the intrinsics in TVMScript, and what code generation refuses."""

from __future__ import annotations

import re

import pytest

from relax.codegen import resolve
from relax.codegen.module import kernel_texts, module_text
from relax.codegen.support_texts import cells_text, library_text
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.ir import DiagnosticError, IRModule
from relax.native.cells import FUNCTIONS
from relax.script import tir as T
from relax.tir import lower

TRIPLE = "x86_64-unknown-linux-gnu"


@T.prim_func
def first(r: T.handle, c: T.handle):
    T.func_attr({"relax.registers": 2, "relax.parameters": ["x"], "tir.is_host_func": True})
    with T.attr(0, "relax.place", "first\tmodel.py:1:2\t\t"):
        if not T.cell_fits("tensor", T.anylist_getitem(r, 0), 0, 0, 1, "float32", 0):
            T.anylist_setitem_call_packed(r, -1, T.anylist_getitem(c, 4), "test.refuse", T.anylist_getitem(r, 0))
    T.anylist_setitem(r, 1, T.anylist_getitem(r, 0))


@T.prim_func
def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]


def test_a_check_is_a_branch_to_the_call_that_refuses():
    text = module_text({"first": first}, resolve("llvm")).split("define i32 @__tvm_ffi_first")[0]
    assert text.count("@relax.cells.v9.fits_tensor(ptr %p0, ptr @relax.numbers.1.73730.0, ptr null, ptr null)") == 1
    assert text.index("@relax.cells.v9.fits_tensor(ptr %p0") < text.index("call i32 @relax.cells.v9.call(")
    assert "call void @relax.cells.v9.locate(ptr %p1, ptr @relax.messages, i32 0)" in text


def test_functions_of_the_host_are_compiled_as_they_are_written():
    first_text, second_text = (text.text for text in kernel_texts({"first": first, "copy": copy}, resolve("llvm")))
    assert worker.as_written(first_text)
    assert not worker.as_written(second_text)
    levels = [machine_of(resolve(f"llvm -opt-level={level}")) for level in (1, 3)]
    assert len({worker.emit_object(first_text, machine) for machine in levels}) == 1


def test_small_functions_of_the_host_are_compiled_in_batches():
    funcs = {f"f{i}": first for i in range(50)}
    copied, *batches = (text.names for text in kernel_texts({"copy": copy, **funcs}, resolve("llvm")))
    assert copied == ("copy",)
    assert [name for names in batches for name in names] == list(funcs)
    assert 1 < len(batches) < 10
    large = first.with_attr("relax.registers", 500)
    texts = kernel_texts({"small": first, "large": large, "other": first}, resolve("llvm"))
    assert [text.names for text in texts] == [("small",), ("large",), ("other",)]


def test_the_entry_releases_registers_on_every_way_out():
    text = cells_text(TRIPLE).split("define i32 @relax.cells.v9.run(")[1].split("\n}")[0]
    before, after = text.split("call void @relax.cells.v9.leave(")
    assert "= call i32 %p4(" in before  # the body
    returns = [line.split()[-1] for line in before.splitlines() if "ret i32" in line]
    assert [value for value in returns if not value.startswith("%")] == ["1", "2", "-1"]  # before anything is held
    handed = [value for value in returns if value.startswith("%")]
    assert [f"{value} = call i32 @relax.cells.v9.deeper(" in before for value in handed] == [True]
    assert after.count("ret i32 %") == 1


def test_the_packed_form_is_a_call_of_the_support_code():
    text = module_text({"first": first}, resolve("llvm")).split("define i32 @__tvm_ffi_first")[1]
    assert text.split("\n}")[0].count("\n") < 16
    assert "@relax.cells.v9.run(ptr %self, ptr %args, i32 %count, ptr %result, ptr @relax.body.first," in text


@T.prim_func
def told(r: T.handle, c: T.handle):
    T.func_attr({"relax.registers": 2, "relax.parameters": ["x"], "tir.is_host_func": True, "global_symbol": "told"})
    heap = T.alloc_buffer((2,), "int64")
    T.anylist_setitem_call_packed(
        r, 1, T.anylist_getitem(c, 4), "f", T.anylist_getitem(r, 0), T.address_of(heap[0]),
        T.int64(-7), T.bool(True), T.anylist_getitem(c, 9),
    )  # fmt: skip


def test_constant_arguments_of_a_packed_call_are_a_table():
    lowered = lower(IRModule.from_expr(told), resolve("llvm"))
    text = module_text({"told": lowered["told"]}, resolve("llvm"))
    table = "i64 1, i64 5, i64 -1, i64 0, i64 -3, i64 0, i64 1, i64 -7, i64 2, i64 1, i64 -2, i64 9"
    assert f"[12 x i64] [{table}]" in text
    assert text.count("@relax.cells.v9.call_with(") == 2  # declared, called
    assert "@relax.cells.v9.call(" not in text


def test_an_operand_must_be_a_cell():
    @T.prim_func
    def wrong(r: T.handle, c: T.handle):
        T.func_attr({"relax.registers": 1, "relax.parameters": [], "tir.is_host_func": True})
        T.cell_reshape(T.anylist_getitem(r, 0), T.anylist_getitem(c, 4), r)

    with pytest.raises(DiagnosticError, match=r"E5903.*expected a cell: T.anylist_getitem\(list, index\)"):
        module_text({"wrong": wrong}, resolve("llvm"))


def test_the_support_code_defines_what_is_called():
    text = cells_text(TRIPLE)
    for name, (result, parameters) in FUNCTIONS.items():
        start = f"define {result} @relax.cells.v9.{name}("
        assert text.count(start) == 1, name
        types = [parameter.split()[0] for parameter in text.split(start)[1].split(")")[0].split(", ")]
        assert ", ".join(types) == parameters, name


def test_messages_of_a_library_are_composed_in_order():
    """Parts of a message are calls, which the script must not bind to names: they would run before the others."""
    text = library_text(TRIPLE).split("@relax.library.v1.reshape(")[1].split("\n}")[0]
    calls = re.findall(r"@relax\.library\.v1\.(\w+)\(ptr", text)
    assert calls == ["put", "put_dims", "put", "put_dims"]
