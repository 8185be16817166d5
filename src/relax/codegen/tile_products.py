"""Tile products (`T.tile_dot_bf16` and similar) by tile registers (`ISA.tiles`; AMX of x86-64).

A function of the module loads up to four tiles of 16 x 16 sums, loads and multiplies up to two tiles of each operand in
each step, and stores the sums at the end. Numbers of rows and columns are part of the tile configuration, which is
written in each call; the function has a path for each of the four combinations of tiles.

    tiles 0 1    sums, by halves of rows and columns        4 5    halves of the rows on the left
          2 3                                               6 7    halves of the columns on the right
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..native.builder import ModuleBuilder, Operand
from ..native.formula import Val
from ..prim import Call
from ..target.isa import Tiles
from ..target.isa.products import BF16, TILES
from .context import Context

_POINTERS: Final = ("sums", "left", "right")


def _tile_dot(kind: str) -> Callable[[Context, Call], Val]:
    def write(cx: Context, call: Call) -> Val:
        machine = cx.unit.target.machine
        tiles = machine.isa.tiles
        if tiles is None or not machine.multiplies_tiles(kind):
            cx.report("E5903", f"the target has no products of tiles of {_numbers(kind)}", call, _hint(tiles, kind))
            return cx.i64(0)
        values = [cx.value(arg) for arg in call.args]
        arguments = ", ".join(f"{'ptr' if value.type == 'ptr' else 'i64'} {value.ref}" for value in values)
        cx.b.do(f"call void {_function(cx.b.module, kind, tiles)}({arguments})")
        cx.forget()
        return cx.i64(0)

    return write


def _numbers(kind: str) -> str:
    """Element type of the operands, for messages."""
    return "bf16" if TILES[kind] == BF16 else "int8"


def _hint(tiles: Tiles | None, kind: str) -> str:
    if tiles is None or kind not in tiles.products:
        return "the architecture of the target has no instruction for them"
    names = (tiles.feature, tiles.products[kind].feature)
    return f"name the features in the target: -mattr={','.join(f'+{tiles.prefix}{name}' for name in names)}"


def _function(module: ModuleBuilder, kind: str, tiles: Tiles) -> Operand:
    """The module's function that multiplies tiles; written on first use."""
    name = f"relax.tile_dot.{kind}"

    def write() -> None:
        tile = ("i8", "ptr", "i64")
        module.intrinsic(tiles.configure, "void", "ptr")
        module.intrinsic(tiles.release, "void")
        module.intrinsic("llvm.umin.i64", "i64", "i64", "i64")
        module.intrinsic(tiles.load, "void", *tile)
        module.intrinsic(tiles.store, "void", *tile)
        module.intrinsic(tiles.products[kind].intrinsic, "void", "i8", "i8", "i8")
        module.add_text(_text(name, kind, tiles))

    return module.helper(name, write)


def _text(name: str, kind: str, tiles: Tiles) -> str:
    """LLVM text of the function."""
    parameters = ", ".join(f"ptr %{pointer}, i64 %{pointer}_words" for pointer in _POINTERS)
    lines = [f'define internal void @"{name}"({parameters}, i64 %rows, i64 %columns, i64 %steps) noinline nounwind {{']
    lines += ["entry:", "  %config = alloca [64 x i8], align 64"]
    lines += ["  store [64 x i8] zeroinitializer, ptr %config, align 64", "  store i8 1, ptr %config"]
    for size in ("rows", "columns"):
        lines += [
            f"  %{size}_0 = call i64 @llvm.umin.i64(i64 %{size}, i64 {tiles.rows})",
            f"  %{size}_1 = sub i64 %{size}, %{size}_0",
            f"  %has_{size}_1 = icmp ne i64 %{size}_1, 0",
        ]
    for half in (0, 1):
        lines.append(f"  %bytes_{half} = shl i64 %columns_{half}, 2")
    lines += [f"  %bytes_left_1 = select i1 %has_rows_1, i64 {tiles.row_bytes}, i64 0"]
    lines += [f"  %rows_right_1 = select i1 %has_columns_1, i64 {tiles.rows}, i64 0"]
    for half in (0, 1):
        lines.append(f"  %rows_0_{half} = {_present('%rows_0', half, 'columns')}")
        lines.append(f"  %bytes_1_{half} = {_present(f'%bytes_{half}', 1, 'rows')}")
        lines.append(f"  %rows_1_{half} = {_present('%rows_1', half, 'columns')}")
    shapes = [
        ("%rows_0_0", "%bytes_0"), ("%rows_0_1", "%bytes_1"), ("%rows_1_0", "%bytes_1_0"), ("%rows_1_1", "%bytes_1_1"),
        ("%rows_0", f"{tiles.row_bytes}"), ("%rows_1", "%bytes_left_1"), (f"{tiles.rows}", "%bytes_0"),
        ("%rows_right_1", "%bytes_1"),
    ]  # fmt: skip
    for tile, (rows, width) in enumerate(shapes):
        lines += _stored(f"rows{tile}", rows, "i8", 48 + tile) + _stored(f"width{tile}", width, "i16", 16 + 2 * tile)
    lines.append(f"  call void @{tiles.configure}(ptr %config)")
    for pointer in _POINTERS:
        lines.append(f"  %{pointer}_distance = shl i64 %{pointer}_words, 2")
    for pointer in ("sums", "left"):
        lines += [
            f"  %{pointer}_half = shl i64 %{pointer}_words, 6",
            _moved(f"{pointer}_1", pointer, f"%{pointer}_half"),
        ]
    lines += ["  %right_step = shl i64 %right_words, 6"]
    lines += [_moved("sums_01", "sums", "64"), _moved("sums_11", "sums_1", "64")]
    lines += ["  br i1 %has_rows_1, label %tall, label %low"]
    lines += ["tall:", "  br i1 %has_columns_1, label %w11, label %w10"]
    lines += ["low:", "  br i1 %has_columns_1, label %w01, label %w00"]
    for tall in (0, 1):
        for wide in (0, 1):
            lines += _way(f"w{tall}{wide}", tall, wide, kind, tiles)
    return "\n".join([*lines, "done:", f"  call void @{tiles.release}()", "  ret void", "}"])


