"""Calls of kernels and packed functions that ONNX has operators for: reading bits as another dtype, and sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .....expr import Call, ExternFunc
from .....ir import GlobalVar, structural_equal, walk
from .....op.known import known_struct_info
from .....prim import Call as PrimCall
from .....struct_info import TensorStructInfo
from .....tir import Block, BlockRealize, BufferLoad, BufferStore, For, PrimFunc
from ..graph import Graph
from ..registry import writer
from ..tensor import Tensor
from .indexing import index_of

_HINT: Final = "ONNX has operators only: export before LegalizeOps, and use operators in place of packed functions"


@writer("relax.null_value")
def null_value(g: Graph, operator: Any) -> None:
    return None


@writer("relax.call_tir")
def call_tir(g: Graph, operator: Any, callee: GlobalVar, args: list[Tensor], tir_vars: Any) -> Tensor:
    kernel = g.model.functions.get(callee.name_hint)
    if not isinstance(kernel, PrimFunc) or not _is_bit_cast(kernel) or not isinstance(g.result, TensorStructInfo):
        g.refuse(f"the kernel {callee.name_hint}", _HINT)
    if g.opset < 26:
        g.refuse("bits read as another dtype before opset 26", "to_onnx(mod, opset=26)")
    dtype = str(g.result.dtype)
    return g.node("BitCast", args[0], dtype=dtype, rank=args[0].rank, to=g.element_type(dtype))


def _is_bit_cast(kernel: PrimFunc) -> bool:
    """True for a kernel that reads each element of its parameter as another dtype, and does nothing else."""
    statement: Any = kernel.body
    while isinstance(statement, (For, BlockRealize, Block)):
        if isinstance(statement, Block) and (statement.init is not None or statement.match_buffers):
            return False
        statement = statement.block if isinstance(statement, BlockRealize) else statement.body
    if not isinstance(statement, BufferStore) or len(kernel.params) != 2:
        return False
    value, (source, target) = statement.value, [kernel.buffer_map.get(param) for param in kernel.params]
    if (
        not isinstance(value, PrimCall)
        or getattr(value.op, "name", "") != "tir.reinterpret"
        or source is None
        or target is None
    ):
        return False
    read = value.args[-1]
    if not isinstance(read, BufferLoad) or read.buffer is not source or statement.buffer is not target:
        return False
    same_place = len(read.indices) == len(statement.indices) and all(
        map(structural_equal, read.indices, statement.indices)
    )
    return same_place and all(map(structural_equal, source.shape, target.shape))


# ------------------------------------------------------------------------------------------- sequences


def _of_items(g: Graph, *items: Tensor) -> Tensor:
    if not items:
        dtype = _item_dtype(g)
        (name,) = g.nodes_of("SequenceEmpty", [], 1, "", {"dtype": g.element_type(dtype)})
        return Tensor(g, name, dtype).as_sequence()
    return g.node("SequenceConstruct", *items).as_sequence()


def _item_dtype(g: Graph) -> str:
    """The dtype of items that the program inserts into sequences, if all have one."""
    dtypes: set[str] = set()

    def visit(node: Any) -> bool:
        name = getattr(node.args[0], "global_symbol", "") if isinstance(node, Call) and node.args else ""
        info = known_struct_info(node.args[2]) if name == "relax.run.sequence_insert" else None
        if isinstance(info, TensorStructInfo):
            dtypes.add(str(info.dtype))
        return True

    for function in g.model.functions.values():
        walk(function, visit)
    if len(dtypes) != 1:
        g.refuse("a sequence without items, whose dtype is not known")
    return dtypes.pop()


def _insert(g: Graph, items: Tensor, item: Tensor, position: Tensor | None) -> Tensor:
    return g.node("SequenceInsert", items, item, position, dtype=items.dtype).as_sequence()


def _erase(g: Graph, items: Tensor, position: Tensor | None) -> Tensor:
    return g.node("SequenceErase", items, position, dtype=items.dtype).as_sequence()


def _at(g: Graph, items: Tensor, position: Tensor) -> Tensor:
    return g.node("SequenceAt", items, index_of(position), dtype=items.dtype)


def _length(g: Graph, items: Tensor) -> Tensor:
    return g.node("SequenceLength", items, dtype="int64", rank=0)


def _number(value: Tensor) -> int:
    return int(value.constant) if value.constant is not None else 0


def _parts(g: Graph, data: Tensor, sizes: Tensor | None, axis: Tensor, keepdims: Tensor) -> Tensor:
    attributes: dict[str, Any] = {"axis": _number(axis), "keepdims": _number(keepdims)}
    return g.node("SplitToSequence", data, sizes, dtype=data.dtype, **attributes).as_sequence()


def _concat(g: Graph, items: Tensor, axis: Tensor, new_axis: Tensor) -> Tensor:
    attributes: dict[str, Any] = {"axis": _number(axis), "new_axis": _number(new_axis)}
    return g.node("ConcatFromSequence", items, dtype=items.dtype, **attributes)


def _stack(g: Graph, items: Tensor, ndim: Any, dtype: Any) -> Tensor:
    return g.node("ConcatFromSequence", items, dtype=items.dtype, axis=0, new_axis=1)


_SEQUENCES: Final[dict[str, Callable[..., Tensor]]] = {
    "relax.run.sequence": _of_items,
    "relax.run.sequence_at": _at,
    "relax.run.sequence_concat": _concat,
    "relax.run.sequence_erase": _erase,
    "relax.run.sequence_insert": _insert,
    "relax.run.sequence_length": _length,
    "relax.run.sequence_of_parts": _parts,
    "relax.run.sequence_stack": _stack,
}


@writer("relax.call_pure_packed")
def call_pure_packed(g: Graph, operator: Any, callee: ExternFunc, *args: Any) -> Tensor:
    name = getattr(callee, "global_symbol", "")
    write = _SEQUENCES.get(name)
    if write is None or any(not isinstance(arg, (Tensor, type(None))) and not _is_text(arg) for arg in args):
        g.refuse(f"the packed function {name}", _HINT)
    return write(g, *args)


def _is_text(value: Any) -> bool:
    return isinstance(getattr(value, "value", None), str)
