"""Relax functions that can be compiled: the first-order ones.

    compiled    values are tensors, shapes, scalars and tuples of them, or are only passed on; calls are of kernels,
                other Relax functions, packed functions and builtins
    bytecode    functions that make or call closures, or that pass functions on, except tuples of kernels that packed
                functions get as arguments, as a KV cache does; tensors of strings as constants, and
                scalars of uint64, which tvm-ffi's C ABI cannot hold; hand-written calls of builtins with a dtype or a
                number in a variable, or with too few arguments; hand-written shape heaps, with slots that are
                redefined, or outside of the heap

Both kinds can call each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    Var,
    VarBinding,
)
from ..info.mapping import fields_in
from ..ir import GlobalVar, IRModule, Node, RelaxExpr, StructInfo, structural_equal, walk
from ..prim import Cast, IntImm, PrimExpr, substitute
from ..prim import Var as PrimVar
from ..rewrite.rewriter import bindings_in
from ..runtime.builtin_table import BUILTINS
from ..runtime.match import ASSERT_SLOT, STORE, STORE_SIZE
from ..struct_info import FuncStructInfo, PrimStructInfo, TensorStructInfo
from ..tir import BufferLoad, BufferStore, For, IfThenElse, LetStmt, PrimFunc, While
from .host_builtins import fits_form


def compilable_functions(mod: IRModule) -> list[str]:
    """Names of a lowered module's functions that can be compiled, in order."""
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    kernels = frozenset(g.name_hint for g, f in mod.functions.items() if isinstance(f, PrimFunc))
    return [
        name
        for name, function in functions.items()
        if _is_first_order(function, kernels) and _slots_keep_their_numbers(function, mod)
    ]


_LEAVES: Final = (Var, Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm, GlobalVar, ExternFunc, StructInfo)
"""Node classes whose children need no check."""


def _is_first_order(function: Function, kernels: frozenset[str]) -> bool:
    infos: dict[int, StructInfo] = {}
    pending: list[RelaxExpr] = [function.body]
    nodes: list[Node] = list(function.params)
    while pending:
        expr = pending.pop()
        if isinstance(expr, SeqExpr):
            nodes += [expr.body, *(node for b in expr.blocks for c in b.bindings for node in (c.var, c.value))]
            pending += [b.value for block in expr.blocks for b in block.bindings if isinstance(b.value, If)]
        elif isinstance(expr, If):
            nodes.append(expr.cond)
            pending += [expr.true_branch, expr.false_branch]
        else:
            nodes.append(expr)
    functions = (GlobalVar, ExternFunc, Function)
    return not any(isinstance(node, functions) for node in nodes) and all(
        _is_part_of_first_order(node, infos, kernels) for node in nodes if not isinstance(node, If)
    )


def _is_part_of_first_order(root: Node, infos: dict[int, StructInfo], kernels: frozenset[str]) -> bool:
    """True if a node and its descendants are first-order. Packed functions may get tuples of `kernels`."""
    first_order = True
    passes_kernels = isinstance(root, Call) and isinstance(root.op, ExternFunc)

    def visit(node: Node) -> bool:
        nonlocal first_order
        if passes_kernels and isinstance(node, Tuple) and node.fields and all(map(is_kernel, node.fields)):
            return False
        first_order = first_order and _is_node_of_first_order(node, infos)
        return first_order and not isinstance(node, _LEAVES)

    def is_kernel(node: Node) -> bool:
        return isinstance(node, GlobalVar) and node.name_hint in kernels

    if isinstance(root, _LEAVES):
        return _is_node_of_first_order(root, infos)
    if isinstance(root, Call) and all(type(arg) in _VALUES for arg in root.args):
        return all(_is_node_of_first_order(node, infos) for node in (root, *root.args))
    walk(root, visit)
    return first_order


_VALUES: Final = frozenset((Var, DataflowVar, Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm))
"""Leaf classes of values other than tuples."""


def _is_node_of_first_order(node: Node, infos: dict[int, StructInfo]) -> bool:
    """True if a node itself is first-order: no value that cannot be compiled, no function as a value or callee.

    `infos` holds struct infos of compilable values, by id.
    """
    if isinstance(node, (Constant, Var)):
        info = node.struct_info_
        if info is None or id(info) in infos:
            return True
        infos[id(info)] = info
        return not any(map(_is_odd, fields_in(info)))
    if isinstance(node, _LEAVES):
        return True
    for operand in _operands(node):
        if isinstance(operand, (GlobalVar, ExternFunc, Function)):
            return False
    return not isinstance(node, Call) or (_is_plain_callee(node.op) and fits_form(node))


