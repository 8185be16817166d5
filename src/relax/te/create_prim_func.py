"""A PrimFunc from a graph of tensors: one loop nest with a block per computation.

    A = te.placeholder((n,), name="A")                  @T.prim_func
    B = te.compute((n,), lambda i: A[i] + 1.0, "B")     def main(var_A: T.handle, var_B: T.handle):
    create_prim_func([A, B])                 gives          n = T.int32(); A = T.match_buffer(var_A, (n,)) …
                                                            for i in range(n):
                                                                with T.block("B"):
                                                                    v_i = T.axis.spatial(n, i)
                                                                    B[v_i] = A[v_i] + T.float32(1)

The attribute "requires" of an operation, pairs of a condition on sizes and a message, becomes preconditions. Tensors
that are not arguments are allocated in the root block. Variables that are neither arguments nor bound by an argument's
dimension become parameters, before the first output.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Diagnostic, DiagnosticError
from ..prim import IntImm, PrimExpr, Var, const
from ..tir.buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range, Reduce, decl_buffer
from ..tir.dtypes import force_index_dtype
from ..tir.functor import StmtExprMutator, substitute
from ..tir.regions import complete_block, whole_range
from ..tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Precondition,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from ..tir.usage import undefined_vars
from .tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, ProducerLoad, Tensor

TRUE = IntImm("bool", 1)


def create_prim_func(ops: Sequence[Tensor | Var] | Tensor, index_dtype_override: str | None = None) -> PrimFunc:
    """Create the PrimFunc that computes the output tensors in `ops` from the input tensors and scalars in `ops`.

    `index_dtype_override` is the dtype of all indices and sizes. Raises DiagnosticError when an input is missing.
    """
    args = (ops,) if isinstance(ops, Tensor) else tuple(ops)
    func = _Builder(args).build()
    return func if index_dtype_override is None else force_index_dtype(func, index_dtype_override)


def topological_order(outputs: Sequence[Tensor]) -> list[Operation]:
    """Operations that the tensors depend on, in topological order."""
    order: dict[Operation, None] = {}
    stack: list[tuple[Operation, bool]] = [(tensor.op, False) for tensor in reversed(outputs)]
    while stack:
        op, inputs_done = stack.pop()
        if op in order:
            continue
        if inputs_done:
            order[op] = None
        else:
            stack.append((op, True))
            stack.extend((tensor.op, False) for tensor in reversed(op.input_tensors))
    return list(order)


class _Builder:
    def __init__(self, args: tuple[Tensor | Var, ...]) -> None:
        self.args = args
        self.buffers: dict[Tensor, Buffer] = {}
        self.block_names: set[str] = set()
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.first_output = len(args)

    def build(self) -> PrimFunc:
        self.add_params()
        allocated: list[Buffer] = []
        nests: list[Stmt] = []
        preconditions: list[Precondition] = []
        for op in topological_order([arg for arg in self.args if isinstance(arg, Tensor)]):
            if isinstance(op, PlaceholderOp):
                self.require_argument(op)
                continue
            for i in range(op.num_outputs):
                tensor = op.output(i)
                if tensor not in self.buffers:
                    self.buffers[tensor] = decl_buffer(tensor.shape, tensor.dtype, _name(tensor))
                    allocated.append(self.buffers[tensor])
            nests += self.nests_of(op)
            preconditions += [Precondition(*requirement) for requirement in op.attrs.get("requires", ())]
        body: Stmt = nests[0] if len(nests) == 1 else SeqStmt(tuple(nests))
        root = Block((), (), (), "root", body, alloc_buffers=tuple(allocated))
        func = PrimFunc(
            tuple(self.params),
            BlockRealize((), TRUE, root),
            buffer_map=self.buffer_map,
            preconditions=tuple(preconditions),
            attrs={"global_symbol": "main", "tir.noalias": True},
        )
        extra = undefined_vars(func)
        params = (*self.params[: self.first_output], *extra, *self.params[self.first_output :])
        return func.replace(params=params) if extra else func

    def add_params(self) -> None:
        for arg in self.args:
            if isinstance(arg, Var):
                self.params.append(arg)
                continue
            if arg in self.buffers:
                raise _error(
                    f"create_prim_func: tensor {arg.name} is given twice",
                    "list each tensor once: placeholders, then outputs",
                )
            if not isinstance(arg.op, PlaceholderOp):
                self.first_output = min(self.first_output, len(self.params))
            buffer = decl_buffer(arg.shape, arg.dtype, _name(arg))
            handle = Var(f"var_{_name(arg)}", "handle")
            self.buffers[arg] = self.buffer_map[handle] = buffer
            self.params.append(handle)
        if not any(isinstance(arg, Tensor) for arg in self.args):
            raise _error("create_prim_func: there is no tensor among the arguments")

    def require_argument(self, op: PlaceholderOp) -> None:
        if op.output(0) not in self.buffers:
            raise _error(
                f"create_prim_func: the input {op.name} is read, but is not among the arguments",
                f"add the placeholder {op.name} to the list",
            )

    def unique(self, name: str) -> str:
        """An unused block name, as schedules find blocks by name."""
        candidate, number = name, 0
        while candidate in self.block_names or candidate == "root":
            number += 1
            candidate = f"{name}_{number}"
        self.block_names.add(candidate)
        return candidate

    def nests_of(self, op: Operation) -> list[Stmt]:
        if isinstance(op, ExternOp):
            return [self.extern_block(op)]
        if not isinstance(op, ComputeOp):
            return []
        outputs = tuple(self.buffers[op.output(i)] for i in range(op.num_outputs))
        if op.reduce_axis:
            return [self.nest(op, outputs, op.body)]
        return [self.nest(op, (buffer,), (expr,)) for buffer, expr in zip(outputs, op.body, strict=True)]

    def nest(self, op: ComputeOp, outputs: tuple[Buffer, ...], body: tuple[PrimExpr, ...]) -> Stmt:
        """Loops over all axes around one block that computes `outputs`."""
        axes = (*op.axis, *op.reduce_axis)
        values: dict[Var, PrimExpr] = {}
        iter_vars: list[IterVar] = []
        loops: list[tuple[Var, Range]] = []
        for axis in axes:
            assert axis.dom is not None
            loop_var = Var(axis.var.name, axis.var.dtype)
            block_var = Var(f"v_{axis.var.name}", axis.var.dtype)
            dom = Range.from_min_extent(*self.lower([axis.dom.min, axis.dom.extent], {}))
            values[axis.var] = block_var
            iter_vars.append(IterVar(dom, block_var, axis.iter_type))
            loops.append((loop_var, dom))
        iter_values: list[PrimExpr] = [loop_var for loop_var, _ in loops]
        if not axes:  # only the root has no variables
            iter_vars.append(IterVar(Range(const(1, "int64")), Var("vi", "int64")))
            iter_values.append(const(0, "int64"))
        spatial = tuple(v.var for v in iter_vars[: len(op.axis)])
        exprs = self.lower(body, values)
        init: Stmt | None = None
        if op.reduce_axis:
            reductions = [expr for expr in exprs if isinstance(expr, Reduce)]
            init = _sequence(
                [
                    BufferStore(buffer, value, spatial)
                    for buffer, value in zip(
                        outputs, reductions[0].init or reductions[0].combiner.identity_element, strict=True
                    )
                ]
            )
            inner = _update(outputs, spatial, reductions[0])
        else:
            inner = BufferStore(outputs[0], exprs[0], spatial)
        annotations = {key: value for key, value in op.attrs.items() if key.startswith("schedule_rule")}
        block = Block(tuple(iter_vars), (), (), self.unique(_name_of(op.name)), inner, init, annotations=annotations)
        stmt: Stmt = BlockRealize(tuple(iter_values), TRUE, complete_block(block))
        for loop_var, dom in reversed(loops):
            stmt = For(loop_var, dom.min, dom.extent, ForKind.SERIAL, stmt)
        return stmt

    def lower(self, exprs: Sequence[PrimExpr], values: dict[Var, PrimExpr]) -> list[PrimExpr]:
        """Convert tensor reads to buffer reads, and replace variables, in expressions."""
        loads = _Loads(self.buffers)
        return [loads.visit(substitute(expr, values)) for expr in exprs]

    def extern_block(self, op: ExternOp) -> Stmt:
        inputs = [self.buffers[tensor] for tensor in op.input_tensors]
        outputs = [self.buffers[op.output(i)] for i in range(op.num_outputs)]
        mapping: dict[Buffer | Var, Buffer | Var] = {}
        for old, new in zip((*op.input_buffers, *op.output_buffers), (*inputs, *outputs), strict=True):
            mapping[old] = new
            mapping[old.data] = new.data
        block = Block(
            (),
            tuple(map(_whole, inputs)),
            tuple(map(_whole, outputs)),
            self.unique(_name_of(op.name)),
            substitute(op.body, mapping),
        )
        return BlockRealize((), TRUE, block)


class _Loads(StmtExprMutator):
    def __init__(self, buffers: dict[Tensor, Buffer]) -> None:
        super().__init__()
        self.buffers = buffers

    def visit_ProducerLoad(self, node: ProducerLoad) -> BufferLoad:
        indices = [self.visit(index) for index in node.indices]
        return BufferLoad(self.buffers[node.producer], indices, span=node.span)


def _update(outputs: tuple[Buffer, ...], indices: tuple[Var, ...], reduce: Reduce) -> Stmt:
    """One reduction step: the previous outputs combined with the sources."""
    values: dict[Var, PrimExpr] = {}
    for x, y, buffer, source in zip(reduce.combiner.lhs, reduce.combiner.rhs, outputs, reduce.source, strict=True):
        values[x] = BufferLoad(buffer, indices)
        values[y] = source
    results: list[PrimExpr] = [substitute(result, values) for result in reduce.combiner.result]
    if len(outputs) == 1:
        step: Stmt = BufferStore(outputs[0], results[0], indices)
    else:
        # All results are computed from the old outputs before any is stored.
        variables = [Var(f"v_{b.name}", b.dtype) for b in outputs]
        step = _sequence([BufferStore(b, variable, indices) for b, variable in zip(outputs, variables, strict=True)])
        for variable, result in zip(reversed(variables), reversed(results), strict=True):
            step = LetStmt(variable, result, step)
    if isinstance(reduce.condition, IntImm) and reduce.condition.value:
        return step
    return IfThenElse(reduce.condition, step)


def _sequence(stmts: Sequence[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else SeqStmt(tuple(stmts))


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple(map(whole_range, buffer.shape)))


def _name(tensor: Tensor) -> str:
    return _name_of(tensor.name)


def _name_of(name: str) -> str:
    """Return a valid identifier for a name."""
    cleaned = "".join(char if char.isalnum() or char == "_" else "_" for char in name)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"_{cleaned}"


def _error(message: str, hint: str = "") -> DiagnosticError:
    return DiagnosticError(Diagnostic("E5001", message, hint=hint))
