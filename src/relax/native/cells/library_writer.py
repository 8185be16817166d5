"""Writers of native builtins in the packed form, and of messages composed of parts.

LLVM IR; `library` defines the placeholders in angle brackets.
"""

from __future__ import annotations

from itertools import count
from typing import TypeAlias

from ...runtime.messages import Message

Part: TypeAlias = "str | tuple[str, str]"
"""A literal text, or the name of a formatting function and its operands."""

_numbers = count()


def builtin(name: str, arguments: int, body: str, last: bool = False) -> str:
    """Write a builtin. ``%a0``, … are the addresses of its arguments, ``%p0``, … their payloads.

    With `last`, ``%context`` is the address of the last argument.
    """
    lines = [f"define hidden i32 @<L>{name}(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {{", "entry:"]
    lines.append("  %text = alloca [1040 x i8], align 8\n  store i64 0, ptr %text")
    for i in range(arguments):
        lines.append(f"  %a{i} = getelementptr <ANY>, ptr %args, i64 {i}")
        lines.append(f"  %at{i} = getelementptr i8, ptr %a{i}, i64 8\n  %p{i} = load i64, ptr %at{i}")
    if last:
        lines.append("  %behind = sub i32 %count, 1\n  %behind64 = sext i32 %behind to i64")
        lines.append("  %context = getelementptr <ANY>, ptr %args, i64 %behind64")
    return "\n".join([*lines, body.strip("\n"), "}"])


def fail(kind: str, *parts: Part) -> str:
    """Raise an error with a message composed of parts, and return."""
    lines: list[str] = []
    for part in parts:
        what, operands = ("put", f'ptr <"{part}">') if isinstance(part, str) else part
        lines.append(f"  call void @<L>{what}(ptr %text, {operands})")
    number = next(_numbers)
    lines.append(f"  %chars{number} = getelementptr i8, ptr %text, i64 8")
    lines.append(f"  call void @TVMFFIErrorSetRaisedFromCStr(ptr <{kind}>, ptr %chars{number})")
    return "\n".join([*lines, "  ret i32 -1"])


def refuse(message: Message, **fields: Part | list[Part]) -> str:
    """Raise an error of the message table, and return. A field is one part or a list of parts."""
    parts: list[Part] = []
    for text, field in message.parts():
        value = fields[field] if field else []
        parts += [text, *(value if isinstance(value, list) else [value])]
    return fail("TYPE_ERROR" if message.kind is TypeError else "VALUE_ERROR", *filter(None, parts))


def string(operand: str) -> tuple[str, str]:
    """Message part: a string."""
    return "put_string", f"ptr {operand}"


def kind(operand: str) -> tuple[str, str]:
    """Message part: a short description of a value."""
    return "put_kind", f"ptr {operand}"


def dims(operand: str) -> tuple[str, str]:
    """Message part: the sizes of a tensor or shape."""
    return "put_dims", f"ptr {operand}"


def integer(operand: str) -> tuple[str, str]:
    """Message part: an integer."""
    return "put_int", f"i64 {operand}"


def scalar(kind: str, payload: str) -> tuple[str, str]:
    """Message part: a number of a given kind of value, or a dimension (any other kind)."""
    return "put_number", f"i32 {kind}, i64 {payload}"


def dtype(operand: str) -> tuple[str, str]:
    """Message part: a dtype."""
    return "put_dtype", f"i32 {operand}"


def slot(operand: str) -> tuple[str, str]:
    """Message part: a slot of the shape heap ``%slots``, described by its note."""
    return "put_expected", f"ptr %notes, i64 {operand}, ptr %slots"
