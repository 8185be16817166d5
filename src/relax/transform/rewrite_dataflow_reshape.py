"""Let a kernel that only copies elements in order be a view of its input: no allocation, no loop.

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

from collections.abc import Iterable, Sequence

from ..analysis.inplace import reused_indices
from ..derive.normalize import Normalizer
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..ir import GlobalVar, IRModule, Node, Op, RelaxExpr, walk
from ..op import is_call_of, operator_of
from ..op.intrinsic import DestinationPassing, Intrinsic
from ..op.intrinsics import CallTIR, InvokePureClosure
from ..op.shapes import Reshape
from ..prim import IntImm, PrimExpr, const, is_const, substitute
from ..prim import Var as PrimVar
from ..prim.analyzer import Analyzer
from ..prim.expr import INT64, cast
from ..struct_info import TensorStructInfo
from ..tir import Range
from ..tir.buffer import Buffer, BufferLoad
from ..tir.stmt import BlockRealize, BufferStore, For, PrimFunc, Stmt
from .decorators import function_pass


@function_pass(opt_level=1)
def RewriteDataflowReshape(func: Function, mod: IRModule) -> Function:
    """Turn copying kernels into views where nobody can tell; see the module's docstring."""
    return _Rewriter(mod).function_body(func, str(func.attrs.get("global_symbol", "")))


class _Rewriter(Normalizer):
    """Normalisation, with kernels replaced by views on the way."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod, warn=False)
        self.mod = mod
        self.views: dict[GlobalVar, bool] = {}
        self.private: frozenset[Var] = frozenset()

    def block(self, block: BindingBlock) -> list[BindingBlock]:
        outer = self.private
        dataflow = isinstance(block, DataflowBlock) and not works_in_place(block)
        self.private = private_variables(block.bindings) if dataflow else frozenset()
        blocks = super().block(block)
        self.private = outer
        return blocks

    def var_binding(self, binding: VarBinding) -> None:
        value = binding.value
        if binding.var in self.private and isinstance(value, Call):
            view = self.view(value)
            if view is not None:
                self.bind(binding.var, self.visit(view), binding)
                return
        super().var_binding(binding)

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


# ------------------------------------------------------------------------------------ who sees a value


def works_in_place(block: BindingBlock) -> bool:
    """Whether some call in a block may change an argument: by itself, or in the function it calls."""
    return any(
        isinstance(binding, VarBinding)
        and isinstance(binding.value, Call)
        and may_work_in_place(binding.value)
        for binding in block.bindings
    )


def may_work_in_place(call: Call) -> bool:
    """Whether a call may change an argument: by itself, or in the function it calls."""
    return calls_function(call) or bool(reused_indices(call))


def calls_function(call: Call) -> bool:
    """Whether a call enters a Relax function, which may reuse its parameters in place."""
    return isinstance(call.op, Var | GlobalVar) or is_call_of(call, InvokePureClosure)


def private_variables(bindings: Iterable[Binding]) -> frozenset[Var]:
    """The DataflowVars whose values, under every name they get, are only read, and only in this block."""
    local = list(bindings)
    return only_read(local, {b.var for b in local if not isinstance(b.var, DataflowVar)})


def own_variables(func: Function) -> frozenset[Var]:
    """The variables of a function, outside of local functions, whose values, under every name, it alone reads."""
    bindings: list[Binding] = []
    seen: set[Var] = set()
    waiting: list[RelaxExpr] = [func.body]
    while waiting:
        seq = waiting.pop()
        if not isinstance(seq, SeqExpr):
            seen |= variables_in([seq])
            continue
        seen |= variables_in([seq.body])
        for block in seq.blocks:
            bindings += block.bindings
            for binding in block.bindings:
                value = binding.value if isinstance(binding, VarBinding) else None
                if isinstance(value, If):
                    waiting += [value.true_branch, value.false_branch]
    return only_read(bindings, seen)


def only_read(bindings: Sequence[Binding], seen: set[Var]) -> frozenset[Var]:
    """The variables bound by these whose values nobody but operators reads; `seen` starts with those others see."""
    for binding in reversed(bindings):
        value = binding.value if isinstance(binding, VarBinding | MatchCast) else None
        if value is None or isinstance(value, If):  # what its branches give is seen already
            continue
        if isinstance(value, Var | Tuple | TupleGetItem) or is_view_call(value):
            if binding.var in seen:  # another name of what it names
                seen.update(variables_in([value]))
        else:
            seen.update(variables_in(given_away(value) if isinstance(value, Call) else [value]))
    return frozenset(binding.var for binding in bindings if binding.var not in seen)


def is_view_call(expr: RelaxExpr) -> bool:
    """Whether an expression is a call of an operator whose result may share storage with its first operand."""
    operator = operator_of(expr) if isinstance(expr, Call) else None
    return operator is not None and operator.view


def given_away(call: Call) -> list[RelaxExpr]:
    """The arguments of a call that its result may be, or contain, or that may be kept."""
    if not isinstance(call.op, Op):
        return [call.op, *call.args]
    operator = operator_of(call)
    if isinstance(operator, DestinationPassing) and operator.allocates:
        return []
    if operator is None or isinstance(operator, Intrinsic) or operator.packed is not None:
        return list(call.args)
    return []


def variables_in(exprs: Iterable[RelaxExpr]) -> set[Var]:
    """The variables that occur in some expressions."""
    found: set[Var] = set()

    def visit(item: Node) -> None:
        if isinstance(item, Var):
            found.add(item)

    for expr in exprs:
        walk(expr, visit)
    return found


# ------------------------------------------------------------------------------------ what a kernel does


def is_flat_copy(func: PrimFunc) -> bool:
    """Whether a PrimFunc of one input and one output is proved to copy element by element, in flat order."""
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
    sizes = [element_count(buffer) for buffer in buffers]
    written, read = (
        flat_index(buffer, indices)
        for buffer, indices in ((buffers[1], store.indices), (buffers[0], store.value.indices))
    )
    return analyzer.can_prove_equal(sizes[0], sizes[1]) and analyzer.can_prove_equal(written, read)


def is_compact(buffer: Buffer) -> bool:
    """Whether a buffer is row-major from its pointer on."""
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
        case BufferStore():
            return stmt
        case _:
            return None


def covers(store: BufferStore, loops: dict[PrimVar, PrimExpr], analyzer: Analyzer) -> bool:
    """Whether a store reaches every element once: each index is a loop variable of its own, over the whole size."""
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
