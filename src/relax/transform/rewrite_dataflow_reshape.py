"""Replace kernels that only copy elements in order by a reshape view: no allocation, no loop.

Before   with R.dataflow():                                                 After   with R.dataflow():
             lv = R.call_tir(cls.reshape, (x,), R.Tensor((8, 3)))                       lv = R.reshape(x, (8, 3))
             gv = R.call_tir(cls.exp, (lv,), R.Tensor((8, 3)))                          gv = R.call_tir(cls.exp, …)
             R.output(gv)                                                               R.output(gv)

VMBuiltinLower makes ``R.reshape`` a view builtin, which shares the storage of its operand. That must not be
seen, so the call is left alone unless

* the PrimFunc is proved to write to each flat position the element at the same flat position of its one input;
* the result stays inside the dataflow block, and is only read there: by kernels and operators. As an output of the
  block, in a tuple that leaves it, captured, or given to a function that may return it, it could be changed by
  someone who does not know that it shares storage;
* nothing in the block works in place, or calls a function that may: the input could be changed while the view is in
  use.
"""

from __future__ import annotations

from ..analysis.alias import private_variables
from ..analysis.effects import effects_of, only_reads
from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..expr import BindingBlock, Call, DataflowBlock, DataflowVar, Function, ShapeExpr, Tuple, Var, VarBinding
from ..ir import GlobalVar, IRModule
from ..op import is_call_of
from ..op.intrinsics import CallTIR
from ..op.shapes import Reshape
from ..prim import IntImm, PrimExpr, const, is_const, substitute
from ..prim import Var as PrimVar
from ..prim.analyzer import Analyzer
from ..prim.expr import INT64, cast
from ..rewrite import Rewriter, bindings_in
from ..struct_info import TensorStructInfo
from ..tir import Range
from ..tir.buffer import Buffer, BufferLoad
from ..tir.stmt import BlockRealize, BufferStore, For, PrimFunc, Stmt
from .decorators import function_pass


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def RewriteDataflowReshape(func: Function, mod: IRModule) -> Function:
    """Turn copying kernels into views where this is unobservable; see the module's docstring."""
    return _Views(mod).rewrite_function(func)


