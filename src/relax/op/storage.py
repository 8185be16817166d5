"""Operators introduced by lowering: allocations, storages and views of them, ends of lifetimes.

They are used between graph passes and bytecode: CallTIRRewrite emits `builtin.alloc_tensor`, memory planning replaces
these by tensors cut from storages. An allocation counts as pure, but each is a distinct value: two are never merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..expr import Call, DataTypeImm, PrimValue, ShapeExpr, StringImm
from ..ir import DataType, RelaxExpr, StructInfo, VDevice
from ..prim import IntImm
from ..runtime.builtin_table import VIEW, Effects
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .arguments import DTypeLike, FunctionLike, InfoLike, ScalarLike, ShapeLike, TupleLike
from .base import Gradients, Term
from .errors import OPERANDS, OperatorError
from .intrinsic import (
    UNIT,
    Intrinsic,
    IntrinsicServices,
    Lowering,
    TupleCall,
    require_function,
    require_tuple,
    result_of,
)
from .operator import operator
from .tir_calls import as_arguments, as_callee, as_infos, as_shape, refused


def tensor_like(call: Call, shape: int, dtype: int) -> TensorStructInfo:
    """Struct info of a tensor whose shape and dtype are arguments of a call."""
    kind = call.args[dtype]
    if not isinstance(kind, DataTypeImm):
        raise OperatorError(OPERANDS, "dtype must be a dtype literal", operand="dtype")
    given = call.args[shape]
    return TensorStructInfo(given, kind.value)


def listed_device(index: RelaxExpr, builder: Any) -> VDevice | None:
    """Virtual device at the index that an argument holds in the list of the module being built, None if there is
    none.
    """
    listed: Sequence[VDevice] = getattr(builder, "vdevices", ())
    match index:
        case PrimValue(IntImm(_, number)) if 0 <= number < len(listed):
            return listed[number]
        case _:
            return None


def _dtype(op_name: str, value: Any) -> RelaxExpr:
    try:
        return value if isinstance(value, RelaxExpr) else DataTypeImm(DataType(value))
    except (TypeError, ValueError) as error:
        raise refused(op_name, f"dtype: {error}") from None


def _integer(value: Any) -> RelaxExpr:
    return value if isinstance(value, RelaxExpr) else PrimValue(value)


def _text(value: Any) -> RelaxExpr:
    return value if isinstance(value, RelaxExpr) else StringImm(value)


def _device_argument(index: RelaxExpr) -> tuple[RelaxExpr, ...]:
    """Index of a device as an argument, omitted for the first device."""
    first = isinstance(index, PrimValue) and isinstance(index.value, IntImm) and index.value.value == 0
    return () if first else (index,)


def _count(size: RelaxExpr) -> RelaxExpr:
    """Size of a storage as an integer if constant; it may exceed the limits of shape dimensions."""
    return PrimValue(size.values[0]) if isinstance(size, ShapeExpr) and len(size.values) == 1 else size


class EndOfLife(Intrinsic):
    """Base class of end-of-lifetime marks. VMBuiltinLower drops them: bytecode has its own register lifetimes."""

    __slots__ = ()

    pure: ClassVar[bool] = False

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return ()


class AllocStorage(Intrinsic):
    """Base class of allocations of storages: memory for `size` elements on a device, to be cut into tensors."""

    __slots__ = ()

    builtin: ClassVar[str] = "vm.builtin.alloc_storage"
    dtype_at: ClassVar[int]
    """Index of the argument that is the dtype of elements."""

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        return _count(call.args[0]), call.args[self.dtype_at], *_device_argument(call.args[1])

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return machine.allocate_storage(values[0], values[self.dtype_at], values[1])


class TensorInStorage(Intrinsic):
    """Base class of tensors created in a storage; the third and fourth arguments are shape and dtype."""

    __slots__ = ()

    effects: ClassVar[Effects] = VIEW
    builtin: ClassVar[str] = "vm.builtin.alloc_tensor_in"
    propagates_vdevice: ClassVar[bool] = False

    def infer_from_call(self, call: Call, builder: Any, *infos: StructInfo) -> StructInfo:
        return tensor_like(call, 2, 3)


@operator("relax.builtin.alloc_tensor")
class BuiltinAllocTensor(Intrinsic):
    """A newly allocated tensor of undefined contents."""

    builtin: ClassVar[str] = "vm.builtin.alloc_tensor"
    propagates_vdevice: ClassVar[bool] = False

    def infer(
        self, shape: ShapeStructInfo, dtype: StructInfo, runtime_device_index: PrimStructInfo, storage_scope: StructInfo
    ) -> TensorStructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, *infos: StructInfo) -> StructInfo:
        info = tensor_like(call, 0, 1)
        device = listed_device(call.args[2], builder)
        return info if device is None else info.replace(vdevice=device)

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        return *call.args[:2], *_device_argument(call.args[2])

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        shape, dtype, device, _ = values
        return machine.allocate(shape, dtype, device)

    @staticmethod
    def make(
        shape: ShapeLike,
        dtype: RelaxExpr | DTypeLike,
        runtime_device_index: ScalarLike = 0,
        storage_scope: RelaxExpr | str = "global",
    ) -> Call:
        return BuiltinAllocTensor().call(
            as_shape("alloc_tensor", shape),
            _dtype("alloc_tensor", dtype),
            _integer(runtime_device_index),
            _text(storage_scope),
        )


@operator("relax.builtin.stop_lift_params")
class StopLiftParams(Intrinsic):
    """The tensor itself; computations after it are not lifted into the parameter transform."""

    effects: ClassVar[Effects] = VIEW
    builtin: ClassVar[str] = "vm.builtin.copy"

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return x

    def reference(self, x: Any) -> Any:
        return x

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (grad,)


# ---------------------------------------------------------------------------------------------- memory


@operator("relax.memory.alloc_storage")
class MemoryAllocStorage(AllocStorage):
    """A storage of `size` bytes, to be cut into tensors."""

    dtype_at = 3

    def infer(
        self, size: ShapeStructInfo, virtual_device_index: PrimStructInfo, storage_scope: StructInfo, dtype: StructInfo
    ) -> ObjectStructInfo:
        return ObjectStructInfo()

    @staticmethod
    def make(
        size: ShapeLike,
        virtual_device_index: ScalarLike = 0,
        storage_scope: RelaxExpr | str = "global",
        dtype: RelaxExpr | DTypeLike = "uint8",
    ) -> Call:
        return MemoryAllocStorage().call(
            as_shape("alloc_storage", size),
            _integer(virtual_device_index),
            _text(storage_scope),
            _dtype("alloc_storage", dtype),
        )


@operator("relax.memory.alloc_tensor")
class MemoryAllocTensor(TensorInStorage):
    """A tensor in a storage, `offset` bytes from its start."""

    def infer(
        self, storage: StructInfo, offset: PrimStructInfo, shape: ShapeStructInfo, dtype: StructInfo
    ) -> TensorStructInfo: ...

    @staticmethod
    def make(storage: RelaxExpr, offset: ScalarLike, shape: ShapeLike, dtype: RelaxExpr | DTypeLike) -> Call:
        return MemoryAllocTensor().call(
            storage, _integer(offset), as_shape("alloc_tensor", shape), _dtype("alloc_tensor", dtype)
        )


@operator("relax.memory.kill_storage")
class MemoryKillStorage(EndOfLife):
    """Mark the last use of a storage."""

    def infer(self, storage: StructInfo) -> TupleStructInfo:
        return UNIT


@operator("relax.memory.kill_tensor")
class MemoryKillTensor(EndOfLife):
    """Mark the last use of a tensor."""

    def infer(self, tensor: StructInfo) -> TupleStructInfo:
        return UNIT


# -------------------------------------------------------------------------------------------------- vm


@operator("relax.vm.alloc_storage")
class VMAllocStorage(AllocStorage):
    """A storage of `size` elements of a dtype, from the VM's allocator."""

    dtype_at = 2

    def infer(
        self, size: ShapeStructInfo, runtime_device_index: PrimStructInfo, dtype: StructInfo, storage_scope: StructInfo
    ) -> ObjectStructInfo:
        return ObjectStructInfo()

    @staticmethod
    def make(
        size: ShapeLike,
        runtime_device_index: ScalarLike = 0,
        dtype: RelaxExpr | DTypeLike = "uint8",
        storage_scope: RelaxExpr | str = "global",
    ) -> Call:
        return VMAllocStorage().call(
            as_shape("alloc_storage", size),
            _integer(runtime_device_index),
            _dtype("alloc_storage", dtype),
            _text(storage_scope),
        )


