"""Backward operators of torch: gradients of what the converter of the forward operator makes of it.

    aten.avg_pool2d_backward(grad, x, [2, 2])         y = nn.avg_pool2d(x, …)        dropped again, if it is not needed
                                                      grad.avg_pool2d_backward(grad, x, …)

The forward operator is converted again, and its calls are walked backwards, each by the rule of its Relax operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from .... import op
from ....expr import Call, ShapeExpr, Tuple, TupleGetItem, Var
from ....ir import RelaxExpr
from ....op import operator_of
from ....op.adjoints import Adjoints
from ....op.formula_gradients import formula_gradient
from ..emitter import Dim, Emitter, as_dim, product
from ..registry import converter, find, register

Numbers = Any


class _Forward(Emitter):
    """Emitter of a forward operator, that keeps the values of variables. The first argument of its node is the gradient
    with respect to the operator's result, of which it has shape and dtype.
    """

    def __init__(self, g: Emitter) -> None:
        self.__dict__.update(g.__dict__)
        self.values: dict[RelaxExpr, RelaxExpr] = {}

    @property
    def value(self) -> Any:
        return self.node.args[0].meta["val"]

    def emit(self, expr: RelaxExpr) -> RelaxExpr:
        if isinstance(expr, TupleGetItem):
            expr = TupleGetItem(self.emit(expr.tuple_value), expr.index)
        elif isinstance(expr, Call):
            expr = expr.replace(args=tuple(self.emit(arg) for arg in expr.args))
        leaf = super().emit(expr)
        if isinstance(leaf, Var) and leaf is not expr:
            self.values[leaf] = expr
        return leaf


def _gradients(
    g: Emitter, forward: Callable[[Emitter], Any], grad: RelaxExpr, inputs: Sequence[RelaxExpr]
) -> list[RelaxExpr]:
    """Gradients with respect to `inputs` of the (first) result of a conversion, from `grad`, that of the result.

    Raises DiagnosticError if an operator on the way has none.
    """
    emitter = _Forward(g)
    made: Any = forward(emitter)
    result = emitter.emit(cast("list[Any]", made)[0] if isinstance(made, list) else made)
    adjoints = Adjoints()
    adjoints.add(result, grad)
    needed = {*inputs}
    for var, value in emitter.values.items():
        if any(operand in needed for operand in _operands(value)):
            needed.add(var)
    for var, value in reversed(list(emitter.values.items())):
        if var not in adjoints:
            continue
        total = g.emit(adjoints.total(var))
        if not isinstance(value, Call):
            adjoints.add(value, total)
            continue
        operator = operator_of(value)
        assert operator is not None
        parts = operator.gradient_of_call(g.builder, value, var, total)  # type: ignore[arg-type]
        if parts is None:
            parts = formula_gradient(operator, g.builder, value, total)  # type: ignore[arg-type]
        if parts is None:
            g.unsupported(f"the gradient of {operator.short_name} with these attributes")
        for arg, part in zip(value.args, parts, strict=True):
            if part is not None and any(operand in needed for operand in _operands(arg)):
                adjoints.add(arg, g.emit(part))
    for each in inputs:
        if each not in adjoints:
            g.unsupported("a gradient that does not reach its operand")
    return [g.emit(adjoints.total(each)) for each in inputs]


def _operands(value: RelaxExpr) -> Iterator[RelaxExpr]:
    """Variables that an expression reads."""
    if isinstance(value, Var):
        yield value
    elif isinstance(value, TupleGetItem):
        yield from _operands(value.tuple_value)
    elif isinstance(value, (Call, Tuple)):
        for item in value.args if isinstance(value, Call) else value.fields:
            yield from _operands(item)


def _forward(name: str, *arguments: Any) -> Callable[[Emitter], Any]:
    """Conversion of a forward operator."""
    function = find(name)
    assert function is not None, name
    return lambda g: function(g, *arguments)


@converter("aten.convolution_backward")
def convolution_backward(
    g: Emitter,
    grad_output: RelaxExpr,
    x: RelaxExpr,
    weight: RelaxExpr,
    bias_sizes: Sequence[Dim] | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
    output_mask: Sequence[bool],
) -> list[RelaxExpr | None]:
    """Gradients by data, weight and bias; None for those that `output_mask` leaves out."""
    del bias_sizes
    wanted = [operand for operand, needed in zip((x, weight), output_mask, strict=False) if needed]
    forward = _forward(
        "aten.convolution.default", x, weight, None, stride, padding, dilation, transposed, output_padding, groups
    )
    found = iter(_gradients(g, forward, grad_output, wanted) if wanted else ())
    results: list[RelaxExpr | None] = [next(found) if needed else None for needed in output_mask[:2]]
    count, ndim = g.ndim(weight) - 2, g.ndim(grad_output)
    axes = [d for d in range(ndim) if d != ndim - count - 1]
    return [*results, g.emit(op.sum(grad_output, axis=axes)) if output_mask[2] else None]


def _of_data(name: str) -> Callable[..., RelaxExpr]:
    """Converter of a backward operator (grad_output, x, attributes...) of the forward operator (x, attributes...)."""

    def convert(g: Emitter, grad_output: RelaxExpr, x: RelaxExpr, *attributes: Any) -> RelaxExpr:
        return _gradients(g, _forward(name, x, *attributes), grad_output, [x])[0]

    return convert


def _by_indices(spatial: int) -> Callable[..., RelaxExpr]:
    """Converter of the backward operator of a maximum pool: each gradient is added at the index of its maximum."""

    def convert(g: Emitter, grad_output: RelaxExpr, x: RelaxExpr, *attributes: Any) -> RelaxExpr:
        indices: RelaxExpr = attributes[-1]
        dims, sizes = g.dims(x), g.dims(grad_output)
        lead = dims[:-spatial]
        flat = [product(lead), product(dims[-spatial:])]
        several = [flat[0], product(sizes[-spatial:])]
        zeros = op.zeros(ShapeExpr(flat), str(g.dtype(x)))
        added = op.scatter_elements(
            zeros, g.reshape(indices, several), g.reshape(grad_output, several), axis=1, reduction="add"
        )
        return g.reshape(g.emit(added), dims)

    return convert


def _resized(name: str) -> Callable[..., RelaxExpr]:
    """Converter of the backward operator of an interpolation, which reads no data: (grad, sizes, sizes, ...)."""

    def convert(
        g: Emitter, grad_output: RelaxExpr, output_size: Sequence[Dim], input_size: Sequence[Dim], *rest: Any
    ) -> RelaxExpr:
        x = g.emit(op.zeros(ShapeExpr([as_dim(size) for size in input_size]), str(g.dtype(grad_output))))
        return _gradients(g, _forward(name, x, output_size, *rest), grad_output, [x])[0]

    return convert


def _sampled(name: str) -> Callable[..., list[RelaxExpr | None]]:
    def convert(
        g: Emitter,
        grad_output: RelaxExpr,
        x: RelaxExpr,
        grid: RelaxExpr,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
        output_mask: Sequence[bool] = (True, True),
    ) -> list[RelaxExpr | None]:
        forward = _forward(name, x, grid, interpolation_mode, padding_mode, align_corners)
        both = _gradients(g, forward, grad_output, [x, grid])
        return [each if needed else None for each, needed in zip(both, output_mask, strict=True)]

    return convert


for _count in (2, 3):
    register(f"aten.max_pool{_count}d_with_indices_backward", _by_indices(_count))
    register(f"aten.adaptive_max_pool{_count}d_backward", _by_indices(_count))
    register(f"aten.avg_pool{_count}d_backward", _of_data(f"aten.avg_pool{_count}d.default"))
    register(f"aten.grid_sampler_{_count}d_backward", _sampled(f"aten.grid_sampler_{_count}d.default"))
for _count in (1, 2, 3):
    register(f"aten.replication_pad{_count}d_backward", _of_data(f"aten.replication_pad{_count}d.default"))


def adaptive_average_backward(spatial: int) -> Callable[..., RelaxExpr]:
    """Return the converter of gradients of an adaptive average pool to known sizes."""

    def convert(g: Emitter, grad_output: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
        sizes = [getattr(size, "value", None) for size in g.dims(grad_output)[-spatial:]]
        if None in sizes:
            g.unsupported("the gradient of an adaptive average pool to open sizes")
        return _gradients(g, _forward(f"aten._adaptive_avg_pool{spatial}d.default", x, sizes), grad_output, [x])[0]

    return convert


for _name in (
    *(f"upsample_nearest{count}d" for count in (1, 2, 3)),
    *(f"_upsample_nearest_exact{count}d" for count in (1, 2, 3)),
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
):
    register(f"aten.{_name}_backward", _resized(f"aten.{_name}.default"))
