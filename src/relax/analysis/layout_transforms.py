"""Layouts of a kernel's blocks and inputs that follow from layouts of its outputs.

    suggest_layout_transforms(func, [lambda n, c, h, w: (n, h, w, c)])

    for each block   {block: IndexMap(n, c, h, w -> n, h, w, c), output: …, input: …}

Blocks are visited from the last to the first, so that the layout of an intermediate buffer follows from its users. A
block is described if it stores one buffer at indices that are different iterators of it, or 0. Its iterators are
arranged like the indices of the buffer: a final index of the map is kept if the block iterates over all that it names.
Other iterators (of reductions) follow the iterator before them. Buffers that a block reads at iterators of its own get
the layout in the same way; those with other indices, and those that several blocks would lay out differently, keep
theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..ir import Diagnostic, DiagnosticError
from ..prim import PrimExpr, Var, free_vars, is_const, substitute
from ..tir.buffer import Buffer, BufferLoad
from ..tir.functor import post_order_visit
from ..tir.index_map import IndexMap
from ..tir.stmt import Block, BufferStore, PrimFunc
from ..tir.written import written_params

Layout = tuple[Var | None, ...]
"""The iterator that each index of an access is; None for an index that is 0."""


def suggest_layout_transforms(
    func: PrimFunc, write_buffer_transforms: Sequence[IndexMap | Callable[..., Any]]
) -> dict[Block, dict[Block | Buffer, IndexMap]]:
    """Return, for each block, index maps of its iterators and of the buffers it accesses; see the module's docstring.

    `write_buffer_transforms` holds an index map, or a function of the indices, for each buffer that the kernel writes,
    in the order of parameters. Raises DiagnosticError (E4022) for maps of another number than buffers, or of other
    numbers of dimensions.
    """
    known = _of_outputs(func, write_buffer_transforms)
    fixed: set[Buffer] = set(known)
    result: dict[Block, dict[Block | Buffer, IndexMap]] = {}
    for block in reversed(_innermost_blocks(func)):
        found = _of_block(block, known)
        if found is None:
            continue
        for buffer, index_map in list(found.items()):
            if not isinstance(buffer, Buffer):
                continue
            earlier = known.get(buffer)
            if earlier is None and buffer not in fixed:
                known[buffer] = index_map
            elif earlier is None or not earlier.is_equivalent_to(index_map):
                del found[buffer]
        fixed.update(load.buffer for load in _accesses(block, BufferLoad))
        result[block] = found
    return dict(reversed(result.items()))


def _of_outputs(func: PrimFunc, transforms: Sequence[IndexMap | Callable[..., Any]]) -> dict[Buffer, IndexMap]:
    params = [func.params[at] for at in sorted(written_params(func))]
    written = [func.buffer_map[param] for param in params if param in func.buffer_map]
    maps = [m if isinstance(m, IndexMap) else IndexMap.from_func(m) for m in transforms]
    if len(maps) != len(written):
        raise _unfit(f"the kernel writes {len(written)} buffers, found {len(maps)} maps", func)
    for buffer, index_map in zip(written, maps, strict=True):
        if len(index_map.initial_indices) != len(buffer.shape):
            dims = f"{buffer.name} has {len(buffer.shape)} dimensions"
            raise _unfit(f"{dims}, its map takes {len(index_map.initial_indices)}", func)
    return dict(zip(written, maps, strict=True))


def _unfit(message: str, func: PrimFunc) -> DiagnosticError:
    return DiagnosticError(Diagnostic("E4022", f"suggest_layout_transforms: {message}", func.span))


def _innermost_blocks(func: PrimFunc) -> list[Block]:
    blocks: list[Block] = []
    post_order_visit(func.body, lambda node: blocks.append(node) if isinstance(node, Block) else None)
    return [block for block in blocks if not _accesses(block, Block)]


def _accesses(block: Block, kind: type[Any]) -> list[Any]:
    return [access for part in (block.body, block.init) if part is not None for access in _in(part, kind)]


def _in(node: Any, kind: type[Any]) -> Iterable[Any]:
    found: list[Any] = []
    post_order_visit(node, lambda item: found.append(item) if isinstance(item, kind) else None)
    return found


def _of_block(block: Block, known: Mapping[Buffer, IndexMap]) -> dict[Block | Buffer, IndexMap] | None:
    """Index maps of a block and what it accesses; None if the block cannot be described."""
    iterators = tuple(iterator.var for iterator in block.iter_vars)
    stores = _accesses(block, BufferStore)
    if not stores or len({store.buffer for store in stores}) > 1 or stores[0].buffer not in known:
        return None
    buffer: Buffer = stores[0].buffer
    written = _layout([store.indices for store in stores], iterators)
    if written is None:
        return None
    index_map = known[buffer]
    whole = _inferred(written, index_map, iterators)
    if whole is None:
        return None
    found: dict[Block | Buffer, IndexMap] = {block: whole, buffer: index_map}
    loads = _accesses(block, BufferLoad)
    for source in dict.fromkeys(load.buffer for load in loads if load.buffer is not buffer):
        layout = _layout([load.indices for load in loads if load.buffer is source], iterators)
        inferred = None if layout is None else _inferred(written, index_map, layout)
        if inferred is not None and not _is_identity(inferred):
            found[source] = inferred
    return found


def _layout(accesses: Sequence[Sequence[PrimExpr]], iterators: Sequence[Var]) -> Layout | None:
    """The iterators that index all accesses alike; None if there are none."""
    layouts: set[Layout] = set()
    for indices in accesses:
        layout: list[Var | None] = []
        for index in indices:
            if isinstance(index, Var) and index in iterators and index not in layout:
                layout.append(index)
            elif is_const(index, 0):
                layout.append(None)
            else:
                return None
        layouts.add(tuple(layout))
    return layouts.pop() if len(layouts) == 1 else None


def _inferred(source: Layout, index_map: IndexMap, target: Layout) -> IndexMap | None:
    """Index map of a target, laid out like a source of some of its iterators; None if an index names only some."""
    initial = [Var(var.name if var is not None else f"axis{at}", "int64") for at, var in enumerate(target)]
    of_target = {var: new for var, new in zip(target, initial, strict=True) if var is not None}
    of_source = dict(zip(index_map.initial_indices, source, strict=True))
    placed: list[tuple[PrimExpr, set[Var]]] = []
    for index in index_map.final_indices:
        used = [of_source[var] for var in index_map.initial_indices if var in free_vars(index)]
        shared = {of_target[var] for var in used if var is not None and var in of_target}
        if not shared:
            continue
        if len(shared) < len(used):
            return None
        table = {
            var: of_target[held].astype(var.dtype)
            for var, held in of_source.items()
            if held is not None and held in of_target
        }
        placed.append((substitute(index, table), shared))
    for at, (var, new) in enumerate(zip(target, initial, strict=True)):
        if var is None or var not in source:
            before = (place + 1 for place, (_, used) in enumerate(placed) if at and initial[at - 1] in used)
            placed.insert(next(before, 0), (new, {new}))
    return IndexMap(initial, [index for index, _ in placed])


def _is_identity(index_map: IndexMap) -> bool:
    final = index_map.final_indices
    return len(final) == len(index_map.initial_indices) and all(
        a is b for a, b in zip(index_map.initial_indices, final, strict=True)
    )
