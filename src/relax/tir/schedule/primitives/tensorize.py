"""tensorize: replace a block by the implementation of a tensor intrinsic that matches it.

    for k_1 in range(4):                            with T.block("C_o"):
        with T.block("C"):                              vi, vj, vk_o = T.axis.remap("SSR", [i, j, k_0])
            vi, vj = T.axis.remap("SS", [i, j])         A_1 = T.match_buffer(A[vi, vk_o * 4 : vk_o * 4 + 4], ...)
            vk = T.axis.reduce(16, k_0 * 4 + k_1)       B_1 = T.match_buffer(B[vj, vk_o * 4 : vk_o * 4 + 4], ...)
            C[vi, vj] += A[vi, vk] * B[vj, vk]          C_1 = T.match_buffer(C[vi, vj], ...)
                                                        T.evaluate(T.call_extern("int32", "dot4", ...))
    sch.tensorize(k_1, "dot4")

A loop is first turned into a block (see `blockize`); the body of a block is matched with the description. The
implementation's buffers become views of the matched regions, whose strides and offsets are bound to the variables in
the implementation's. An init of the block does not change.

Rejected: a body that differs from the description (see `tensor_match`; the error shows the first difference); a region
that is not inside its buffer; strides that differ from the implementation's; an implementation that passes a pointer on
without strides for a region that is not compact, or without a variable for the offset.
"""

from __future__ import annotations

from ....ir import DiagnosticError
from ....prim import Analyzer, PrimExpr, Var
from ....prim.intrin import floormod
from ...buffer import Buffer, BufferRegion, Range, element_offset, strides_of
from ...functor import StmtExprVisitor
from ...renew import renew_bound_vars
from ...stmt import BlockRealize, MatchBufferRegion, Stmt
from ...tensor_intrin import TensorIntrin, buffers_of, root_of
from ..base import ScheduleBase, primitive
from ..conditions import analyzer_at
from ..error import ARGUMENT, MATCH, ScheduleError
from ..reductions import fresh_copy
from ..rv import BlockRV, LoopRV
from ..tensor_match import Mismatch, TensorMatch, match_description, shown
from .blockize import blockize


