"""Checks for tests: types, one pass, and gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from ...ir import DataType, IRModule
from ...ir.transform import Pass
from ..executor import create_executor
from ..expr import Expr, Function
from ..gradient import gradient
from ..infer import infer_type
from ..prelude import import_from_std
from ..values import imported
from .init import static_type
from .widening import widened

Array = npt.NDArray[Any]


def run_infer_type(expr: Expr) -> Expr:
    """Return the expression with all types inferred. Raises DiagnosticError."""
    return infer_type(expr)


def run_opt_pass(expr: Expr, opt_pass: Pass, import_prelude: bool = False) -> Expr:
    """Run a pass over a module with the expression as main; return the resulting body (or function, for a function)."""
    function = expr if isinstance(expr, Function) else Function([], expr)
    mod = IRModule.from_expr(function)
    if import_prelude:
        import_from_std(mod)
    main = cast(Function, opt_pass(mod)["main"])
    return main if isinstance(expr, Function) else main.body


def check_grad(
    func: Function,
    inputs: Sequence[Any] | None = None,
    test_inputs: Sequence[int] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float = 1.0,
    mean: float = 0,
    mode: Literal["higher_order", "first_order"] = "higher_order",
    executor_kind: str = "debug",
    mod: IRModule | None = None,
) -> None:
    """Compare a function's gradients with central finite differences of step `eps`.

    `inputs` are random by default: normally distributed around `mean` with deviation `scale`. All float inputs are
    perturbed, or only those at the positions `test_inputs`. Differences are those of the function in float64, as
    differences of narrower floats are mostly rounding errors; gradients keep their dtype. Raises AssertionError if they
    differ.
    """
    wide, wide_mod = widened(func, mod)
    backward = gradient(func, mod, mode)
    values = [np.array(imported(value)) for value in inputs or _random(func, mod, scale, mean)]
    _, gradients = create_executor(executor_kind, mod).evaluate(backward)(*values)
    forward = create_executor(executor_kind, wide_mod).evaluate(wide)
    points = [value.astype("float64") if _is_float(value) else value for value in values]
    for i, point in enumerate(points):
        if _is_float(point) and (test_inputs is None or i in test_inputs):
            expected = _differences(forward, points, point, eps)
            np.testing.assert_allclose(gradients[i].numpy().astype("float64"), expected, rtol, atol)


def _is_float(value: Array) -> bool:
    dtype: Any = value.dtype
    return DataType(dtype.name).is_float


def _differences(forward: Callable[..., Any], values: Sequence[Array], moved: Array, eps: float) -> Array:
    """Central differences of the sum of the results by each element of `moved`, which is perturbed and restored."""
    differences = np.zeros_like(moved)
    positions: Any = np.ndindex(moved.shape)
    for position in positions:
        before = float(moved[position])
        results: list[list[Array]] = []
        for point in (before + eps, before - eps):
            moved[position] = point
            results.append([tensor.numpy().astype("float64") for tensor in _tensors(forward(*values))])
        moved[position] = before
        # Differences before sums: results that do not depend on the element cancel exactly.
        total = sum(float((above - below).sum()) for above, below in zip(*results, strict=True))
        differences[position] = total / (2 * eps)
    return differences


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for field in cast("tuple[Any, ...]", value):
            yield from _tensors(field)
    else:
        yield value


def _random(func: Function, mod: IRModule | None, scale: float, mean: float) -> list[Array]:
    infer_type(func, mod)
    rng = np.random.default_rng(0)
    types = [static_type(param.name_hint, param.checked_type) for param in func.params]
    return [np.asarray(rng.normal(mean, scale, shape)).astype(dtype) for shape, dtype in types]
