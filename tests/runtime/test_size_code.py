"""Size arithmetic that the machine interprets: what kernels compute, and errors like theirs."""

from __future__ import annotations

import random

import numpy as np
import pytest

import relax
from relax.runtime import get_global_func, nd
from relax.runtime.size_code import compute_sizes
from support import PLAIN_LOOPS, main, parse, same

PARAMS = 's: R.Shape(["n", "m"])'
SIZES = [(0, 0), (1, 0), (3, 5), (7, 2), (2**31, 2**31 + 1), (2**47, 3), (2**47, 2**47 + 1)]


def expression(chance, depth):
    """A random expression over n and m, as text."""
    if not depth or chance.random() < 0.1:
        return chance.choice("nm")
    one, other = expression(chance, depth - 1), expression(chance, depth - 1)
    kind = chance.choice(["+", "-", "*", "*", "//", "%", "min", "max"])
    if kind in ("//", "%") or chance.random() < 0.2:
        operation = kind if kind in "+-*//%" else "+"
        return f"({one} {operation} {chance.randint(1, 7)})"
    return f"T.{kind}({one}, {other})" if kind in ("min", "max") else f"({one} {kind} {other})"


def outcome(program, shape):
    """What a program returns, or the type and text of its error."""
    try:
        return program["main"](relax.ShapeTuple(shape))
    except Exception as error:  # noqa: BLE001
        return type(error), str(error).splitlines()[0]


def programs(body):
    """A program of tier now, and the same with kernels for sizes."""
    mod = main(body, PARAMS)
    now = relax.build(mod, PLAIN_LOOPS, tier="now")
    full = relax.build(mod, PLAIN_LOOPS, exec_mode="bytecode")
    return now, relax.VirtualMachine(now), relax.VirtualMachine(full)


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions(seed):
    chance = random.Random(seed)
    texts = [expression(chance, 3) for _ in range(4)]
    executable, now, full = programs(f"return ({', '.join(f'R.prim_value({text})' for text in texts)},)")
    assert "shape_func" not in executable.as_text()
    for shape in SIZES:
        found, expected = outcome(now, shape), outcome(full, shape)
        assert found == expected, (texts, shape)


@pytest.mark.parametrize(
    "text", ["n * m", "n * n * m", "n * m + n * m", "(n + m) * (m - 1)", "n - m * (n + 2)", "T.max(n, m) * n"]
)
def test_overflows_have_the_text_of_kernels(text):
    _, now, full = programs(f"return R.prim_value({text})")
    found = [outcome(now, shape) for shape in SIZES]
    assert found == [outcome(full, shape) for shape in SIZES]
    assert found[-1][0] is OverflowError


def heap(*values):
    return nd.array(np.array(values, "int64"))


@pytest.mark.parametrize(
    ("code", "values", "expected"),
    [
        ("s0 1 + 2 // =1", (7, 0), (7, 4)),
        ("s0 s1 min =0 s0 s1 max =1", (3, 2), (2, 2)),
        ("s0 -2 * =1 s1 4 % =0", (3, 0), (2, -6)),
        ("", (1, 2), (1, 2)),
    ],
)
def test_words(code, values, expected):
    slots = heap(*values)
    get_global_func("vm.builtin.compute_sizes")(slots, code)
    assert tuple(slots.numpy()) == expected


@pytest.mark.parametrize(
    "code",
    ["+", "s0 +", "=0", "s2", "s-1", "s99999999999999999999", "1 =2", "1 =-1", "x", "s", "=", "1.5 =0", "s0 s0 * =x",
     "0x10 =0", "s0 ** =0", "[1] =0"],
)  # fmt: skip
def test_code_that_is_wrong_raises(code):
    slots = heap(1, 2)
    with pytest.raises((ValueError, IndexError)):
        compute_sizes(slots.tensor, code)
    assert tuple(slots.numpy()) == (1, 2)


def test_an_overflow_without_names_and_a_division_by_zero_raise():
    with pytest.raises(OverflowError, match=r"a size does not fit into 64 bits: slot 0 \+ slot 0"):
        compute_sizes(heap(2**62).tensor, "s0 s0 +")
    with pytest.raises(ZeroDivisionError):
        compute_sizes(heap(1).tensor, "s0 0 // =0")


def test_a_heap_is_an_int64_tensor():
    with pytest.raises(TypeError, match="a shape heap is an int64 tensor"):
        compute_sizes(nd.array(np.zeros(1, "float32")).tensor, "1 =0")


PROGRAMS = {
    "symbolic sizes": """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    y = R.reshape(R.concat((x, x), axis=1), (n * m * 2,))
    return (y, R.shape([n * 2 + m]))
""",
    "match_cast": """
@R.function
def main(x: R.Tensor("float32", ndim=2)):
    n = T.int64()
    m = T.int64()
    y = R.match_cast(x, R.Tensor((n, m), "float32"))
    return R.reshape(R.add(y, y), (m * n,))
""",
    "match_cast of a sum": """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    y = R.match_cast(R.concat((x, x), axis=0), R.Tensor((n + n, m), "float32"))
    z = R.match_cast(y, R.Tensor((4, m), "float32"))
    return z
""",
    "if": """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    if R.greater(R.sum(x), R.const(0.0)):
        y = R.exp(x)
    else:
        y = R.negative(x)
    return y
""",
    "tuples": """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    t = (x, (R.add(x, x), x))
    return (t[1][0], t)
""",
}
TWO = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        y = Module.twice(x, R.const(3, "int64"))
        return Module.half(y)

    @R.function(private=True)
    def half(x: R.Tensor(("a", "b"), "float32")) -> R.Tensor(("a", "b"), "float32"):
        return R.multiply(x, R.const(0.5))

    @R.function
    def twice(x: R.Tensor(("a", "b"), "float32"), k: R.Tensor((), "int64")) -> R.Tensor(("a", "b"), "float32"):
        a = T.int64()
        b = T.int64()
        if R.less(k, R.const(1, "int64")):
            y: R.Tensor((a, b), "float32") = x
        else:
            z = R.add(x, x)
            y: R.Tensor((a, b), "float32") = Module.twice(z, R.subtract(k, R.const(1, "int64")))
        return y
"""
CLOSURE = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()

    @R.function
    def inner(y: R.Tensor((n, m), "float32")) -> R.Tensor((n, m), "float32"):
        return R.add(x, y)

    return inner(R.exp(x))
"""
ARGUMENTS = [
    np.arange(6, dtype="float32").reshape(2, 3),
    np.zeros((0, 3), "float32"),
    np.ones((1, 1), "float32"),
    np.ones((2, 3, 1), "float32"),
    np.ones((2, 3), "float64"),
    np.ones(2, "float32"),
    "text",
    3,
    None,
]


def result(program, *args):
    try:
        return program["main"](*args)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.parametrize("text", [*PROGRAMS.values(), TWO, CLOSURE], ids=[*PROGRAMS, "recursion", "closure"])
def test_programs_of_tier_now_do_and_say_what_those_of_tier_full_do(text):
    mod = parse(text)
    now = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS, tier="now"))
    full = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS, exec_mode="bytecode"))
    for argument in ARGUMENTS:
        same(result(now, argument), result(full, argument), 1e-6)
    same(result(now), result(full))
