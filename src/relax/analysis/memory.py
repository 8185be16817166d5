"""Memory of a lowered function: its tensors, their addresses and lifetimes, and a lower bound.

    mod = relax.get_pipeline("lower")(mod)                        allocations are explicit, and planned
    plan = relax.analysis.memory_plan(mod, "main", {"n": 128})    for sizes of the shape variables
    print(plan.table())
    open("plan.svg", "w").write(plan.svg())
    print(relax.analysis.estimate_memory_usage(mod))              for all sizes, in words

The plan is read from the program: `memory.alloc_storage` and `memory.alloc_tensor` say where tensors lie, the analysis
of aliases how long they are used. Time is counted in bindings. A tensor that escapes, and has memory of its own, lives
until the function ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from ..expr import Call, DataTypeImm, Function, If, PrimValue, SeqExpr, ShapeExpr, Var, VarBinding
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of
from ..op.storage import AllocStorage, BuiltinAllocTensor, TensorInStorage
from ..prim import Mul, PrimExpr, const, evaluate, free_vars
from ..prim import Var as PrimVar
from ..runtime.dtypes import itemsize
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo
from .alias import Aliases
from .memory_figures import Path, PlanFigures, PlannedStorage, PlannedTensor
from .memory_text import svg_of, table_of
from .variables import all_symbolic_vars

_ALLOCATIONS = (AllocStorage, BuiltinAllocTensor, TensorInStorage)


@dataclass(frozen=True)
class MemoryPlan(PlanFigures):
    """The tensors and storages of one function, for some sizes of its shape variables, to be looked at."""

    def table(self) -> str:
        """The tensors as a table in text, with their lives as bars, and the figures below."""
        return table_of(self)

    def svg(self) -> str:
        """A picture: time from left to right, addresses from bottom to top, a box for each tensor."""
        return svg_of(self)


def memory_plan(mod: IRModule, func_name: str = "main", sizes: Mapping[str, int] | None = None) -> MemoryPlan:
    """The memory of a lowered function (after CallTIRRewrite; planned or not) for sizes of its shape variables.

    Raises ValueError if sizes are missing or belong to no variable.
    """
    func = mod[func_name]
    if not isinstance(func, Function):
        raise ValueError(f"memory_plan: {func_name} is not a Relax function")
    return _Reader(mod, func_name, func, dict(sizes or {})).plan()


def estimate_memory_usage(mod: IRModule | Function) -> str:
    """The memory that each function of a lowered module allocates, with and without planning, in words.

    Tensors of constant size are summed up, others are counted. A function counts as a module of its own.
    """
    module = IRModule.from_expr(mod) if isinstance(mod, Function) else mod
    lines = ["Memory usage estimation:"]
    for global_var, func in module.functions.items():
        if isinstance(func, Function):
            lines += [f"- Function {global_var.name_hint}:", *_estimate(func)]
    return "\n".join(lines)


def _estimate(func: Function) -> list[str]:
    tensors: list[int | None] = []
    planned: list[int | None] = []
    for var, call, _ in allocations(func.body):
        if is_call_of(call, AllocStorage):
            planned.append(_constant(storage_size(call)))
        else:
            tensors.append(_constant(tensor_size(var)))
            planned += tensors[-1:] if is_call_of(call, BuiltinAllocTensor) else []
    return [f" * Without memory planning, {_summed(tensors)}.", f" * With memory planning, {_summed(planned)}."]


def _summed(sizes: Sequence[int | None]) -> str:
    constant = [size for size in sizes if size is not None]
    return (
        f"there are {len(constant)} constant-size memory allocation(s) with total size {sum(constant)} bytes, "
        f"and {len(sizes) - len(constant)} dynamic-size memory allocation(s)"
    )


def _constant(expr: PrimExpr | None) -> int | None:
    return None if expr is None or free_vars(expr) else int(evaluate(expr))


# ------------------------------------------------------------------------------------ reading a program


def allocations(expr: RelaxExpr, path: Path = ()) -> Iterator[tuple[Var, Call, Path]]:
    """The variables bound to storages and allocated tensors, with the calls and the branches around them, in order."""
    for block in expr.blocks if isinstance(expr, SeqExpr) else ():
        for binding in block.bindings:
            match binding:
                case VarBinding(_, If() as value):
                    yield from allocations(value.true_branch, (*path, (id(value), True)))
                    yield from allocations(value.false_branch, (*path, (id(value), False)))
                case VarBinding(var, Call() as call) if is_call_of(call, *_ALLOCATIONS):
                    yield var, call, path
                case _:
                    pass


def storage_size(call: Call) -> PrimExpr | None:
    """The bytes of a storage; None if its size is not written out."""
    dtypes = [arg.value for arg in call.args if isinstance(arg, DataTypeImm)]
    size = call.args[0]
    return size_in_bytes(size.values, str(dtypes[0])) if isinstance(size, ShapeExpr) and dtypes else None


def tensor_size(var: Var) -> PrimExpr | None:
    """The bytes of a tensor; None if its dimensions are not written out."""
    info = var.struct_info_
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr) or info.dtype.is_void:
        return None
    return size_in_bytes(info.shape.values, str(info.dtype))


def size_in_bytes(dims: Iterable[PrimExpr], dtype: str) -> PrimExpr:
    """Return the bytes of a tensor with these dimensions and dtype, as an int64 expression."""
    size: PrimExpr = const(itemsize(dtype), "int64")
    for dim in dims:
        size = Mul(dim.astype("int64"), size)  # a dimension of literals alone may be of another dtype
    return size


class _Reader:
    """Reads the plan of one function."""

    def __init__(self, mod: IRModule, name: str, func: Function, sizes: Mapping[str, int]) -> None:
        self.name, self.func = name, func
        self.sizes = sizes
        self.aliases = Aliases(func, mod, tensors_apart=True)
        self.end = len(self.aliases.variables) - 1
        self.found = list(allocations(func.body))
        self.env = self._values()

    def plan(self) -> MemoryPlan:
        """The tensors and storages, in order of allocation."""
        tensors = [self.tensor(*item) for item in self.found if not is_call_of(item[1], AllocStorage)]
        storages = [self.storage(*item, tensors) for item in self.found if is_call_of(item[1], AllocStorage)]
        return MemoryPlan(self.name, self.sizes, tensors, storages)

    def tensor(self, var: Var, call: Call, path: Path) -> PlannedTensor:
        """An allocated tensor."""
        info = cast(TensorStructInfo, var.struct_info_)
        shape = tuple(self.value(dim) for dim in info.dims or ())
        storage, offset = None, 0
        if is_call_of(call, TensorInStorage):
            storage = getattr(call.args[0], "name_hint", "")
            offset = self.value(cast(PrimValue, call.args[1]).value)
        size = tensor_size(var)
        if size is None:
            raise ValueError(f"memory_plan: the shape of {var.name_hint} in {self.name} is not written out")
        first, last = self.life(var)
        nbytes = self.value(size)
        escapes = last is None
        last = self.end if last is None else last
        return PlannedTensor(var.name_hint, shape, str(info.dtype), nbytes, storage, offset, first, last, escapes, path)

    def storage(self, var: Var, call: Call, path: Path, tensors: Iterable[PlannedTensor]) -> PlannedStorage:
        """A storage; it lives as long as the tensors in it."""
        size = storage_size(call)
        first, last = self.life(var)
        lasts = [tensor.last for tensor in tensors if tensor.storage == var.name_hint]
        end = max([first, *lasts] if last is None else [last, *lasts])
        return PlannedStorage(var.name_hint, 0 if size is None else self.value(size), first, end, path)

    def life(self, var: Var) -> tuple[int, int | None]:
        """The first and the last binding of a variable's value; None for one that escapes."""
        life = self.aliases.live_ranges()[var]
        return life.first, life.last

    def value(self, expr: PrimExpr) -> int:
        """The value of a scalar expression for the sizes."""
        return int(evaluate(expr, self.env, checked=True))

    def _values(self) -> dict[PrimVar, int]:
        """The values of the shape variables that sizes and offsets use."""
        used: dict[PrimVar, None] = {}
        for var, call, _ in self.found:
            exprs = [storage_size(call) if is_call_of(call, AllocStorage) else tensor_size(var)]
            exprs += [arg.value for arg in call.args if isinstance(arg, PrimValue)]
            used.update((v, None) for expr in exprs if expr is not None for v in free_vars(expr))
        names = {var.name for var in used}
        all_names = names | {var.name for var in all_symbolic_vars(self.func)}
        for wrong, problem in ((names - self.sizes.keys(), "missing"), (self.sizes.keys() - all_names, "not known")):
            if wrong:
                variables = ", ".join(sorted(names)) or "none"
                listed = ", ".join(sorted(wrong))
                raise ValueError(
                    f"memory_plan: {self.name} allocates by the shape variables {variables}; {problem}: {listed}"
                )
        return {var: self.sizes[var.name] for var in used}
