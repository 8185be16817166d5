"""Functions of many parameters: their arguments are checked as the interpreter of TIR checks them."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import codegen
from relax.tir import interpret

INPUTS = 70


def text(inputs: int) -> str:
    """A function that adds the first element of many tensors, of several kinds, and numbers."""
    kinds = ['({j},), "float32"', '(n, 3), "float32"', '(2, 3, {j}), "int8"', '(n,), "float32", strides=[s]']
    params, matches, adds = list[str](), list[str](), list[str]()
    for k in range(inputs):
        kind = (kinds * 2)[k * 6 // inputs].format(j=k % 5 + 1)
        rank = kind.index(")") and kind.split(")")[0].count(",") + (0 if ",)" in kind else 1)
        params += [f"x{k}: T.handle"] if k % 20 else [f"x{k}: T.handle", f"i{k}: T.int32"]
        matches.append(f"    X{k} = T.match_buffer(x{k}, {kind})")
        adds.append(f"    Y[0] = Y[0] + T.cast(X{k}[{', '.join(['0'] * rank)}], 'float32')")
        adds += [] if k % 20 else [f"    Y[0] = Y[0] + T.cast(i{k}, 'float32')"]
    head = ["@T.prim_func", f"def sums({', '.join(params)}, y: T.handle):"]
    head += ['    T.func_attr({"tir.noalias": True})', "    n, s = T.int64(), T.int64()"]
    body = ['    Y = T.match_buffer(y, (1,), "float32")', "    Y[0] = T.float32(0)"]
    return "\n".join(["from relax.script import tir as T", "", *head, *matches, *body, *adds])


def arguments(inputs: int, n: int = 2) -> list[object]:
    """Arguments that fit; the first element of each tensor, and each number, is its place."""
    args: list[object] = []
    for k in range(inputs):
        j = k % 5 + 1
        shape = ([(j,), (n, 3), (2, 3, j), (n,)] * 2)[k * 6 // inputs]
        args.append(np.full(shape, k % 100, "int8" if len(shape) == 3 else "float32"))
        args += [] if k % 20 else [k]
    return [*args, np.zeros(1, "float32")]


@pytest.fixture(scope="module")
def both():
    """The function as machine code, and interpreted."""
    func = relax.script.from_source(text(INPUTS)).with_attr("global_symbol", "sums")
    return codegen.build_module({"sums": func})["sums"], lambda *args: interpret(func, *args)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_arguments_that_fit(both, n):
    for function in both:
        args = arguments(INPUTS, n)
        function(*args)
        assert args[-1][0] == sum(range(INPUTS)) + sum(range(0, INPUTS, 20))


def wrong(args: list[object], place: int, how: str) -> list[object]:
    """Arguments of which one is wrong."""
    right = args[place]
    changed: object = None
    if isinstance(right, np.ndarray):
        changed = {
            "kind": 1,
            "dtype": right.astype("float64"),
            "rank": right[None],
            "size": np.concatenate([right, right]),
            "last size": np.concatenate([right, right], -1),
            "overlap": args[-1] if right.shape == (1,) else None,
            "order": np.asfortranarray(right),
        }[how]
    return [*args[:place], changed, *args[place + 1 :]]


def outcome(function, args) -> str:
    try:
        function(*args)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


@pytest.mark.parametrize("how", ["kind", "dtype", "rank", "size", "last size", "overlap", "order"])
def test_an_argument_that_does_not_fit(both, how):
    compiled, interpreted = both
    args = arguments(INPUTS)
    outcomes = [outcome(interpreted, wrong(args, place, how)) for place in range(len(args))]
    assert [outcome(compiled, wrong(args, place, how)) for place in range(len(args))] == outcomes
    assert len(set(outcomes)) > 5


def test_the_first_error_is_raised(both):
    args = arguments(INPUTS)
    for places in ((3, 50), (50, 3), (20, 69)):
        bad = args
        for place, how in zip(places, ("size", "dtype"), strict=True):
            bad = wrong(bad, place, how)
        assert outcome(both[0], bad) == outcome(both[1], bad) != "none"


def test_the_count_is_checked(both):
    with pytest.raises(TypeError, match="sums: expected 75 arguments, found 74"):
        both[0](*arguments(INPUTS)[1:])


@pytest.mark.parametrize("n", [65, 200])
def test_a_concatenation(n):
    names = [f"x{i}" for i in range(n)]
    params = ", ".join(f'{name}: R.Tensor(({i % 3}, 2), "int32")' for i, name in enumerate(names))
    lines = ["from relax.script import relax as R", "", "@R.function", f"def main({params}):"]
    lines.append(f"    return R.concat([{', '.join(names)}], axis=0)")
    vm = relax.VirtualMachine(relax.build(relax.script.from_source("\n".join(lines)), "llvm"), relax.cpu())
    arrays = [np.arange(i % 3 * 2, dtype="int32").reshape(-1, 2) + i for i in range(n)]
    np.testing.assert_array_equal(vm["main"](*arrays).numpy(), np.concatenate(arrays))
    with pytest.raises(Exception, match="x64"):
        vm["main"](*arrays[:64], arrays[64].astype("int64"), *arrays[65:])
