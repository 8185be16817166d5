"""The operators of `relax.op.grad`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from collections.abc import Sequence
from relax.expr import Call
from relax.op.arguments import ScalarLike, TensorLike
from typing import Literal

def avg_pool2d_backward(
    output_grad: TensorLike,
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCHW',
    out_layout: str | None = None,
) -> Call:
    """The gradient of `nn.avg_pool2d` with respect to its data: each window's output_grad, spread evenly over its
    elements.
    """

def end_checkpoint(input: TensorLike) -> Call:
    """The input, as the end of a checkpointed segment: this value is kept for the backward function."""

def max_pool2d_backward(
    output_grad: TensorLike,
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCHW',
    out_layout: str | None = None,
) -> Call:
    """The gradient of `nn.max_pool2d` with respect to its data: output_grad, added at the first maximum of each
    window.
    """

def nll_loss_backward(
    output_grad: TensorLike,
    predictions: TensorLike,
    targets: TensorLike,
    weights: TensorLike | None = None,
    reduction: Literal['mean', 'sum', 'none'] | str = 'mean',
    ignore_index: int = -100,
) -> Call:
    """The gradient of `nn.nll_loss` with respect to the predictions: -weight · output_grad at the target's class,
    elsewhere 0.

    For the reduction "mean" it is divided by the sum of the weights of all targets. A target that is `ignore_index`
    has weight 0. Where there are weights, a target that names no class is an error.
    """

def no_grad(input: TensorLike) -> Call:
    """The input, through which no gradient flows."""

def start_checkpoint(input: TensorLike) -> Call:
    """The input, as the start of a checkpointed segment: the backward function recomputes its values."""

def take_backward(
    output_grad: TensorLike,
    x: TensorLike,
    indices: TensorLike | ScalarLike,
    axis: int | None = None,
) -> Call:
    """The gradient of `take` with respect to x: zeros of x's shape, to which output_grad is added at the indices.

    A negative index counts from the end; one out of range is an error.
    Sums of 16- and 8-bit floats are rounded at each step.
    """
