"""pad_einsum: pad the extents of a sum of products to multiples, with zeros in the inputs.

    for i, j, k in T.grid(127, 127, 127):       sch.pad_einsum(block, [1, 32, 32])
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    for ax0, ax1 in T.grid(127, 128):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_pad[v0, v1] = T.if_then_else(v1 < 127, A[v0, v1], 0.0)
    for ax0, ax1 in T.grid(128, 128): ...                             the same for B_pad
    for i, j, k in T.grid(127, 128, 128):
        with T.block("C"): ...                                        C_pad, from A_pad and B_pad
    for ax0, ax1 in T.grid(127, 127):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            C[v0, v1] = C_pad[v0, v1]

`padding` holds a number for each variable of the block, to a multiple of which its extent is rounded up. Buffers
without changed extents are not copied.

Rejected: a block that is no reduction block, or does not accumulate a product of elements; elements whose indices are
not distinct variables of the block; loops that are not perfectly nested, or not bound to one variable each; numbers
below 1; a buffer that occurs as two factors with different padding; a padded reduction variable that does not index all
factors: zero times infinity is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import Add, Cast, Mul, PrimExpr, Var, const, is_const, prove, simplify
from ....prim.intrin import ceildiv, if_then_else
from ....runtime.records import dataclass
from ...buffer import Buffer, BufferLoad, IterVar, Range
from ...functor import substitute
from ...regions import complete_block
from ...statements import TRUE, conjunction, seq_of
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt
from ..base import ScheduleBase, primitive
from ..conditions import require_reduction
from ..error import ARGUMENT, BINDING, KIND, STRUCTURE, ScheduleError
from ..order import require_only_loops_around
from ..rv import BlockRV
from ..state import ScheduleState


@primitive
def pad_einsum(sch: ScheduleBase, block: BlockRV, padding: Sequence[int]) -> None:
    """Round the extents of a sum of products up to multiples, padding its inputs with zeros.

    `padding` holds a number for each variable of the block. Raises ScheduleError in the cases listed in the module's
    docstring.
    """
    state = sch.state
    realize = state.realize(block)
    require_reduction(state, block)
    require_only_loops_around(state, block)
    loops = _loops(state, block)
    extents = _padded_extents(realize, padding)
    store, factors = _product(realize)
    _require_zeros(realize, factors, extents)
    _require_one_padding(realize, factors, extents)
    pads = {access.buffer: _Pad.of(access, extents, realize, state, block.function) for access in (*factors, store)}
    pads = {buffer: pad for buffer, pad in pads.items() if pad is not None}
    if not pads:
        return
    top = loops[0]
    nest = _padded_nest(realize, loops, extents, {old: pad.buffer for old, pad in pads.items()})
    before = [_copy_in(old, pad) for old, pad in pads.items() if old is not store.buffer]
    output = pads.get(store.buffer)
    behind = [] if output is None else [_copy_out(store.buffer, output)]
    state.replace(top, seq_of([*before, nest, *behind]), block.function)
    scope = state.scope(block)
    buffers = (*scope.block.alloc_buffers, *(pad.buffer for pad in pads.values()))
    state.replace(scope, scope.replace(block=scope.block.replace(alloc_buffers=buffers)), block.function)


# ------------------------------------------------------------------------------------------ conditions


def _loops(state: ScheduleState, block: BlockRV) -> list[For]:
    """Return the perfectly nested loops around a block, each bound to one of its variables."""
    realize, loops = state.realize(block), state.loops(block)
    variables = {loop.loop_var: loop for loop in loops}
    bound = len(loops) == len(realize.iter_values) > 0 and is_const(realize.predicate, 1)
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        loop = variables.pop(value, None) if isinstance(value, Var) else None
        bound = bound and loop is not None and _runs_over(loop, iter_var.dom)
    if not bound:
        raise ScheduleError(
            BINDING,
            f"the variables of block {block.name} are not bound one by one to loops that run over their domains",
            realize,
            hint="pad before loops are split, fused, or shared with other blocks",
        )
    for outer, inner in zip(loops, [*loops[1:], realize], strict=True):
        if outer.body is not inner:
            raise ScheduleError(
                STRUCTURE, f"loop {outer.loop_var.name} has something else in it than block {block.name}", outer
            )
    return loops


def _runs_over(loop: For, dom: Range | None) -> bool:
    """True if a loop runs over the domain, from 0 on."""
    if dom is None or not is_const(loop.min, 0) or not is_const(dom.min, 0):
        return False
    return prove(loop.extent.equal(dom.extent)) is True


def _padded_extents(realize: BlockRealize, padding: Sequence[int]) -> dict[Var, PrimExpr]:
    """Return the padded extent of each variable of a block."""
    iter_vars = realize.block.iter_vars
    if len(padding) != len(iter_vars) or any(number < 1 for number in padding):
        raise ScheduleError(
            ARGUMENT,
            f"padding must be a number of 1 or more for each of the {len(iter_vars)} variables, found {list(padding)}",
            realize,
        )
    result: dict[Var, PrimExpr] = {}
    for iter_var, number in zip(iter_vars, padding, strict=True):
        assert iter_var.dom is not None
        extent = iter_var.dom.extent
        rounded = simplify(ceildiv(extent, number) * number)
        result[iter_var.var] = extent if prove(rounded.equal(extent)) is True else rounded
    return result


def _product(realize: BlockRealize) -> tuple[BufferStore, list[BufferLoad]]:
    """Return the store of a block, and the factors of the product it accumulates. Raises for another body."""
    block = realize.block
    store, init = block.body, block.init
    factors: list[BufferLoad] = []
    if isinstance(store, BufferStore) and isinstance(store.value, Add) and isinstance(init, BufferStore):
        own, term = store.value.a, store.value.b
        if not _is_same(own, store):
            own, term = term, own
        simple = _is_same(own, store) and _factors(term, factors) and _is_zero(init.value)
        if simple and all(factor.buffer is not store.buffer for factor in factors):
            for access in (store, *factors):
                _require_variables(realize, access)
            return store, factors
    raise ScheduleError(
        KIND,
        f"block {block.name_hint} does not sum up a product of elements from zero on",
        realize,
        hint="C[...] = C[...] + A[...] * B[...], with C[...] = 0 in T.init",
    )


def _is_same(value: PrimExpr, store: BufferStore) -> bool:
    return (
        isinstance(value, BufferLoad)
        and value.buffer is store.buffer
        and all(a is b or prove(a.equal(b)) is True for a, b in zip(value.indices, store.indices, strict=True))
    )


def _is_zero(value: PrimExpr) -> bool:
    return getattr(value, "value", None) == 0


def _factors(term: PrimExpr, factors: list[BufferLoad]) -> bool:
    """Collect the factors of a product, without casts; False for another term."""
    match term:
        case Mul(a, b):
            return _factors(a, factors) and _factors(b, factors)
        case Cast(_, value):
            return _factors(value, factors)
        case BufferLoad():
            factors.append(term)
            return True
        case _:
            return False


def _require_variables(realize: BlockRealize, access: BufferStore | BufferLoad) -> None:
    domains = {v.var: v.dom for v in realize.block.iter_vars if v.dom is not None}
    distinct = len({index for index in access.indices if index in domains}) == len(access.indices)
    if not distinct or not all(isinstance(index, Var) for index in access.indices):
        raise ScheduleError(
            BINDING,
            f"the indices of buffer {access.buffer.name} are not distinct variables of block {realize.block.name_hint}",
            realize,
        )


def _require_zeros(realize: BlockRealize, factors: list[BufferLoad], extents: dict[Var, PrimExpr]) -> None:
    """Raise unless the product is zero in all added reduction steps."""
    for iter_var in realize.block.iter_vars:
        assert iter_var.dom is not None
        if iter_var.iter_type == "spatial" or extents[iter_var.var] is iter_var.dom.extent:
            continue
        indexed = [any(index is iter_var.var for index in factor.indices) for factor in factors]
        if not (all(indexed) or (any(indexed) and all(f.buffer.dtype.is_integer for f in factors))):
            raise ScheduleError(
                KIND,
                f"the variable {iter_var.var.name} gets longer, but does not index all factors of the product: zero "
                "times what is not finite is no zero",
                realize,
            )


def _require_one_padding(realize: BlockRealize, factors: list[BufferLoad], extents: dict[Var, PrimExpr]) -> None:
    """Raise if a buffer occurs as several factors with different padding."""
    domains = {v.var: v.dom.extent for v in realize.block.iter_vars if v.dom is not None}
    first: dict[Buffer, BufferLoad] = {}
    for factor in factors:
        other = first.setdefault(factor.buffer, factor)
        for a, b in zip(other.indices, factor.indices, strict=True):
            assert isinstance(a, Var)
            assert isinstance(b, Var)
            if a is not b and not all(prove(table[a].equal(table[b])) is True for table in (domains, extents)):
                raise ScheduleError(
                    BINDING,
                    f"buffer {factor.buffer.name} is two factors of the product, and {a.name} and {b.name}, which "
                    "index the same dimension, get different extents",
                    realize,
                    hint="cache_read one of the two first, or pad both variables to the same extent",
                )


# ------------------------------------------------------------------------------------------ what is made


@dataclass(frozen=True)
class _Pad:
    """A padded buffer, the original extents, and the name of the copying block."""

    buffer: Buffer
    extents: tuple[PrimExpr, ...]
    name: str

    @staticmethod
    def of(
        access: BufferStore | BufferLoad,
        extents: dict[Var, PrimExpr],
        realize: BlockRealize,
        state: ScheduleState,
        function: str,
    ) -> _Pad | None:
        """Return the padded buffer for an access; None if no extent changes."""
        domains = {v.var: v.dom.extent for v in realize.block.iter_vars if v.dom is not None}
        variables = [index for index in access.indices if isinstance(index, Var)]
        old, new = [domains[var] for var in variables], [extents[var] for var in variables]
        if all(a is b for a, b in zip(old, new, strict=True)):
            return None
        name = f"{access.buffer.name}_pad"
        buffer = Buffer(Var(name, "handle"), access.buffer.dtype, tuple(new), name=name, scope=access.buffer.scope)
        return _Pad(buffer, tuple(old), state.fresh_name(function, name))


def _padded_nest(
    realize: BlockRealize, loops: Sequence[For], extents: dict[Var, PrimExpr], buffers: dict[Buffer, Buffer]
) -> Stmt:
    """Return the loops and the block with padded extents and buffers."""
    block = realize.block
    iter_vars = tuple(
        v.replace(dom=Range.from_min_extent(const(0, v.var.dtype), extents[v.var])) for v in block.iter_vars
    )
    block = block.replace(iter_vars=iter_vars, reads=(), writes=())
    stmt: Stmt = realize.replace(block=complete_block(substitute(block, buffers)))
    values = {value: v.var for v, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    for loop in reversed(loops):
        stmt = loop.replace(extent=extents[values[loop.loop_var]], body=stmt)
    return stmt


def _copy_in(old: Buffer, pad: _Pad) -> Stmt:
    """Return loops that fill a padded buffer with the original elements and zeros."""

    def store(variables: Sequence[Var]) -> BufferStore:
        inside = [
            var < extent
            for var, extent, size in zip(variables, pad.extents, pad.buffer.shape, strict=True)
            if prove(size <= extent) is not True
        ]
        zero = const(0, old.dtype)
        value = if_then_else(conjunction(inside), BufferLoad(old, tuple(variables)), zero)
        return BufferStore(pad.buffer, value, tuple(variables))

    return _loops_of(pad.name, pad.buffer.shape, store)


def _copy_out(old: Buffer, pad: _Pad) -> Stmt:
    """Return loops that copy the result back."""

    def store(variables: Sequence[Var]) -> BufferStore:
        return BufferStore(old, BufferLoad(pad.buffer, tuple(variables)), tuple(variables))

    return _loops_of(pad.name, pad.extents, store)


def _loops_of(name: str, extents: Sequence[PrimExpr], store: Callable[[Sequence[Var]], BufferStore]) -> Stmt:
    """Return loops over the extents, around a block with one store."""
    loops = [Var(f"ax{i}", extent.dtype) for i, extent in enumerate(extents)]
    iter_vars = [
        IterVar(Range.from_min_extent(const(0, extent.dtype), extent), Var(f"v{i}", extent.dtype), IterVar.DataPar)
        for i, extent in enumerate(extents)
    ]
    body = store([v.var for v in iter_vars])
    stmt: Stmt = BlockRealize(tuple(loops), TRUE, complete_block(Block(tuple(iter_vars), (), (), name, body)))
    for var, extent in zip(reversed(loops), reversed(extents), strict=True):
        stmt = For(var, const(0, var.dtype), extent, ForKind.SERIAL, stmt)
    return stmt
