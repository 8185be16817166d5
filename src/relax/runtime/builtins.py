"""The machine's builtin functions, and the contract between the compiler and the machine.

After lowering, a function's body has calls of packed functions, kernels and Relax functions only, and the
compiler gives every call one instruction. What the lowering passes may call by name:

Shapes and checks (passes: VMShapeLower). `heap` is the function's shape heap, `context` the text with which
messages begin ("main: parameter w"). Slots and codes are integers; see ``match``.

    vm.builtin.alloc_shape_heap(size, *notes) -> heap           first thing in a function that needs one
    vm.builtin.match(v, heap, kind, size, dtype, count, code, operand, ..., context)
    vm.builtin.match_parts(v, heap, table, context)             table: text, see ``match_parts``
    vm.builtin.match_shape_value(v, shape, context)
    vm.builtin.check_func_info(v, heap, info, context)          info: text, may mention slot(i)
    vm.builtin.make_shape(heap, ndim, code, operand, ...) -> shape
    vm.builtin.make_prim_value(heap, code, operand, dtype) -> scalar
    vm.builtin.shape_heap_floats(heap) -> tensor                the slots as float64
    shape_func(heap)                                            a kernel: compute slots from slots
    vm.builtin.compute_sizes(heap, code)                        the same, interpreted; see ``size_code``

Values (passes: VMBuiltinLower, the bytecode generator)

    vm.builtin.alloc_tensor(shape, dtype, device?) -> tensor    fresh memory
    vm.builtin.alloc_storage(size, dtype, device?) -> storage   memory to be cut into tensors; a number or a shape
    vm.builtin.alloc_tensor_in(storage, byte_offset, shape, dtype) -> tensor
    vm.builtin.copy(v) -> v                                     the same value
    vm.builtin.copy_tensor(t) -> t                              a fresh tensor with its contents
    vm.builtin.reshape(t, shape) -> t                           a view
    vm.builtin.shape_of(t) -> shape;  vm.builtin.tensor_to_shape(t);  vm.builtin.shape_to_tensor(s)
    vm.builtin.make_tuple(*fields);  vm.builtin.tuple_getitem(tuple, index)
    vm.builtin.null_value() -> None
    vm.builtin.read_if_cond(v) -> bool                          what an If instruction tests
    vm.builtin.make_closure(function, *captured) -> closure     captured: its last parameters
    vm.builtin.invoke_closure(f, *args)                         a closure or a packed function
    vm.builtin.call_tir_dyn(kernel, *args, shape)               the shape's integers become arguments
    vm.builtin.to_device(t, device) -> t                        itself, if it is there; else a copy
    vm.builtin.has_tag(v, tag) -> bool                          tagged values, see ``tagged``
    vm.builtin.match_failed(v)
    vm.builtin.attention_kv_cache_*                             memory that grows, see ``kv_cache``; pages of keys and
                                                                values, see ``paged_kv_cache_builtins``
    vm.builtin.kv_state_*                                       sequences of a state, see ``kv_state``
    vm.builtin.rnn_state_*                                      states of recurrent models, see ``rnn_state``
    vm.builtin.sample_top_p_from_logits(…), …                   the choice of a next token, see ``samplers``
    vm.builtin.tensor_cache.*                                   parameters by name, see ``tensor_cache``
    vm.builtin.new_reference(v);  vm.builtin.read_reference(r);  vm.builtin.write_reference(r, v)
    relax.run.*                                                 see ``ops``

A device is given as an integer, which counts the devices of the machine: the module's virtual devices in their
order. The machine puts the device itself in its place when it loads the program.

What a builtin does with its arguments is said where it is registered (`builtin_table`).

Arguments are registers, constants, integers, or entries of the function table. The result of a kernel, or of
a function called for its effect, is None. Tensors a packed function returns are made compact before anything
else sees them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import tvm_ffi

from . import classes as classes  # registers its builtins
from . import debugging as debugging  # registers its builtins
from . import fourier as fourier  # registers its builtins
from . import images as images  # registers its builtins
from . import inspection as inspection  # registers its builtins
from . import kv_cache as kv_cache  # registers its builtins
from . import kv_state as kv_state  # registers its builtins
from . import linear_algebra as linear_algebra  # registers its builtins
from . import match as match  # registers its builtins
from . import ngrams as ngrams  # registers its builtins
from . import operators as operators  # registers its builtins
from . import ops
from . import paged_kv_cache_builtins as paged_kv_cache_builtins  # registers its builtins
from . import references as references  # registers its builtins
from . import rnn_state as rnn_state  # registers its builtins
from . import samplers as samplers  # registers its builtins
from . import sequences as sequences  # registers its builtins
from . import size_code as size_code  # registers its builtins
from . import strings as strings  # registers its builtins
from . import tagged as tagged  # registers its builtins
from . import tensor_cache as tensor_cache  # registers its builtins
from .allocator import Allocator
from .builtin_table import UNKNOWN, VIEW, Effects, builtin
from .closure import Closure
from .devices import Device
from .dtypes import canonical_dtype, itemsize
from .heap import ShapeHeap
from .info import FuncInfo, Info, ObjectInfo, PrimInfo, ShapeInfo, TensorInfo, TupleInfo, bind, substitute, variables
from .sizes import is_size, shape_value
from .tensor import MAX_BYTES, check_shape, copy_tensor, new_tensor, tensor_bytes, view_tensor
from .tensor import to_device as tensor_to_device
from .values import describe_shape, import_result, import_value, is_tuple, kind_of

builtin("vm.builtin.copy_tensor")(copy_tensor)


@builtin("vm.builtin.alloc_shape_heap", internal=True)
def alloc_shape_heap(size: int, *notes: str) -> ShapeHeap:
    """Allocate a shape heap of `size` slots; `notes` describe them in messages."""
    return ShapeHeap(size, notes)


@builtin("vm.builtin.shape_heap_floats", Effects(aliases=(0,)))
def shape_heap_floats(heap: ShapeHeap) -> tvm_ffi.Tensor:
    """The slots of a heap as a float64 tensor."""
    return heap.floats()


@builtin("vm.builtin.alloc_tensor", device=2, first_device=True)
def alloc_tensor(shape: tuple[int, ...], dtype: str, device: Device | None = None) -> tvm_ffi.Tensor:
    """A fresh tensor."""
    return new_tensor(shape, dtype, device)


@builtin("vm.builtin.alloc_storage", device=2, first_device=True, pooled=True, internal=True)
def alloc_storage(
    size: tuple[int, ...] | int, dtype: str, device: Device | None = None, allocator: Allocator | None = None
) -> tvm_ffi.Tensor:
    """Memory for so many elements of `dtype`, or a shape's number; it lives as long as a tensor in it does.

    Raises MemoryError if there is not as much, ValueError for a negative size.
    """
    if isinstance(size, int):
        nbytes = size * itemsize(str(dtype))
    else:
        nbytes = check_shape(size, str(dtype))
    if nbytes > MAX_BYTES:
        raise MemoryError(f"out of memory: a storage of {nbytes} bytes is asked for")
    check_shape((nbytes,), "uint8")
    return new_tensor((nbytes,), "uint8", device) if allocator is None else allocator.take(nbytes, device)


@builtin("vm.builtin.alloc_tensor_in", VIEW)
def alloc_tensor_in(storage: tvm_ffi.Tensor, offset: int, shape: tuple[int, ...], dtype: str) -> tvm_ffi.Tensor:
    """A tensor in a storage, `offset` bytes from its start. Raises ValueError if it does not lie inside."""
    dims, name = tuple(shape), str(dtype)
    nbytes = tensor_bytes(dims, name)
    size = storage.numel()
    if offset < 0 or offset + nbytes > size:
        subject = f"a {dtype} tensor of shape {describe_shape(shape)}"
        raise ValueError(f"{subject} at {offset} lies outside its storage of {size} bytes")
    return view_tensor(storage, dims, name, offset)


@builtin("vm.builtin.copy", VIEW, trusted=False)
def copy(value: Any) -> Any:
    """The value itself."""
    return value


@builtin("vm.builtin.reshape", VIEW)
def reshape(tensor: Any, shape: Any) -> tvm_ffi.Tensor:
    """The same memory under another shape of as many elements.

    Raises TypeError for what is no tensor, ValueError for a shape of more or fewer elements.
    """
    if not isinstance(tensor, tvm_ffi.Tensor):
        raise TypeError(f"reshape: expected a tensor, found {kind_of(tensor)}")
    dims = tuple(shape)
    if math.prod(dims) != tensor.numel() or not all(map(is_size, dims)):
        raise ValueError(f"reshape: a tensor of shape {tensor.shape} cannot become {describe_shape(dims)}")
    if not tensor.numel():
        check_shape(dims, canonical_dtype(tensor.dtype))
    return view_tensor(tensor, dims)


@builtin("vm.builtin.shape_of", Effects(reads=()))
def shape_of(tensor: Any) -> tvm_ffi.Shape:
    """The shape of a tensor. Raises TypeError for another value."""
    if not isinstance(tensor, tvm_ffi.Tensor):
        raise TypeError(f"shape_of: expected a tensor, found {kind_of(tensor)}")
    return shape_value(tensor.shape)


@builtin("vm.builtin.make_tuple", Effects(reads=(), aliases="all"))
def make_tuple(*fields: Any) -> tuple[Any, ...]:
    """A tuple."""
    return fields


@builtin("vm.builtin.tuple_getitem", VIEW)
def tuple_getitem(value: Any, index: int) -> Any:
    """A field of a tuple. Raises TypeError for another value, IndexError if it has no such field."""
    if not is_tuple(value):
        raise TypeError(f"expected a tuple, found {kind_of(value)}")
    if not 0 <= index < len(value):
        raise IndexError(f"there is no field {index} in {kind_of(value)}")
    return value[index]


@builtin("vm.builtin.null_value")
def null_value() -> None:
    """The null object."""


@builtin("vm.builtin.read_if_cond")
def read_if_cond(value: Any) -> bool:
    """The value of a condition."""
    return ops.truth(value, "the condition of an if")


@builtin("vm.builtin.call_tir_dyn", Effects(writes="all"), pure=False)
def call_tir_dyn(kernel: Callable[..., Any], *args: Any) -> Any:
    """Call a kernel, with the integers of a shape (the last argument) as its last arguments."""
    return kernel(*args[:-1], *args[-1])


@builtin("vm.builtin.to_device", Effects(aliases=(0,)), device=1)
def to_device(tensor: Any, device: Device) -> tvm_ffi.Tensor:
    """The tensor on a device: itself if it is there, else a copy. Raises TypeError for another value."""
    if not isinstance(tensor, tvm_ffi.Tensor):
        raise TypeError(f"to_vdevice: expected a tensor, found {kind_of(tensor)}")
    return tensor_to_device(tensor, device)


@builtin("vm.builtin.make_closure", Effects(reads=(), aliases="all"), closures=True)
def make_closure(function: Any, *captured: Any) -> Closure:
    """A closure of a Relax function whose last parameters are given. Raises TypeError for another value."""
    if not isinstance(function, Closure):
        raise TypeError(f"make_closure: expected a Relax function, found {kind_of(function)}")
    return bind_captured(function, captured)


@builtin("vm.builtin.invoke_closure", UNKNOWN, pure=False, trusted=False, enters=True)
def invoke_foreign(function: Any, *args: Any) -> Any:
    """Call a function value that is no function of the calling machine's bytecode.

    Raises TypeError for what is no function.
    """
    if isinstance(function, Closure):
        return import_value(function.machine.call_raw(function, args))
    if isinstance(function, tvm_ffi.Function):
        return import_result(function(*args))
    raise TypeError(f"cannot call {kind_of(function)}")


def bind_captured(function: Closure, captured: tuple[Any, ...]) -> Closure:
    """A closure of `function` whose last parameters are given.

    What it says of itself leaves those out, and knows the shape variables they bind.
    """
    info = function.info
    if info is not None and info.params is not None:
        kept = len(info.params) - len(captured)
        env: dict[str, Any] = {}
        for param, value in zip(info.params[kept:], captured, strict=True):
            bind(param, _info_of(value, param), env)
        kept_info = FuncInfo(info.params[:kept], info.ret, info.pure)
        unbound = variables((kept_info,)) - variables(info.params[:kept]) - env.keys()
        env.update((name, ("unknown",)) for name in unbound)
        info = cast("FuncInfo", substitute(kept_info, env))
    return Closure(function.machine, function.name, function.target, (*captured, *function.captured), info)


def _info_of(value: Any, asked: Info) -> Info:
    """The run-time info of a value of the machine, as far as shape variables that `asked` has can be read from it."""
    match value:
        case tvm_ffi.Tensor():
            return TensorInfo(value.shape, canonical_dtype(value.dtype), value.ndim)
        case tvm_ffi.Shape():
            return ShapeInfo(cast("tuple[int, ...]", tuple(value)), len(value))
        case int() | float():
            return PrimInfo("", value)
        case tuple() if isinstance(asked, TupleInfo):
            fields = zip(cast("tuple[Any, ...]", value), asked.fields, strict=False)
            return TupleInfo(tuple(_info_of(field, field_info) for field, field_info in fields))
        case _:
            return ObjectInfo()
