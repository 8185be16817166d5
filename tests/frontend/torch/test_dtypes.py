"""Functions of torch on every element type that it accepts, booleans and bytes among them: the program computes the same."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

INDEX = torch.tensor([[0, 0, 2], [1, 0, 1]])
ROWS = torch.tensor([0, 0])


def one_operand(name, **options):
    return lambda x, y: getattr(torch, name)(x, **options)


def two_operands(name):
    return lambda x, y: getattr(torch, name)(x, y)


FUNCTIONS = {
    **{
        name: one_operand(name)
        for name in """
            abs negative sign sgn square floor ceil trunc round isnan isinf isfinite logical_not bitwise_not exp log sqrt
            rsqrt sigmoid tanh erf relu reciprocal sum prod mean max min any all argmax argmin tril nonzero sort argsort
        """.split()
    },
    **{
        f"{name} along an axis": one_operand(name, dim=1)
        for name in """
            sum prod mean amax amin max min any all argmax argmin cumsum cumprod cummax cummin logsumexp var std
        """.split()
    },
    **{
        name: two_operands(name)
        for name in """
            add sub mul div floor_divide fmod remainder pow maximum minimum max min logical_and logical_or logical_xor
            bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift eq ne lt le gt ge fmax fmin hypot
        """.split()
    },
    "add a number": lambda x, y: x + 1,
    "add True": lambda x, y: x + True,
    "add alpha": lambda x, y: torch.add(x, y, alpha=2),
    "multiply by a float": lambda x, y: x * 1.5,
    "number minus": lambda x, y: 1 - x,
    "sum in int32": lambda x, y: torch.sum(x, 1, dtype=torch.int32),
    "cumsum in int32": lambda x, y: torch.cumsum(x, 1, dtype=torch.int32),
    "softmax in float32": lambda x, y: torch.softmax(x, 1, dtype=torch.float32),
    "topk": lambda x, y: torch.topk(x, 2)[0],
    "sort down": lambda x, y: torch.sort(x, dim=1, descending=True, stable=True),
    "clamp": lambda x, y: torch.clamp(x, 0, 1),
    "matmul": lambda x, y: x @ y.T,
    "outer": lambda x, y: torch.outer(x[0], y[0]),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "bucketize": lambda x, y: torch.bucketize(x, torch.sort(y[0])[0]),
    "relu6": lambda x, y: torch.nn.functional.relu6(x),
    "max_pool2d": lambda x, y: torch.nn.functional.max_pool2d(x[None], (2, 2)),
    "where": lambda x, y: torch.where(x > y, x, y),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 1),
    "scatter_add": lambda x, y: torch.scatter_add(x, 1, INDEX, y),
    **{
        f"scatter_reduce {reduce}": lambda x, y, reduce=reduce: torch.scatter_reduce(x, 1, INDEX, y, reduce)
        for reduce in ("sum", "prod", "amax", "amin", "mean")
    },
    "index_put": lambda x, y: torch.index_put(x, (ROWS,), y, accumulate=True),
    "index_add": lambda x, y: torch.index_add(x, 0, ROWS, y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "sum_to_size": lambda x, y: x.sum_to_size(1, 3),
    "fold": lambda x, y: torch.nn.functional.fold(x.reshape(1, 2, 3)[:, :, :2], (1, 3), (1, 2)),
    "roll": lambda x, y: torch.roll(x, 1, 1),
}


def check_dtype(agrees, dtype):
    """One program of all functions that torch has for a dtype."""
    x = torch.tensor([[0, 3, 1], [2, 0, 2]]).to(dtype)
    y = torch.tensor([[1, 2, 1], [3, 1, 1]]).to(dtype)
    accepted = []
    for function in FUNCTIONS.values():
        try:
            function(x, y)
        except (RuntimeError, NotImplementedError):
            continue
        accepted.append(function)

    def every(x, y):
        return tuple(function(x, y) for function in accepted)

    agrees(every, x, y)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_booleans_and_bytes(agrees, dtype):
    check_dtype(agrees, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64])
def test_other_dtypes(agrees, dtype):
    check_dtype(agrees, dtype)


@pytest.mark.parametrize("function", [torch.cummax, torch.cummin])
def test_running_extremes(agrees, function):
    """Of equal elements the last; from the first NaN on NaN; at any size."""
    numbers = torch.tensor([[1.0, 3, 3, 2, 3], [2, float("nan"), 5, float("nan"), 0]])
    others = [(torch.zeros(2, 0),), (torch.ones(0, 3),)]
    for axis in (0, 1):
        agrees(lambda x, axis=axis: function(x, axis), numbers, dynamic=[[0, 1]], others=others)
    agrees(lambda x: function(x, 0), torch.tensor(2.0))


def test_empty_reductions_of_bools(agrees):
    x = torch.tensor(np.zeros((2, 3), "uint8"))
    agrees(lambda x: (x.any(1), x.all(1), x.any(), x.all()), x, dynamic=[[0, 1]], others=[(x[:, :0],), (x[:0],)])