def _present(value: str, half: int, size: str) -> str:
    """A size, or 0 if the second half is requested (`half`) but absent."""
    condition = f"%has_{size}_1" if half else "true"
    return f"select i1 {condition}, i64 {value}, i64 0"


def _stored(name: str, value: str, type_: str, offset: int) -> list[str]:
    """Lines that store a number into the tile configuration."""
    return [
        f"  %{name}_n = trunc i64 {value} to {type_}",
        f"  %{name}_at = getelementptr i8, ptr %config, i64 {offset}",
        f"  store {type_} %{name}_n, ptr %{name}_at",
    ]


def _moved(name: str, pointer: str, offset: str) -> str:
    return f"  %{name} = getelementptr i8, ptr %{pointer}, i64 {offset}"


def _way(label: str, tall: int, wide: int, kind: str, tiles: Tiles) -> list[str]:
    """Blocks for one or two halves of the rows (`tall`) and of the columns (`wide`)."""
    places = {(0, 0): "sums", (0, 1): "sums_01", (1, 0): "sums_1", (1, 1): "sums_11"}
    blocks = [(r, c) for r in range(tall + 1) for c in range(wide + 1)]

    def moves(name: str) -> list[str]:
        return [f"  call void @{name}(i8 {2 * r + c}, ptr %{places[r, c]}, i64 %sums_distance)" for r, c in blocks]

    def operand(tile: int, pointer: str, distance: str) -> str:
        return f"  call void @{tiles.load}(i8 {tile}, ptr %{pointer}, i64 %{distance})"

    k, a, b = f"{label}.k", f"{label}.a", f"{label}.b"
    lines = [f"{label}:", *moves(tiles.load), f"  br label %{label}.head", f"{label}.head:"]
    lines += [
        f"  %{k} = phi i64 [ 0, %{label} ], [ %{k}.next, %{label}.body ]",
        f"  %{a} = phi ptr [ %left, %{label} ], [ %{a}.next, %{label}.body ]",
        f"  %{b} = phi ptr [ %right, %{label} ], [ %{b}.next, %{label}.body ]",
        f"  %{k}.more = icmp slt i64 %{k}, %steps",
        f"  br i1 %{k}.more, label %{label}.body, label %{label}.end",
        f"{label}.body:",
        operand(4, a, "left_distance"),
        operand(6, b, "right_distance"),
    ]
    if tall:
        lines += [_moved(f"{a}.1", a, "%left_half"), operand(5, f"{a}.1", "left_distance")]
    if wide:
        lines += [_moved(f"{b}.1", b, "64"), operand(7, f"{b}.1", "right_distance")]
    lines += [
        f"  call void @{tiles.products[kind].intrinsic}(i8 {2 * r + c}, i8 {4 + r}, i8 {6 + c})" for r, c in blocks
    ]
    lines += [_moved(f"{a}.next", a, "64"), _moved(f"{b}.next", b, "%right_step")]
    lines += [f"  %{k}.next = add i64 %{k}, 1", f"  br label %{label}.head", f"{label}.end:"]
    return [*lines, *moves(tiles.store), "  br label %done"]


TABLE: Final = {f"tile_dot_{kind}": _tile_dot(kind) for kind in TILES}