@operator("relax.vm.alloc_tensor")
class VMAllocTensor(TensorInStorage):
    """A tensor in a storage of the VM."""

    def infer(
        self, storage: StructInfo, offset: PrimStructInfo, shape: ShapeStructInfo, dtype: StructInfo
    ) -> TensorStructInfo: ...

    @staticmethod
    def make(storage: RelaxExpr, offset: ScalarLike, shape: ShapeLike, dtype: RelaxExpr | DTypeLike) -> Call:
        return VMAllocTensor().call(
            storage, _integer(offset), as_shape("alloc_tensor", shape), _dtype("alloc_tensor", dtype)
        )


@operator("relax.vm.kill_object")
class VMKillObject(EndOfLife):
    """Mark the last use of a register."""

    def infer(self, obj: StructInfo) -> TupleStructInfo:
        return UNIT


@operator("relax.vm.call_tir_dyn")
class VMCallTIRDyn(TupleCall):
    """Call a kernel; the integers of the last argument, a shape, become the kernel's last arguments."""

    effects: ClassVar[Effects] = Effects(writes="all")
    builtin: ClassVar[str] = "vm.builtin.call_tir_dyn"
    takes_sinfo_args: ClassVar[bool] = True
    pure: ClassVar[bool] = False

    def infer(self, func: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, args: StructInfo) -> StructInfo:
        require_function(func)
        require_tuple(args)
        return result_of(call.sinfo_args) if call.sinfo_args else UNIT

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        function, (*args, integers) = values
        return machine.apply(function, (*args, *integers))

    @staticmethod
    def make(func: FunctionLike, args: TupleLike, sinfo_args: InfoLike | None = None) -> Call:
        name = "call_tir_dyn"
        call = VMCallTIRDyn().call(as_callee(name, func), as_arguments(name, args))
        return call.replace(sinfo_args=as_infos(name, sinfo_args))
