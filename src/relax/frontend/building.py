"""Helpers shared by importers: branches of an If, loops, and values with known dimensions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

from ..block_builder import BlockBuilder
from ..derive.context import FunctionScope
from ..expr import Call, Function, If, SeqExpr, ShapeExpr, Tuple, TupleGetItem, Var, VarBinding
from ..ir import RelaxExpr, Span, StructInfo, set_slot
from ..op.known import known_struct_info
from ..prim import PrimExpr
from ..struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo


class Branch:
    """A block under construction with variables of its own, which becomes a SeqExpr. Made by `branch_of`."""

    def __init__(self, builder: BlockBuilder, span: Span | None) -> None:
        self._builder, self._span = builder, span

    def finish(self, result: RelaxExpr) -> SeqExpr:
        """End the branch with its result, a leaf."""
        builder = self._builder
        body = builder.leaf(result)
        blocks = builder.close_frame()
        seq = SeqExpr([block for block in blocks if block.bindings], body, span=self._span)
        info: StructInfo = known_struct_info(body)  # type: ignore[assignment]
        set_slot(seq, "_struct_info", builder.end_scope().erased(info))
        return seq


@contextmanager
def branch_of(builder: BlockBuilder, span: Span | None) -> Generator[Branch]:
    """Emit into a branch of an If; `finish(result)` gives it as a SeqExpr.

    At the end, facts that only the branch knew are dropped, and so is what was begun and not finished.
    """
    frames, scopes, facts = len(builder.frames), len(builder.scopes), builder.facts
    builder.begin_scope()
    builder.open_frame(False)
    try:
        yield Branch(builder, span)
    finally:
        del builder.frames[frames:]
        while len(builder.scopes) > scopes:
            builder.end_scope()
        builder.facts = facts


def bind_loop(
    builder: BlockBuilder,
    branch: Callable[[], AbstractContextManager[Branch]],
    params: Sequence[Var],
    results: Sequence[StructInfo],
    test: Callable[[], RelaxExpr],
    again: Callable[[], Sequence[RelaxExpr]],
    done: Sequence[RelaxExpr],
) -> Var:
    """Bind a local function that calls itself, once an iteration, and returns a tuple; the function's variable.

    The function is::

        def loop(*params):
            if test():
                result = loop(*again())
            else:
                result = done
            return result

    `test` and `again` emit into the open block and return leaves. `branch` opens a branch of the importer, and
    `results` are the struct infos of `done` in all iterations.
    """
    ret, pure = TupleStructInfo(results), builder.function_scopes[-1].is_pure
    info = FuncStructInfo([param.struct_info for param in params], ret, pure)
    name = Var(builder.get_unique_name("loop"), info)
    builder.note_own(name, Function(params, SeqExpr((), Tuple(())), ret, pure, {}))
    builder.begin_scope(params)
    builder.function_scopes.append(FunctionScope(name.name_hint, pure, False))
    try:
        with branch() as whole:
            condition = test()
            with branch() as going, builder.given(condition, True):
                then = going.finish(builder.emit(Call(name, tuple(again()))))
            with branch() as ending:
                otherwise = ending.finish(Tuple(done))
            body = whole.finish(builder.emit(If(condition, then, otherwise)))
    finally:
        builder.function_scopes.pop()
        builder.end_scope()
    builder.emit_normalized(VarBinding(name, Function(params, body, ret, pure, {})))
    return name


def sized(
    builder: BlockBuilder,
    value: RelaxExpr,
    dims: Callable[[TensorStructInfo], Sequence[PrimExpr]],
    emit: Callable[[RelaxExpr], RelaxExpr],
    name: str = "",
) -> RelaxExpr:
    """The value with all dimensions known: match_cast to `dims` where the struct info knows the rank alone.

    A tuple with such a field is taken apart: `emit` gets its fields.
    """
    info = known_struct_info(value)
    if isinstance(info, TensorStructInfo) and is_unsized(info):
        shape = TensorStructInfo(ShapeExpr(list(dims(info))), info.dtype, info.vdevice)
        return builder.match_cast(value, shape, name)
    if isinstance(info, TupleStructInfo) and any(map(is_unsized, info.fields)):
        return Tuple([emit(TupleGetItem(value, index)) for index in range(len(info.fields))])
    return value


def is_unsized(info: StructInfo) -> bool:
    """True for a tensor with known rank and unknown dimensions."""
    return isinstance(info, TensorStructInfo) and info.dims is None and info.ndim >= 0
