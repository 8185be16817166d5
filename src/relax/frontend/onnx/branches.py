"""Alternatives of which one runs: the branches of an If, and what follows them.

A branch whose nodes do not fit their inputs raises when it runs, with the message of the diagnostic::

    if rate == 16000:                    if rate == 16000:
        y = conv(x, w)                       y = conv(x, w)
    else:                                else:
        y = conv(x, v)    # E3102            y = R.call_pure_packed("relax.run.fail", "conv2d: …", sinfo_args=…)

So a model is imported that has branches for other inputs than those it is called with. Both branches must not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, TypeAlias

from ... import op
from ...expr import If, PrimValue, SeqExpr, ShapeExpr, StringImm, Tuple, TupleGetItem
from ...ir import DiagnosticError, RelaxExpr, StructInfo
from ...prim import PrimExpr, free_vars
from ...prim.expr import Var as PrimVar
from .emitter import Emitter, OpenRankError
from .objects import is_numeric, lowered, raised, type_of, united
from .values import Elements, OptionalType, Value, ValueType

Reader: TypeAlias = Callable[[], "Sequence[Value | None]"]
"""A function that reads nodes into the open block and returns the values of an alternative."""

_MISFITS = ("E3", "E6003", "E6004")
"""Prefixes of the codes of nodes that do not fit their inputs."""


def condition(g: Emitter, cond: Value) -> bool | RelaxExpr:
    """Return the condition of an If: a truth value if it can be decided, else a scalar of the program."""
    elements = g.elements(cond)
    if elements is not None and elements.array.size == 1:
        (element,) = elements.flat
        truth = g.is_true(element)
        if truth is not None:
            return truth
        if element.dtype.is_bool:
            return PrimValue(element)  # which tells each branch what holds of sizes
    return scalar_condition(g, g.tensor(cond, "cond"))


def scalar_condition(g: Emitter, cond: RelaxExpr) -> RelaxExpr:
    """A condition as a bool tensor without dimensions; ONNX also allows one element."""
    return cond if g.info(cond).ndim == 0 else g.emit(op.reshape(cond, ShapeExpr([])))


def chosen(g: Emitter, test: RelaxExpr, readers: tuple[Reader, Reader], types: Sequence[ValueType | None]) -> list[Any]:
    """Emit an If on `test`: the values of its alternatives, of which `types` are declared.

    Raises DiagnosticError if nodes of both alternatives do not fit their inputs.
    """
    count, types = len(types), list(types)
    branches: list[SeqExpr | None] = []
    outside = set(g.builder.shape_vars)
    survivors: list[Sequence[Value | None]] = []
    outputs: list[list[RelaxExpr]] = [[] for _ in types]
    errors: list[DiagnosticError] = []
    for reader, holds in zip(readers, (True, False), strict=True):
        try:
            with g.branch() as branch, g.builder.given(test, holds):
                values = reader()
                results = [lowered(g, value) for value in values]
                for seen, output in zip(outputs, results, strict=True):
                    seen.append(output)
                types = [
                    united(kind, OptionalType(None) if value is None else type_of(g, value))
                    for kind, value in zip(types, values, strict=True)
                ]
                branches.append(branch.finish(results[0] if count == 1 else Tuple(results)))
                survivors.append(values)
        except DiagnosticError as error:
            if not is_misfit(error):
                raise
            errors.append(error)
            branches.append(None)
    if len(errors) == len(branches):
        raise DiagnosticError([diagnostic for error in errors for diagnostic in error.diagnostics])
    result = _joined(g, test, branches, errors)
    for index, seen in enumerate(outputs):
        g.note_ranks(result, index, seen)
    fields = [result] if count == 1 else [TupleGetItem(result, index) for index in range(count)]
    return [
        _common_elements(g, same, outside) or (g.emit(field) if is_numeric(kind) else raised(g, g.emit(field), kind))
        for field, kind, same in zip(fields, types, zip(*survivors, strict=True), strict=True)
    ]


def _common_elements(g: Emitter, values: Sequence[Value | None], outside: Set[PrimVar]) -> Elements | None:
    """Return the elements of an output if they are known, equal in all alternatives, and expressed by outer sizes."""
    first = values[0]
    if not isinstance(first, Elements) or any(not set(free_vars(element)) <= outside for element in first.flat):
        return None
    same = all(isinstance(value, Elements) and equal_elements(g, first, value) for value in values[1:])
    return first if same else None


def equal_elements(g: Emitter, a: Elements, b: Elements) -> bool:
    """True if two tensors of known elements have the same shape and dtype and provably equal elements."""
    if a.dtype != b.dtype or a.array.shape != b.array.shape:
        return False
    return all(x is y or g.is_true(x.equal(y)) for x, y in zip(a.flat, b.flat, strict=True))


def undecided_ones(g: Emitter, dims: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the dimensions of which it is not known whether they are 1."""
    return [dim for dim in dims if g.is_true(dim.equal(1)) is None]


def is_misfit(error: DiagnosticError) -> bool:
    """True for errors of nodes whose inputs are known and do not fit, in contrast to what is not supported."""
    is_open = isinstance(error, OpenRankError)
    return not is_open and all(diagnostic.code.startswith(_MISFITS) for diagnostic in error.diagnostics)


def _joined(
    g: Emitter, test: RelaxExpr, branches: Sequence[SeqExpr | None], errors: Sequence[DiagnosticError]
) -> RelaxExpr:
    """Emit the If; a branch that is None raises the first error when it runs."""
    infos = [branch.struct_info for branch in branches if branch is not None]
    whole = [_failing(g, errors[0], infos[0]) if branch is None else branch for branch in branches]
    return g.emit(If(test, *whole), next(filter(None, g.outputs), ""))


def _failing(g: Emitter, error: DiagnosticError, info: StructInfo) -> SeqExpr:
    """Return a branch of this struct info that raises an error."""
    first = error.diagnostics[0]
    message = "\n".join([f"{first.message} ({first.code})", *(f"  = {note}" for note in first.notes)])
    with g.branch() as branch:
        call = op.call_pure_packed("relax.run.fail", StringImm(message), sinfo_args=[info])
        return branch.finish(g.builder.emit(call.replace(span=first.span)))
