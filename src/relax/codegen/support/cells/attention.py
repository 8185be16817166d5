"""Attention of paged KV caches, called by compiled programs without Python (`relax.runtime.attention_steps`).

The packed function takes the arguments of ``vm.builtin.attention_kv_cache_attention_with_fused_qkv``: cache, layer,
factor of scores, queries with keys and values, memory of the result. For a cache that has prepared the arguments of its
kernels for the tokens under way, it calls both kernels; everything else goes to the builtin, which knows all cases and
their errors.

    AttentionCaches   the builtin's function; for each of `count` caches: its Python object, or 0, and its AttentionStep
    AttentionStep     prepared arguments; `ready` is 0 while no tokens are under way, or the kernels are not enough
                      `shared`: slots, queries, positions, query_indptr, factor of scores, lse; for layers without and
                      with a window: angles, page_indptr, page_ids, page_positions, windows
                      `cells`: for each layer keys, values, and 1 if it has a window, else 0

Memory is Python's, which writes it while it holds its lock and no program runs on the cache.
"""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....script import tir as T
from ..c import NULL, C, address, pointer
from .questions import TensorObject
from .values import Any, cells, copy_cell, internal

Caches = T.struct("AttentionCaches")
Step = T.struct("AttentionStep")
Opaque = T.struct("OpaqueObject")
SLOTS, QUERIES, POSITIONS, QUERY_INDPTR, SCALE, LSE, FIRST_TABLE = range(7)
"""Places of the shared arguments."""
TABLE = 5
"""Arguments of a table: angles, page_indptr, page_ids, page_positions, windows."""


@internal
def step_of(caches: Caches, cell: Any) -> T.handle:
    """Return the step of the cache in a cell, null if it has none."""
    if cell.type_index != ffi.OPAQUE_OBJECT:
        return NULL
    owner = address(Opaque(cell.object).handle)
    pairs = T.decl_buffer((128,), "int64", data=caches.pairs)
    for i in range(caches.count):
        if pairs[2 * i] == owner:
            return pointer(pairs[2 * i + 1])
    return NULL


@internal
def fits(cell: Any, rows: T.int64, inner: T.int64, last: T.int64, dtype: T.int64) -> T.bool:
    """Return true for a tensor of this dtype and shape: (rows, inner), or (rows, inner, last) if `last` is not 0."""
    if cell.type_index != ffi.TENSOR:
        return False
    tensor = TensorObject(cell.object).tensor
    rank = T.if_then_else(last == 0, T.int32(2), T.int32(3))
    if tensor.ndim != rank or T.int64(T.Cast("uint32", tensor.dtype)) != dtype:
        return False
    dims = T.decl_buffer((3,), "int64", data=tensor.shape)
    if dims[0] != rows or dims[1] != inner:
        return False
    if last != 0:
        return dims[2] == last
    return True


@internal
def is_prepared(step: Step, args: Any) -> T.bool:
    """Return true if the step has the arguments of the kernels for this call."""
    layer = args[1].value - step.first_layer
    if step.ready == 0 or layer < 0 or layer >= step.layers or args[2].value != step.scale:
        return False
    if not fits(args[3], step.tokens, step.width, T.int64(0), step.dtype):
        return False
    return fits(args[4], step.tokens, step.heads, step.columns, step.dtype)


@internal
def attend(step: Step, args: Any, result: Any) -> T.int32:
    """Call both kernels of a layer."""
    shared = Any(T.address_of(step.shared))
    layer = Any(T.address_of(step.cells))[3 * (args[1].value - step.first_layer)]
    table = shared[FIRST_TABLE + TABLE * layer[2].value]
    passed = Any.alloc(13)
    copy_cell(passed[0], args[3])
    copy_cell(passed[1], table[0])
    copy_cell(passed[2], shared[SLOTS])
    copy_cell(passed[3], layer[0])
    copy_cell(passed[4], layer[1])
    copy_cell(passed[5], shared[QUERIES])
    status = C.TVMFFIFunctionCall(step.append, passed, 6, result)
    if status != 0:
        return status
    copy_cell(passed[0], shared[QUERIES])
    copy_cell(passed[1], shared[POSITIONS])
    copy_cell(passed[2], shared[QUERY_INDPTR])
    for i in range(4):
        copy_cell(passed[5 + i], table[1 + i])
    copy_cell(passed[9], shared[SCALE])
    copy_cell(passed[10], args[4])
    copy_cell(passed[11], shared[LSE])
    return C.TVMFFIFunctionCall(step.attend, passed, 12, result)


@cells
def attend_step(self: Caches, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (cache, layer, factor of scores, queries with keys and values, memory of the result)."""
    if count == 5 and args[1].type_index == ffi.INT and args[2].type_index == ffi.FLOAT:
        step = Step(step_of(self, args))
        if not T.isnullptr(step):
            if is_prepared(step, args):
                return attend(step, args, result)
    return C.TVMFFIFunctionCall(self.missing, args, count, result)


@internal
def keep_caches(self: T.handle):
    """Delete nothing: the memory is Python's."""


@cells
def attention_caches(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (address of AttentionCaches) -> function `attend_step` for these caches."""
    made = T.alloc_var("handle", NULL)
    function, deleter = T.symbol_address(attend_step), T.symbol_address(keep_caches)
    if C.TVMFFIFunctionCreate(args.object, function, deleter, T.address_of(made)) != 0:
        return -1
    result.word = ffi.FUNCTION
    result.object = made
    return 0


FUNCTIONS = (step_of, fits, is_prepared, attend, attend_step, keep_caches, attention_caches)
