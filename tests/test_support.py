"""tests/support.py: the comparisons that other tests rest on find what differs."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from support import agree, main, module, numbers, prim_func, run, same, values

DOUBLE = """
    @T.prim_func
    def double(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.parallel(n):
            with T.block("double"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] + A[v]
"""
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0], "float32")


@pytest.mark.parametrize("x", [numbers(0), numbers(1), numbers(7), SPECIAL], ids=["0", "1", "7", "special"])
def test_agree_on_a_prim_func(x: np.ndarray):
    result = np.zeros_like(x)
    found = agree(prim_func(DOUBLE), x, result, expected=x + x)
    same(found, [x, x + x])
    same(result, np.zeros_like(x))  # it wrote into a copy


@pytest.mark.parametrize("x", [numbers(0), numbers(1), numbers(7), SPECIAL], ids=["0", "1", "7", "special"])
def test_agree_on_a_module(x: np.ndarray):
    found = agree(main("return R.add(x, x)"), x, expected=x + x)
    same(found, x + x)


def test_agree_on_a_module_of_several_functions():
    mod = module(
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor(("n",), "float32"), R.Shape(["n"])):
            n = T.int64()
            return (Module.other(x), R.shape([n]))
        """,
        """
        @R.function
        def other(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            return R.negative(x)
        """,
    )
    x = numbers(3)
    agree(mod, x)
    same(agree(mod, x, name="other"), -x)


def test_agree_finds_a_wrong_result():
    x = numbers(4)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agree(prim_func(DOUBLE), x, np.zeros_like(x), expected=x)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agree(main("return R.add(x, x)"), x, expected=x)


def test_agree_finds_loops_that_are_not_independent():
    sums = """
        @T.prim_func
        def sums(a: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            for i in T.parallel(n - 1):
                A[i + 1] = A[i] + A[i + 1]
    """
    with pytest.raises(AssertionError):
        agree(prim_func(sums), numbers(5))


def test_agree_finds_compiled_code_that_differs(monkeypatch: pytest.MonkeyPatch):
    interpret = tir.interpret

    def wrong(func: tir.PrimFunc, *args: np.ndarray, **options: object) -> None:
        interpret(func, *args, **options)
        np.add(args[-1], 1, out=args[-1])

    monkeypatch.setattr(tir, "interpret", wrong)
    x = numbers(4)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agree(prim_func(DOUBLE), x, np.zeros_like(x))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (np.zeros(2, "float32"), np.zeros(2, "float64")),
        (np.zeros(2, "float32"), np.zeros((2, 1), "float32")),
        (np.zeros(0, "float32"), np.zeros((0, 3), "float32")),
        (np.zeros(1, "float32"), np.full(1, np.nan, "float32")),
        (np.float32(1), np.float32(np.inf)),
        (np.ones(2, "int8"), np.zeros(2, "int8")),
        ([np.zeros(1)], [np.zeros(1), np.zeros(1)]),
        (np.zeros(1), [np.zeros(1)]),
        (3, 4),
        (None, np.zeros(1)),
    ],
    ids=["dtype", "rank", "empty", "nan", "infinity", "integers", "length", "tuple", "plain", "none"],
)
def test_same_tells_apart(found: object, expected: object):
    with pytest.raises(AssertionError):
        same(found, expected)
    same(expected, expected)


def test_same_takes_tolerances_for_floats_only():
    same(np.float32(1.001), np.float32(1), rtol=1e-2)
    with pytest.raises(AssertionError):
        same(np.int64(1001), np.int64(1000), rtol=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int64", "bool"])
def test_numbers_are_seeded(dtype: str):
    first, again, other = (numbers(4, 8, dtype=dtype, seed=seed) for seed in (1, 1, 2))
    assert (first.shape, str(first.dtype)) == ((4, 8), dtype)
    same(first, again)
    assert not np.array_equal(first, other)
    assert numbers(0, 3, dtype=dtype).shape == (0, 3)


def test_numbers_within_bounds():
    assert set(numbers(100, dtype="int8", low=-1, high=2).tolist()) == {-1, 0, 1}
    floats = numbers(100, low=2.0, high=3.0)
    assert ((floats >= 2) & (floats <= 3)).all()


def test_run():
    x = numbers(3)
    found = run(main("return (R.add(x, x), R.shape_of(x))"), x)
    same(found[0], x + x)
    assert found[1] == (3,)
    assert run(main("return x"), x, name="main").tolist() == x.tolist()


def test_values():
    same(values((np.float32(1), [np.zeros(2)])), [np.float32(1), [np.zeros(2)]])
    assert values("text") == "text"
