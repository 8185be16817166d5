"""Support code of kernels: the check that all tensor arguments share.

It is part of the support code (`support`), which is one object for all kernels.
"""

from __future__ import annotations

from ..runtime.messages import (
    ARGUMENT_DTYPE,
    ARGUMENT_RANK,
    DEVICE,
    IS,
    KIND,
    NO_ROOM,
    NOT_ALIGNED,
    NOT_COMPACT,
    PACKED,
    Message,
)
from ..tir.sizes import LARGEST_PRODUCT
from .builder import ModuleBuilder, Operand
from .checks import CheckWriter
from .formula import Val

_POINTER, _OBJECT, _HEADER = 7, 70, 24
"""The type indices of a DLTensor and of a tensor's object, in which one is behind so many bytes."""
_DATA, _DEVICE, _NDIM, _DTYPE, _SHAPE, _STRIDES, _OFFSET = 0, 8, 16, 20, 24, 32, 40
"""The places of the fields of a DLTensor."""


class _TensorCheck(CheckWriter):
    """Writes the check of a tensor argument; errors name it by the message of that number."""

    def require(self, condition: Val, message: Message, *operands: Val, **fields: str) -> None:
        """Refuse the argument unless the condition holds: with its name, and up to three numbers in their order.

        The fields are conversions of printf; ``%lld`` where there is none.
        """
        number = "%lld"
        shown = {"place": f"dimension {number}", "found": number, "expected": number, **fields}
        text = message.fill(context="%s", **shown)

        def refuse() -> None:
            who = self.b.op("call i64 @relax.who(ptr %messages, i32 %index)")
            numbers = [who, *(operand.to("i64").ref for operand in operands), "0", "0", "0"][:4]
            texts = ", ".join(f"ptr {self.b.module.string(part)}" for part in (message.kind.__name__, text))
            self.b.do(f"call void @relax.set_error({texts}, {', '.join(f'i64 {n}' for n in numbers)})")
            self.b.end("ret ptr null")

        self.refuse_unless(condition, refuse)

    def address(self, at: Operand) -> Val:
        """An address as a number."""
        return Val(self.b, "i64", 1, self.b.op(f"ptrtoint ptr {at} to i64"))

    def dtype_name(self, dtype: Val) -> Val:
        """The address of a dtype's name."""
        text = self.b.alloca("[64 x i8]", 16)
        self.b.do(f"call void @relax.dtype_name(ptr {text}, i32 {dtype.ref})")
        return self.address(text)


def tensor_check(module: ModuleBuilder) -> str:
    """The check of a tensor argument: kind, device, dtype, rank; compactness unless `strided`; alignment and size; and
    its dimensions, if `sizes` says what they are.

    The result is the DLTensor, or null with the error set. Elements of 2 and 4 bits are padded to a byte, which their
    strides show (`relax.runtime.dtypes`).
    """
    parameters = "ptr %any, ptr %messages, i32 %index, i32 %dtype, i32 %ndim, i32 %strided, ptr %sizes"
    w = _TensorCheck(module, f"define hidden ptr @relax.tensor({parameters}) nounwind")
    b, kind = w.b, w.load("%any", 0, "i32")
    object_ = w.load("%any", 8, "ptr").ref
    inside = b.op(f"getelementptr i8, ptr {object_}, i64 {_HEADER}")
    tensor = b.op(f"select i1 {kind.eq(_POINTER).ref}, ptr {object_}, ptr {inside}")
    is_tensor = kind.eq(_POINTER) | kind.eq(_OBJECT)
    with w.when(is_tensor ^ 1):
        name = w.address(b.op(f"call ptr @relax.kind_name(i32 {kind.ref})"))
        w.require(is_tensor, KIND, name, expected="a tensor", found="%s")
    device = w.load(tensor, _DEVICE, "i32")
    w.require(device.eq(1), DEVICE, device, expected="cpu", found="device type %lld")
    dtype, found = w.parameter("dtype", "i32"), w.load(tensor, _DTYPE, "i32")
    with w.when(found.ne(dtype)):
        names = (w.dtype_name(found), w.dtype_name(dtype))
        w.require(found.eq(dtype), ARGUMENT_DTYPE, *names, expected="%s", found="%s")
    ndim, rank = w.parameter("ndim", "i32"), w.load(tensor, _NDIM, "i32")
    w.require(rank.eq(ndim), ARGUMENT_RANK, rank, ndim)
    bits = dtype.lshr(8) & 255
    _check_strides(w, tensor, ndim.to("i64"), bits.to("i64"))
    item = (bits + 7).lshr(3).to("i64")
    start = w.load(tensor, _DATA) + w.load(tensor, _OFFSET)
    w.require((start & (item - 1)).eq(0), NOT_ALIGNED, item)
    _check_size(w, tensor, ndim.to("i64"), item * dtype.lshr(16).to("i64"))
    _check_sizes(w, tensor, ndim.to("i64"))
    b.end(f"ret ptr {tensor}")
    return b.text()