class _Views(Rewriter):
    """Replaces kernels by views."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.views: dict[GlobalVar, bool] = {}
        self.private: frozenset[Var] = frozenset()

    def concerns(self, function: Function) -> bool:
        return any(isinstance(b.var, DataflowVar) and isinstance(b.value, Call) for b in bindings_in(function))

    def block(self, block: BindingBlock) -> BindingBlock:
        outer = self.private
        self.private = private_in_block(block)
        new = super().block(block)
        self.private = outer
        return new

    def var_binding(self, binding: VarBinding) -> None:
        value = binding.value
        view = self.view(value) if binding.var in self.private and isinstance(value, Call) else None
        super().var_binding(binding if view is None else binding.replace(value=view))

    def view(self, call: Call) -> Call | None:
        """The call as a reshape of its argument; None if it does more."""
        match call:
            case Call(_, (GlobalVar() as callee, Tuple((source,)), *_)) if is_call_of(call, CallTIR):
                info = call.sinfo_args[0]
                if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
                    return None
                if not isinstance(source.struct_info_, TensorStructInfo) or not self.copies(callee):
                    return None
                return Reshape().raw_call((source, info.shape), span=call.span)
            case _:
                return None

    def copies(self, callee: GlobalVar) -> bool:
        if callee not in self.views:
            func = self.mod.get(callee)
            self.views[callee] = isinstance(func, PrimFunc) and is_flat_copy(func)
        return self.views[callee]


def private_in_block(block: BindingBlock, mod: IRModule | None = None) -> frozenset[Var]:
    """The DataflowVars of a block whose values are only read, and only there; none if the block may change a tensor.

    With a module, its functions that are called are asked for what they do; without, they may do anything.
    """
    if not isinstance(block, DataflowBlock):
        return frozenset()
    calls = [b.value for b in block.bindings if isinstance(b, VarBinding) and isinstance(b.value, Call)]
    reading = {call for call in calls if mod is not None and only_reads(call, mod)}
    if any(effects_of(call).writes for call in calls if call not in reading):
        return frozenset()
    seen = [b.var for b in block.bindings if not isinstance(b.var, DataflowVar)]
    return private_variables(block.bindings, seen, reading=reading)


# ------------------------------------------------------------------------------------ what a kernel does


def is_flat_copy(func: PrimFunc) -> bool:
    """True if a PrimFunc of one input and one output is proved to copy element by element, in flat order."""
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    if len(buffers) != 2 or buffers[0].dtype != buffers[1].dtype or not all(map(is_compact, buffers)):
        return False
    loops: dict[PrimVar, PrimExpr] = {}
    store = innermost_store(func.body, loops)
    if store is None or store.buffer is not buffers[1] or not isinstance(store.value, BufferLoad):
        return False
    if store.value.buffer is not buffers[0]:
        return False
    analyzer = Analyzer()
    for var, extent in loops.items():
        analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), extent))
    if not covers(store, loops, analyzer):
        return False
    source, result = (element_count(buffer) for buffer in buffers)
    if not Analyzer().can_prove_equal(source, result):  # also where a loop does not run, which `analyzer` excludes
        return False
    written, read = (
        flat_index(buffer, indices)
        for buffer, indices in ((buffers[1], store.indices), (buffers[0], store.value.indices))
    )
    return analyzer.can_prove_equal(written, read)


def is_compact(buffer: Buffer) -> bool:
    """True if a buffer is row-major from its pointer on."""
    offset = buffer.elem_offset
    return not buffer.strides and (offset is None or is_const(offset, 0))


def innermost_store(stmt: Stmt, loops: dict[PrimVar, PrimExpr]) -> BufferStore | None:
    """The one store of a perfect nest of loops, in terms of the loop variables; None if there is more to it."""
    match stmt:
        case For(loop_var, low, extent) if is_const(low, 0):
            loops[loop_var] = extent
            return innermost_store(stmt.body, loops)
        case BlockRealize(iter_values, predicate, block) if is_const(predicate, 1):
            if block.init is not None or block.alloc_buffers or block.match_buffers:
                return None
            store = innermost_store(block.body, loops)
            if store is None:
                return None
            table = {i.var: v for i, v in zip(block.iter_vars, iter_values, strict=True)}
            value, indices = substitute(store.value, table), substitute(store.indices, table)
            return BufferStore(store.buffer, value, indices)
        case BufferStore(predicate=None):
            return stmt
        case _:
            return None


def covers(store: BufferStore, loops: dict[PrimVar, PrimExpr], analyzer: Analyzer) -> bool:
    """True if a store reaches every element once: each index is a loop variable of its own, over the whole size."""
    indices = [index for index in store.indices if not is_const(index, 0)]
    used = [index for index in indices if isinstance(index, PrimVar)]
    if len(used) < len(indices) or len(set(used)) < len(used):
        return False
    for index, size in zip(store.indices, store.buffer.shape, strict=True):
        extent = loops.get(index) if isinstance(index, PrimVar) else const(1, "int64")
        if extent is None or not analyzer.can_prove_equal(cast(INT64, extent), cast(INT64, size)):
            return False
    rest = [extent for var, extent in loops.items() if var not in used]
    return all(isinstance(extent, IntImm) and extent.value == 1 for extent in rest)


def element_count(buffer: Buffer) -> PrimExpr:
    """The number of elements of a buffer."""
    count: PrimExpr = const(1, "int64")
    for size in buffer.shape:
        count = count * cast(INT64, size)
    return count


def flat_index(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """The position of an element, counted in row-major order."""
    position: PrimExpr = const(0, "int64")
    for index, size in zip(indices, buffer.shape, strict=True):
        position = position * cast(INT64, size) + cast(INT64, index)
    return position
