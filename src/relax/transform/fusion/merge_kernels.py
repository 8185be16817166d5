"""One PrimFunc from a Primitive function: the bodies of its kernels one after the other, intermediates in the root.

    @R.function(private=True)                            @T.prim_func(private=True)
    def fused_add_relu(x: (n, 4), y: (4,)):              def fused_add_relu(x, y, T_relu):
        with R.dataflow():                                   n = T.int64(); … T_add = T.alloc_buffer((n, 4))
            lv = R.call_tir(cls.add, (x, y), …)              for i, j …: T_add[v_i, v_j] = x[v_i, v_j] + y[v_j]
            gv = R.call_tir(cls.relu, (lv,), …)              for i, j …: T_relu[v_i, v_j] = max(T_add[v_i, v_j], 0)

Sizes of the kernels become those of the function. Nests whose results nobody reads are dropped, preconditions of all
kernels are kept. Parameters: tensors in their order, then the sizes of R.Shape parameters, then the outputs. Blocks may
have equal names: `with_unique_block_names` is run when the nests are final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ...expr import Binding, Function, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ...ir import RelaxExpr, structural_equal
from ...prim import IntImm, PrimExpr
from ...prim import Var as PrimVar
from ...runtime.records import dataclass
from ...struct_info import ShapeStructInfo, TensorStructInfo
from ...tir.buffer import Buffer, decl_buffer
from ...tir.functor import StmtExprMutator, substitute
from ...tir.nests import buffers_used, nest_of
from ...tir.renew import renew_bound_vars
from ...tir.stmt import Block, BlockRealize, Precondition, PrimFunc, SeqStmt, Stmt
from .kernel_calls import KernelCall, KernelCalls, dims_of


@dataclass
class MergedKernel:
    """Builder of the merged PrimFunc."""

    calls: KernelCalls
    buffers: dict[Var, Buffer | tuple[Buffer, ...]] = field(default_factory=dict[Var, "Buffer | tuple[Buffer, ...]"])
    """The buffers that the variables of the function hold."""
    allocated: list[Buffer] = field(default_factory=list[Buffer])
    statements: list[Stmt] = field(default_factory=list[Stmt])
    preconditions: list[Precondition] = field(default_factory=list[Precondition])

    def binding(self, binding: Binding) -> bool:
        """Add a binding; return False if a kernel cannot contain it."""
        if not isinstance(binding, VarBinding):
            return False
        value = binding.value
        held = self.held(value)
        if held is None:
            call = self.calls.of(value)
            held = None if call is None else self.call(call)
        if held is None:
            return False
        self.buffers[binding.var] = held
        return True

    def held(self, value: RelaxExpr) -> Buffer | tuple[Buffer, ...] | None:
        """The buffers that an expression stands for; None for a call, and for what is no tensor."""
        match value:
            case Var():
                return self.buffers.get(value)
            case TupleGetItem(source, index):
                fields = self.held(source)
                return fields[index] if isinstance(fields, tuple) else None
            case Tuple(elements):
                items = [self.held(element) for element in elements]
                buffers = tuple(item for item in items if isinstance(item, Buffer))
                return buffers if len(buffers) == len(items) else None
            case _:
                return None

    def call(self, call: KernelCall) -> Buffer | tuple[Buffer, ...] | None:
        """Add a kernel's body; its results. None if an operand is no buffer of the function."""
        mapping: dict[Buffer | PrimVar, Buffer | PrimExpr] = {**call.values}
        for buffer, operand in call.inputs:
            held = self.held(operand)
            if not isinstance(held, Buffer):
                return None
            mapping[buffer], mapping[buffer.data] = held, held.data
        results: list[Buffer] = []
        for buffer, info in call.outputs:
            result = decl_buffer(dims_of(info), info.dtype, buffer.name)
            mapping[buffer], mapping[buffer.data] = result, result.data
            results.append(result)
        self.allocated += results
        self.add_body(renew_bound_vars(substitute(call.func.body, mapping)))
        for item in call.func.preconditions:
            self.add_precondition(item.replace(condition=substitute(item.condition, call.values)))
        return tuple(results) if call.returns_tuple else results[0]

    def add_body(self, body: Stmt) -> None:
        match body:
            case BlockRealize((), IntImm(_, 1), Block((), init=None, match_buffers=(), annotations={}) as root):
                self.allocated += root.alloc_buffers
                body = root.body
            case _:
                pass
        self.statements += body.seq if isinstance(body, SeqStmt) else (body,)

    def add_precondition(self, item: Precondition) -> None:
        is_present = any(
            item.message == other.message and structural_equal(item.condition, other.condition)
            for other in self.preconditions
        )
        if not is_present:
            self.preconditions.append(item)