def _check_strides(w: _TensorCheck, tensor: Operand, ndim: Val, bits: Val) -> None:
    """A tensor is compact, unless the parameter has strides; those of a tensor without elements mean nothing."""
    b, strides = w.b, w.load(tensor, _STRIDES, "ptr").ref
    implicit = Val(b, "i1", 1, b.op(f"icmp eq ptr {strides}, null"))
    shape = w.load(tensor, _SHAPE, "ptr").ref
    unit = bits.make(f"udiv i64 8, {bits.le(8).choose(bits, 8).ref}")
    w.require((implicit & unit.gt(1)) ^ 1, PACKED)
    expected, elements = w.variable(unit), w.variable(ndim.constant(1))
    with w.when((implicit | w.parameter("strided", "i32").ne(0)) ^ 1):
        with w.loop(ndim) as i:
            elements.set(w.element(shape, i).ne(0).choose(elements.get(), 0))
        with w.when(elements.get().ne(0)), w.loop(ndim) as i:
            axis = ndim - 1 - i
            size, stride, compact = w.element(shape, axis), w.element(strides, axis), expected.get()
            fits = stride.eq(compact) | size.eq(1)
            w.require(fits, NOT_COMPACT, axis, stride, compact)
            expected.set(compact * size)


def _check_size(w: _TensorCheck, tensor: Operand, ndim: Val, item: Val) -> None:
    """The dimensions that are not 0 have a product that leaves room to compute offsets."""
    b, product = w.b, w.variable(item)
    shape = w.load(tensor, _SHAPE, "ptr").ref
    multiply = b.module.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    with w.loop(ndim) as axis:
        factor = w.element(shape, axis).intrinsic("umax", 1)
        pair = b.op(f"call {{ i64, i1 }} {multiply}(i64 {product.get().ref}, i64 {factor.ref})")
        product.set(Val(b, "i64", 1, b.op(f"extractvalue {{ i64, i1 }} {pair}, 0")))
        overflows = Val(b, "i1", 1, b.op(f"extractvalue {{ i64, i1 }} {pair}, 1"))
        fits = (overflows ^ 1) & product.get().compare("", "ule", LARGEST_PRODUCT)
        w.require(fits, NO_ROOM)


def _check_sizes(w: _TensorCheck, tensor: Operand, ndim: Val) -> None:
    """The dimensions are the expected ones, of which those less than 0 are any."""
    given = Val(w.b, "i1", 1, w.b.op("icmp ne ptr %sizes, null"))
    shape = w.load(tensor, _SHAPE, "ptr").ref
    with w.when(given), w.loop(ndim) as axis:
        size, expected = w.element(shape, axis), w.element("%sizes", axis)
        w.require(size.eq(expected) | expected.lt(0), IS, axis, size, expected)


__all__ = ["tensor_check"]
