"""Evaluation of kernels on constants, for FoldConstant.

A kernel is run by a `KernelEvaluator`, which compiles it (`relax.codegen.CompiledKernels`). Without one it is
interpreted (`interpreted`), if every implementation gives the same bits: no exp or other function of the reals, no
floating-point sum in memory, whose terms may be added in any order.

`work` counts what a kernel does before it is run. Declined: kernels that take more than a bounded number of steps
or bytes, or whose loops are not known before they run, and kernels with effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .. import tir
from ..ir import GlobalVar, Node, walk
from ..ir.node import children_of
from ..prim import Call as PrimCall
from ..prim import PrimExpr, Var, evaluate
from ..tir.buffer import Buffer, BufferLoad, BufferRegion, Reduce, element_count
from ..tir.stmt import AllocBuffer, Block, BufferStore, For, PrimFunc, While

Array = np.ndarray[Any, Any]
KernelEvaluator = Callable[[PrimFunc, Sequence[Any]], bool]
"""Runs a PrimFunc on arrays and numbers; what it writes is in the arrays afterwards. False if it fails."""

COMPILED_STEPS = 1 << 28
"""Step limit of a kernel that is compiled for folding: about one second."""

INTERPRETED_STEPS = 1 << 17
"""Step limit of a kernel that is interpreted for folding: about 0.1 s."""

FAILURES = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
"""The errors that a kernel may raise; a DiagnosticError is a ValueError."""


class Work(NamedTuple):
    """The work of running a kernel."""

    steps: int
    """Nodes of its body, each as often as it is run; storage counts by its elements."""
    exact: bool
    """True if every implementation gives the same result, bit for bit."""


def run_kernel(func: PrimFunc, args: Sequence[Any], evaluator: KernelEvaluator | None) -> bool:
    """Run a kernel on arguments, which it writes to. False if it fails or is declined."""
    limit = INTERPRETED_STEPS if evaluator is None else COMPILED_STEPS
    amount = work(func, args, limit)
    if amount is None or (evaluator is None and not amount.exact):
        return False
    return (evaluator or interpreted)(func, args)


def interpreted(func: PrimFunc, args: Sequence[Any]) -> bool:
    """Run a kernel by the interpreter of TIR; a KernelEvaluator."""
    try:
        tir.interpret(func, *args)
    except FAILURES:
        return False
    return True


def work(func: PrimFunc, args: Sequence[Any], limit: int) -> Work | None:
    """Work of running a kernel; None if it is over the limit or unknown, or if the kernel has effects."""
    if len(args) != len(func.params):
        return None
    sizes = _sizes(func, args)
    steps, exact = 0, True
    waiting: list[tuple[Node, int]] = [(func.body, 1)]
    while waiting:
        node, times = waiting.pop()
        amount = times
        match node:
            case Buffer() | BufferRegion():
                continue
            case While() | Reduce():
                return None
            case For(_, _, extent):
                count = _value(extent, sizes)
                if count is None:
                    return None
                times *= max(count, 0)
            case PrimCall(_, op):
                if isinstance(op, GlobalVar) or op.get_attr("effect") != "pure" or not op.get_attr("total"):
                    return None
                exact = exact and bool(op.get_attr("exact"))
            case BufferStore(buffer, value):
                exact = exact and not (buffer.dtype.is_float and _reads(value, buffer))
            case AllocBuffer() | Block():
                buffers = (node.buffer,) if isinstance(node, AllocBuffer) else node.alloc_buffers
                elements = [_value(element_count(buffer), sizes) for buffer in buffers]
                if None in elements:
                    return None
                amount += times * sum(count for count in elements if count is not None)
            case _:
                pass
        steps += amount
        if steps > limit:
            return None
        waiting += [(child, times) for child in children_of(node)]
    return Work(steps, exact)


def _sizes(func: PrimFunc, args: Sequence[Any]) -> dict[Var, int]:
    """The shape variables that the parameters bind."""
    sizes: dict[Var, int] = {}
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None and isinstance(arg, int):
            sizes[param] = arg
        elif buffer is not None and isinstance(arg, np.ndarray):
            pairs = zip(buffer.shape, cast(Array, arg).shape, strict=False)
            sizes.update({dim: size for dim, size in pairs if isinstance(dim, Var)})
    return sizes


def _value(expr: PrimExpr, sizes: dict[Var, int]) -> int | None:
    """The value of a size; None if it depends on more than the parameters."""
    try:
        return int(evaluate(expr, sizes, checked=True))
    except (ArithmeticError, KeyError, TypeError):
        return None


def _reads(value: PrimExpr, buffer: Buffer) -> bool:
    """True if an expression reads the storage of a buffer."""
    loads: list[Node] = []

    def visit(node: Node) -> None:
        if isinstance(node, BufferLoad) and node.buffer.data is buffer.data:
            loads.append(node)

    walk(value, visit)
    return bool(loads)