@primitive
def tensorize(
    sch: ScheduleBase,
    block_or_loop: BlockRV | LoopRV,
    tensor_intrin: str | TensorIntrin,
    preserve_unit_iters: bool = True,
) -> None:
    """Replace a block, or a loop with its contents, by a tensor intrinsic.

    Parameters
    ----------
    tensor_intrin : name of a registered intrinsic (`TensorIntrin.register`), or the intrinsic itself, whose functions
        are then stored in the trace.
    preserve_unit_iters : for a loop, as in `blockize`.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    if isinstance(tensor_intrin, TensorIntrin):
        intrin = tensor_intrin
        sch.recorded["tensor_intrin"] = (intrin.desc, intrin.impl, intrin.name)
    else:
        intrin = _registered(tensor_intrin)
    if isinstance(block_or_loop, LoopRV):
        rv = blockize(sch, block_or_loop, preserve_unit_iters)
    else:
        rv = block_or_loop
    realize = sch.state.realize(rv)
    analyzer = analyzer_at(sch.state, rv, inclusive=True)
    new = _Tensorized(realize, intrin, analyzer).block()
    body = fresh_copy(new.block.body, sch.state, rv.function)
    sch.state.replace(realize, new.replace(block=new.block.replace(body=body)), rv.function)


def _registered(name: str) -> TensorIntrin:
    """Return the intrinsic with a name. Raises ScheduleError if there is none."""
    try:
        intrin = TensorIntrin.get(name)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        raise ScheduleError(ARGUMENT, first.message, hint=first.hint) from None
    assert intrin is not None
    return intrin


class _Tensorized:
    """Replacement of a block's body by an intrinsic's implementation."""

    def __init__(self, realize: BlockRealize, intrin: TensorIntrin, analyzer: Analyzer) -> None:
        self.realize, self.analyzer = realize, analyzer
        self.name = intrin.name
        self.desc = intrin.desc
        self.impl = renew_bound_vars(intrin.impl)
        self.bound: dict[Var, PrimExpr] = {}
        """Values of the variables in the implementation's strides and offsets."""

    def block(self) -> BlockRealize:
        """Return the block with the implementation as its body."""
        block = self.realize.block
        described = buffers_of(self.desc)
        try:
            matches = match_description(block.body, root_of(self.desc).body, described, self.analyzer.copy())
        except Mismatch as difference:
            raise self.refused(
                f"block {block.name_hint} does not do what the intrinsic {self.name} describes: {difference}",
                "the first difference is said; names, kinds of loops and the order of operands do not count",
            ) from None
        root = root_of(self.impl)
        handed_on = _pointers(root.body)
        views = [
            self.view(buffer, matches[shape], buffer.data in handed_on)
            for buffer, shape in zip(buffers_of(self.impl), described, strict=True)
        ]
        new_block = block.replace(
            body=root.body,
            alloc_buffers=(*block.alloc_buffers, *root.alloc_buffers),
            match_buffers=(*block.match_buffers, *views, *root.match_buffers),
            annotations={**block.annotations, **root.annotations},
        )
        return self.realize.replace(block=new_block)

    def view(self, buffer: Buffer, match: TensorMatch, handed_on: bool) -> MatchBufferRegion:
        """Return the view that a buffer of the implementation becomes."""
        skipped = match.buffer.ndim - buffer.ndim
        extents = [*[1] * skipped, *buffer.shape]
        ranges = tuple(
            Range.from_min_extent(start, size if isinstance(size, int) else size.astype(start.dtype))
            for start, size in zip(match.start, extents, strict=True)
        )
        for axis, (item, size) in enumerate(zip(ranges, match.buffer.shape, strict=True)):
            inside = (item.min >= 0, item.min + item.extent <= size)
            if not all(self.analyzer.can_prove(condition) for condition in inside):
                raise self.refused(
                    f"the region [{shown(item.min)}, {shown(item.min + item.extent)}) of dimension {axis} of "
                    f"{match.buffer.name}, for buffer {buffer.name} of the intrinsic {self.name}, may be outside of "
                    f"its {shown(size)} elements"
                )
        self.strides(buffer, match, skipped, handed_on)
        self.offset(buffer, match, handed_on)
        return MatchBufferRegion(buffer, BufferRegion(match.buffer, ranges))

    def strides(self, buffer: Buffer, match: TensorMatch, skipped: int, handed_on: bool) -> None:
        """Raise unless the strides of a view match the implementation's."""
        if not buffer.strides and not handed_on:
            return  # elements are found by their indices alone
        actual = strides_of(match.buffer)[skipped:]
        for axis, (expected, stride) in enumerate(zip(strides_of(buffer), actual, strict=True)):
            is_single = not buffer.strides and self.analyzer.can_prove_equal(buffer.shape[axis], 1)
            if is_single or self.agrees(expected, stride):
                continue
            hint = "" if buffer.strides else "say strides=[...] with variables, and hand them on with the pointer"
            raise self.refused(
                f"dimension {axis} of buffer {buffer.name} of the intrinsic {self.name} has stride {shown(expected)}, "
                f"of the region of {match.buffer.name} {shown(stride)}",
                hint,
            )

    def offset(self, buffer: Buffer, match: TensorMatch, handed_on: bool) -> None:
        """Raise unless the offset of a view matches the implementation's."""
        offset = self.analyzer.simplify(element_offset(match.buffer, match.start))
        expected = buffer.elem_offset
        if handed_on and not isinstance(expected, Var):
            raise self.refused(
                f"the intrinsic {self.name} hands on the pointer of buffer {buffer.name}, which has no variable for "
                "its offset",
                "declare it with offset_factor=1, and hand it on with access_ptr",
            )
        if expected is not None and not self.agrees(expected, offset):
            raise self.refused(
                f"buffer {buffer.name} of the intrinsic {self.name} starts at element {shown(expected)}, the region "
                f"of {match.buffer.name} at {shown(offset)}"
            )
        factor = buffer.offset_factor
        if factor > 1 and not self.analyzer.can_prove(floormod(offset, factor).equal(0)):
            raise self.refused(
                f"buffer {buffer.name} of the intrinsic {self.name} must start at a multiple of {factor} elements, the "
                f"region of {match.buffer.name} starts at {shown(offset)}",
                "split by a multiple, or declare the buffer with offset_factor=1",
            )

    def agrees(self, expected: PrimExpr, actual: PrimExpr) -> bool:
        """True if a value equals the expected one; a variable is bound to its first value."""
        if isinstance(expected, Var):
            expected = self.bound.setdefault(expected, actual)
        return self.analyzer.can_prove_equal(expected, actual.astype(expected.dtype))

    def refused(self, message: str, hint: str = "") -> ScheduleError:
        return ScheduleError(MATCH, message, self.realize, hint=hint)


class _Pointers(StmtExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.variables: set[Var] = set()

    def visit_Var(self, node: Var) -> None:
        self.variables.add(node)


def _pointers(stmt: Stmt) -> set[Var]:
    """Return the variables that a statement uses, including pointers used other than in loads and stores."""
    visitor = _Pointers()
    visitor.visit(stmt)
    return visitor.variables
