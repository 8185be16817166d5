"""Integer instructions on numbers: what code generation folds is what the instruction computes."""

from __future__ import annotations

import numpy as np
import pytest

from relax.native.formula import compared, folded

NUMBERS = (-128, -127, -3, -1, 0, 1, 2, 7, 127)


def computed(op, x, y):
    """The result of an instruction on two int8, as a signed number; None if it is not defined."""
    a, b = np.int64(x), np.int64(y)
    match op:
        case "add" | "sub" | "mul":
            value = {"add": a + b, "sub": a - b, "mul": a * b}[op]
        case "and" | "or" | "xor":
            value = {"and": a & b, "or": a | b, "xor": a ^ b}[op]
        case "udiv" | "urem":
            if y == 0:
                return None
            value = (a % 256) // (b % 256) if op == "udiv" else (a % 256) % (b % 256)
        case _:
            if not 0 <= y < 8:
                return None
            value = {"shl": a << b, "ashr": a >> b, "lshr": (a % 256) >> b}[op]
    return int(np.array(value).astype("int8"))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "and", "or", "xor", "udiv", "urem", "shl", "ashr", "lshr"])
def test_numbers(op):
    for x in NUMBERS:
        for y in NUMBERS:
            for text in (str(y), str(y % 256)):
                result = folded(op, "i8", str(x), text)
                assert result is None or int(result) == computed(op, x, y), (op, x, y)
        # With an operand that is no number, the result is that operand, or a number whatever the operand is.
        for pair in (("%v", str(x)), (str(x), "%v")):
            result = folded(op, "i8", *pair)
            for value in NUMBERS if result is not None else ():
                expected = computed(op, *(value if part == "%v" else x for part in pair))
                assert expected is None or expected == (value if result == "%v" else int(result)), (op, pair)


@pytest.mark.parametrize("order", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_comparisons(order):
    compare = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
               "ge": "greater_equal"}[order[-2:]]  # fmt: skip
    dtype = "uint8" if order[0] == "u" else "int8"
    for x in NUMBERS:
        for y in NUMBERS:
            a, b = (np.array(value).astype(dtype) for value in (x, y))
            assert compared(order, "i8", str(x), str(y % 256)) == getattr(np, compare)(a, b)
    assert compared(order, "i8", "%v", "1") is None


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_conditions(op):
    values = {"true": True, "false": False}
    for a in ("true", "false", "%v"):
        for b in ("true", "false", "%v"):
            result = folded(op, "i1", a, b)
            for v in (True, False) if result is not None and "%v" in (a, b) else ():
                x, y = (values.get(part, v) for part in (a, b))
                assert values.get(result, v) == {"and": x & y, "or": x | y, "xor": x ^ y}[op]