def merged_kernel(function: Function, calls: KernelCalls) -> PrimFunc | None:
    """The PrimFunc that a function of kernels is; None if it is more than that."""
    merged = MergedKernel(calls)
    params, sizes = _parameters(function, merged)
    body = function.body
    if params is None or not isinstance(body, SeqExpr):
        return None
    if not all(merged.binding(binding) for block in body.blocks for binding in block.bindings):
        return None
    held = merged.held(body.body)
    outputs = held if isinstance(held, tuple) else () if held is None else (held,)
    fresh = set(merged.allocated)
    if not outputs or len(set(outputs)) < len(outputs) or not fresh.issuperset(outputs):
        return None
    statements = _needed(merged.statements, outputs)
    handles = [PrimVar(f"var_{buffer.name}", "handle") for buffer in (*params, *outputs)]
    buffer_map = dict(zip(handles, (*params, *outputs), strict=True))
    used = {pointer for stmt in statements for side in buffers_used(stmt) for pointer in side}
    allocated = [b for b in merged.allocated if b not in outputs and b.data in used]
    seq = statements[0] if len(statements) == 1 else SeqStmt(tuple(statements))
    root = Block((), (), (), "root", seq, alloc_buffers=tuple(allocated))
    func = PrimFunc(
        (*handles[: len(params)], *sizes, *handles[len(params) :]),
        BlockRealize((), IntImm("bool", 1), root),
        buffer_map=buffer_map,
        preconditions=tuple(merged.preconditions),
        attrs={"tir.noalias": True},
    )
    return renew_bound_vars(func)


def _parameters(function: Function, merged: MergedKernel) -> tuple[list[Buffer] | None, list[PrimVar]]:
    """The buffers of tensor parameters, and the variables that R.Shape parameters bind. None if there are others."""
    buffers: list[Buffer] = []
    sizes: list[PrimVar] = []
    for param in function.params:
        match param.struct_info_:
            case ShapeStructInfo(values) if values is not None:
                for value in values:
                    if not isinstance(value, PrimVar) or value in sizes:
                        return None, []
                    sizes.append(value)
            case TensorStructInfo() as info if dims_of(info) is not None and not sizes:
                merged.buffers[param] = buffer = decl_buffer(dims_of(info), info.dtype, param.name_hint)
                buffers.append(buffer)
            case _:
                return None, []
    return buffers, sizes


def _needed(statements: Sequence[Stmt], outputs: Sequence[Buffer]) -> list[Stmt]:
    """Return the statements without loop nests whose results are unused."""
    read = {buffer.data for buffer in outputs}
    kept: list[Stmt] = []
    for stmt in reversed(statements):
        reads, writes = buffers_used(stmt)
        if nest_of(stmt) is None or writes & read:
            kept.append(stmt)
            read |= reads | writes
    return kept[::-1]


def with_unique_block_names(func: PrimFunc) -> PrimFunc:
    """The function with a name of its own for each block; itself if they have such names."""
    return _BlockNames().visit(func)


class _BlockNames(StmtExprMutator):
    """Gives each block a name of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_Block(self, node: Block) -> Block:
        name, number = node.name_hint, 0
        while name in self.names:
            number += 1
            name = f"{node.name_hint}_{number}"
        self.names.add(name)
        return self.visit_children(node if name == node.name_hint else node.replace(name_hint=name))
