"""Mutations of text that go to extremes: depth, length, functions in dimensions, functions outside of the program."""

from __future__ import annotations

import re
import tokenize

from .choices import Choices
from .mutate_text import TextMutation, declare, lines_like, splice, tokens, with_line
from .mutate_tree import pick

TABLE: list[TextMutation] = []

DEPTHS = [60, 199, 201, 450, 1200]
"""Around Python's limit of brackets, and beyond our own."""


@declare(breaks=False, table=TABLE)
def deep_brackets(text: str, choices: Choices) -> str | None:
    """Put hundreds of brackets around a name that is returned or assigned."""
    found = list(re.finditer(r"(?:return|=) (\w+)$", text, re.MULTILINE))
    match = pick(choices, found)
    if match is None:
        return None
    depth = choices.pick(DEPTHS)
    opening, closing = choices.pick([("(", ")"), ("R.exp(", ")"), ("(x, ", ")[1]"), ("[", "][0]")])
    return text[: match.start(1)] + opening * depth + match.group(1) + closing * depth + text[match.end(1) :]


@declare(breaks=False, table=TABLE)
def deep_blocks(text: str, choices: Choices) -> str | None:
    """Put a statement into hundreds of blocks."""
    number = pick(choices, lines_like(text, r"^        \w+ = "))
    if number is None:
        return None
    line = text.splitlines()[number].strip()
    depth = choices.pick(DEPTHS)
    return with_line(text, number, *(" " * (8 + i) + "if True:" for i in range(depth)), " " * (8 + depth) + line)


@declare("E1001", "E1002", table=TABLE)
def long_name(text: str, choices: Choices) -> str | None:
    """Return a name of ten thousand letters that nothing defines."""
    number = pick(choices, lines_like(text, r"^ +return \w+$"))
    if number is None:
        return None
    line = text.splitlines()[number]
    return with_line(text, number, line[: line.index("return")] + "return " + choices.pick("aπ") * 10_000)


@declare("E1002", table=TABLE)
def long_line(text: str, choices: Choices) -> str | None:
    """Write an error at the start, in the middle or at the end of a line of ten thousand characters."""
    number = pick(choices, lines_like(text, r"^ +return "))
    if number is None:
        return None
    line = text.splitlines()[number]
    parts = ["1"] * 5000
    parts[choices.pick([0, 2500, 4999])] = "undefined_name"
    return with_line(text, number, f"{line[: line.index('return')]}return ({', '.join(parts)})")


@declare(breaks=False, table=TABLE)
def function_in_a_dimension(text: str, choices: Choices) -> str | None:
    """Quote a call of a scalar function in the place of a dimension that is a number."""
    match = pick(choices, list(re.finditer(r"R\.Tensor\(\([^()]*?\b(\d+)[,)]", text)))
    if match is None:
        return None
    forms = ["T.max({0}, {0})", "T.min({0}, T.int64({0}))", "T.floordiv({0}, 1)", "T.if_then_else({0} > 1, {0}, {0})",
             "T.Select(T.bool(True), T.int64({0}), T.int64({0}))", "T.Cast('int64', {0})", "T.maximum({0})"]  # fmt: skip
    call = choices.pick(forms).format(match.group(1))
    return f'{text[: match.start(1)]}"{call}"{text[match.end(1) :]}'


@declare("E1006", table=TABLE)
def function_outside(text: str, choices: Choices) -> str | None:
    """Call a C function in a PrimFunc."""
    lines = text.splitlines()
    starts = [i for i in range(1, len(lines)) if "@T.prim_func" in lines[i - 1] and lines[i].rstrip().endswith(":")]
    number = pick(choices, starts)
    if number is None:
        return None
    call = choices.pick(['T.call_extern("int32", "system", 1)', 'T.call_pure_extern("int32", "abort")',
                         'T.call_intrin("int32", "tir.call_extern", "exit", 1)'])  # fmt: skip
    indent = " " * (len(lines[number]) - len(lines[number].lstrip()) + 4)
    return with_line(text, number, lines[number], f"{indent}T.evaluate({call})")


@declare("E1008", "E1002", table=TABLE)
def class_with_arguments(text: str, choices: Choices) -> str | None:
    """Give the module's class a base or a metaclass."""
    number = pick(choices, lines_like(text, r"^class \w+:"))
    if number is None:
        return None
    wrong = choices.pick(["metaclass=type", "R.Object", "flag=1", "**R"])
    return with_line(text, number, text.splitlines()[number].replace(":", f"({wrong}):"))


@declare(table=TABLE, breaks=False)  # 2**70 is a number that a floating-point literal holds
def huge_number(text: str, choices: Choices) -> str | None:
    """Put a number of more than 64 bits in the place of another."""
    numbers = [t for t in tokens(text) if t.type == tokenize.NUMBER and t.string.isdigit()]
    token = pick(choices, numbers)
    return None if token is None else splice(text, token, choices.pick([str(2**70), "1" + "0" * 5000]))
