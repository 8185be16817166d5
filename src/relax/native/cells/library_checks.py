"""Native forms of matching and of the error of invalid shapes, as packed builtins.

The checks are those of `matching`, the messages those of `relax.runtime.messages`. LLVM IR; `library` defines the
placeholders in angle brackets.
"""

from __future__ import annotations

from typing import Final

from ...runtime.match import LOAD_SLOT
from ...runtime.messages import NEGATIVE, NO_SHAPE, TOO_LARGE
from ..builder import ModuleBuilder
from ..checks import CheckWriter
from ..formula import Val
from .library_writer import builtin, fail
from .matching import KINDS

_BEFORE, _BETWEEN = NO_SHAPE.text.removesuffix("{shape}").split("{what}")


def shape_refusal(module: ModuleBuilder) -> str:
    """Error of invalid sizes, which are given as pairs of a code and a number."""
    w = CheckWriter(module, "define internal i32 @<L>sizes(ptr %codes, i64 %ndim, ptr %slots) nounwind")
    ndim, zero = w.parameter("ndim"), w.parameter("ndim").constant(0)
    w.b.do("%text = alloca [1040 x i8], align 8")
    w.b.do("store i64 0, ptr %text")
    size, least = w.variable(zero), w.variable(zero)

    def read(axis: Val) -> Val:
        pair = w.b.op(f"getelementptr [2 x <ANY>], ptr %codes, i64 {axis.ref}")
        size.set(w.load(pair, 24))
        with w.when(w.load(pair, 8).eq(LOAD_SLOT)):
            size.set(w.element("%slots", size.get()))
        return size.get()

    def put(what: str) -> None:
        w.b.do(f"call void @<L>{what}")

    with w.loop(ndim) as axis:
        least.set(least.get().intrinsic("smin", read(axis)))
    why = w.b.op(f'select i1 {least.get().lt(0).ref}, ptr <"{NEGATIVE}">, ptr <"{TOO_LARGE}">')
    put(f'put(ptr %text, ptr <"{_BEFORE}">)')
    put(f"put(ptr %text, ptr {why})")
    put(f'put(ptr %text, ptr <"{_BETWEEN}(">)')
    with w.loop(ndim) as axis:
        with w.when(axis.ne(0)):
            put('put(ptr %text, ptr <", ">)')
        put(f"put_int(ptr %text, i64 {read(axis).ref})")
    close = w.b.op(f'select i1 {ndim.eq(1).ref}, ptr <",)">, ptr <")">')
    w.b.end(fail("VALUE_ERROR", ("put", f"ptr {close}")).lstrip())
    return w.b.text()


def _match() -> str:
    """Arguments of ``vm.builtin.match`` from number 5 on, except the heap."""
    lines = [
        "  %kind = getelementptr <ANY>, ptr %args, i64 6",
        "  %numbers = getelementptr <ANY>, ptr %args, i64 7",
        "  %type = load i32, ptr %kind",
        "  %is_device = icmp eq i32 %type, 6",
        "  br i1 %is_device, label %placed, label %named",
        "named:",
        "  %name = call ptr @<L>string(ptr %kind, ptr %length)",
        "  br label %kind0",
    ]
    for i, check in enumerate(KINDS):
        lines += [
            f"kind{i}:",
            f'  %other{i} = call i32 @strcmp(ptr %name, ptr <"{check}">)',
            f"  %is{i} = icmp eq i32 %other{i}, 0",
            f"  br i1 %is{i}, label %{check}, label %kind{i + 1}",
        ]
    lines += [f"kind{len(KINDS)}:", "  unreachable"]
    for label, check, other in [*((check, check, "null") for check in KINDS), ("placed", "tensor", "%kind")]:
        operands = f"ptr %a5, ptr %numbers, ptr %slots, ptr {other}, ptr %a4, ptr %context"
        lines += [f"{label}:", f"  %{label}_status = call i32 @<L>refuse_{check}({operands})"]
        lines.append(f"  ret i32 %{label}_status")
    return "\n".join(lines)


_ON_HEAP: Final = f"""
  ; (name, position of the heap, slots, their number, notes, arguments but for the heap …)
  %slots = inttoptr i64 %p2 to ptr
  %length = alloca i64, align 8
  %makes = icmp eq i64 %p1, 0
  br i1 %makes, label %make, label %match
make:
  %behind_heap = getelementptr <ANY>, ptr %args, i64 6
  %made = call i32 @<L>sizes(ptr %behind_heap, i64 %p5, ptr %slots)
  ret i32 %made
match:
{_match()}
"""

_MATCH_SHAPE_VALUE: Final = """
  %status = call i32 @<L>refuse_same_sizes(ptr %a0, ptr %a1, ptr null, ptr %a1, ptr null, ptr %a2)
  ret i32 %status
"""

_MAKE_SHAPE: Final = """
  %codes = getelementptr <ANY>, ptr %args, i64 2
  %status = call i32 @<L>sizes(ptr %codes, i64 %p1, ptr null)
  ret i32 %status
"""

FORMS: Final = "\n".join(
    [
        builtin("match_shape_value", 3, _MATCH_SHAPE_VALUE),
        builtin("make_shape", 2, _MAKE_SHAPE),
        builtin("on_heap", 6, _ON_HEAP, last=True),
    ]
)