def _operands(node: Node) -> tuple[RelaxExpr, ...]:
    """Expressions whose values a node uses, except its callee."""
    match node:
        case Call(_, args):
            return args
        case Tuple(fields):
            return fields
        case VarBinding(_, value) | MatchCast(_, value):
            return (value,)
        case SeqExpr():
            return (node.body,)
        case _:
            return ()


def _is_plain_callee(op: Node) -> bool:
    if isinstance(op, GlobalVar):
        return True
    if not isinstance(op, ExternFunc):
        return False
    builtin = BUILTINS.get(op.global_symbol)
    return builtin is None or not (builtin.enters or builtin.closures)


def _is_odd(info: StructInfo) -> bool:
    """True for values (except tuples) that compiled code cannot hold."""
    match info:
        case TensorStructInfo(_, dtype):
            return dtype == "string"
        case PrimStructInfo(dtype):
            return dtype == "uint64"
        case _:
            return isinstance(info, FuncStructInfo)


def _slots_keep_their_numbers(function: Function, mod: IRModule) -> bool:
    """True if every definition of a shape heap slot stores the same number, as after VMShapeLower.

    Facts about sizes are recorded per slot during compilation (`heap_slots`).
    """
    heap: Var | None = None
    size = 0
    meanings: dict[int, PrimExpr] = {}
    origins: dict[int, PrimVar] = {}
    for binding in bindings_in(function):
        call = binding.value
        if not isinstance(call, Call):
            continue
        name = getattr(call.op, "global_symbol", "").removeprefix("vm.builtin.")
        if name == "alloc_shape_heap":
            if heap is not None:
                return False
            heap, size = binding.var, _number(call.args[0])
        slots = _slots_named(name, call.args)
        of_heap = not slots or (heap is not None and call.args[_SLOTS[name][0]] is heap)
        if not of_heap or not all(0 <= slot < size for _, slot in slots):
            return False
        stored: list[tuple[int, PrimExpr]] | None = [
            (slot, PrimVar("matched", "int64"))
            for code, slot in slots
            if name == "match" and code in (STORE, STORE_SIZE)
        ]
        kernel = mod.get(call.op.name_hint) if isinstance(call.op, GlobalVar) else None
        if isinstance(kernel, PrimFunc) and kernel.attrs.get("tir.is_host_func"):
            stored = _computed_slots(kernel, origins)
        for slot, meaning in stored or ():
            if not structural_equal(meanings.setdefault(slot, meaning), meaning):
                return False
        if stored is None:
            return False
    return True


_SLOTS: Final = {"match": (1, 6, -1), "make_shape": (0, 2, None), "make_prim_value": (0, 1, 3)}
"""Builtins that access slots: position of the heap, and the range of codes and numbers (`relax.runtime.match`)."""


def _slots_named(name: str, args: Sequence[RelaxExpr]) -> list[tuple[int, int]]:
    """Pairs (code, slot) of the slots that a builtin call accesses."""
    _, first, last = _SLOTS.get(name, (0, len(args), None))
    numbers = [_number(arg) for arg in args[first:last]]
    pairs = zip(numbers[::2], numbers[1::2], strict=False)
    return [pair for pair in pairs if pair[0] in (STORE, STORE_SIZE, ASSERT_SLOT)]


def _number(arg: RelaxExpr) -> int:
    return arg.value.value if isinstance(arg, PrimValue) and isinstance(arg.value, IntImm) else -1


def _computed_slots(kernel: PrimFunc, origins: dict[int, PrimVar]) -> list[tuple[int, PrimExpr]] | None:
    """Slots written by shape arithmetic, with their values as expressions of `origins`; None if unknown."""
    stored: list[tuple[int, PrimExpr]] = []
    values: dict[PrimVar, PrimExpr] = {}
    plain = True

    def visit(node: Node) -> None:
        nonlocal plain
        match node:
            case LetStmt(var, value):
                load = value.value if isinstance(value, Cast) else value
                slot = _index_of(load) if isinstance(load, BufferLoad) else None
                if slot is not None:
                    values[var] = origins.setdefault(slot, PrimVar(f"slot{slot}", var.dtype))
            case BufferStore():
                slot = _index_of(node)
                plain = plain and slot is not None
                if slot is not None:
                    stored.append((slot, substitute(node.value, values)))
            case For() | While() | IfThenElse():
                plain = False
            case _:
                pass

    walk(kernel.body, visit)
    return stored if plain else None


def _index_of(access: BufferLoad | BufferStore) -> int | None:
    index = access.indices[0] if len(access.indices) == 1 else None
    return index.value if isinstance(index, IntImm) else None
