"""Discrete Fourier transforms, short-time ones among them.

A transform of a few elements is a product with a constant matrix, which is compiled, fused and parallel like any other
and needs no library. One of more, or of an open size, is a call of NumPy (`relax.runtime.fourier`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import op
from ....expr import PrimValue, ShapeExpr, StringImm
from ....ir import RelaxExpr
from ....prim import IntImm, PrimExpr, const, intrin, simplify
from ....struct_info import TensorStructInfo
from ..emitter import Dim, Emitter, as_dim
from ..pairs import Pair, as_pair, joined_parts, pair_converter, real_tensor, split_parts
from ..registry import converter
from . import nn, shape

MOST_OF_MATRIX = 1 << 14
"""Maximum number of elements of a matrix of a transform along one axis: lengths to 128 (real), 64 (complex)."""

MOST_OF_FRAMES = 1 << 19
"""The same for the frames of a short-time transform, of which there are many: lengths to 724."""

SCALES = ("none", "root", "all")
"""Scales of a transform of n elements by torch's numbers for them: 1, 1 / √n, 1 / n."""


# ------------------------------------------------------------------------------------- one axis or several


def _turns(rows: int, columns: int, size: int, sign: int) -> Any:
    """e^(sign 2πi · row · column / size), as complex128, of exact angles."""
    steps = np.outer(np.arange(rows), np.arange(columns)) % size
    return np.exp(sign * 2j * np.pi * steps / size)


def _factor(scale: str, size: int) -> float:
    return {"none": 1.0, "root": size**-0.5, "all": 1 / size}[scale]


def _length(x: PrimExpr) -> int | None:
    """A static size, else None."""
    return x.value if isinstance(x, IntImm) else None


def _by_matrix(g: Emitter, x: RelaxExpr, axis: int, matrix: Any) -> RelaxExpr:
    """A product along an axis: its size is then the number of the matrix's columns."""
    dtype = str(g.dtype(x))
    order = [a for a in range(g.ndim(x)) if a != axis]
    last = x if axis == g.ndim(x) - 1 else g.emit(op.permute_dims(x, [*order, axis]))
    product = g.emit(op.matmul(last, g.const(matrix, dtype)))
    back = [*range(axis), g.ndim(x) - 1, *range(axis, g.ndim(x) - 1)]
    return product if axis == g.ndim(x) - 1 else g.emit(op.permute_dims(product, back))


def _call(g: Emitter, name: str, x: RelaxExpr, axes: Sequence[int], dims: Sequence[PrimExpr], *options: Any) -> Any:
    values = [StringImm(v) if isinstance(v, str) else PrimValue(v) for v in options]
    info = TensorStructInfo(ShapeExpr(dims), str(g.dtype(x)))
    return g.emit(op.call_pure_packed(f"relax.run.{name}", x, ShapeExpr(list(axes)), *values, sinfo_args=[info]))


def _complex_elements(size: int) -> int:
    """Elements of the matrix that transforms `size` complex numbers, real and imaginary parts apart."""
    return 4 * size * size


def _half_elements(size: int) -> int:
    """Elements of the matrix between `size` real numbers and their size // 2 + 1 frequencies."""
    return 2 * size * (size // 2 + 1)


def is_by_matrix(node: Any) -> bool:
    """Return True for a node that transforms by products with matrices alone; False for one that calls NumPy.

    `node` is of aten._fft_c2c, aten._fft_r2c or aten._fft_c2r.
    """
    x, dims, _, option = node.args
    name = str(node.target)
    lengths: list[Any] = [x.meta["val"].shape[axis] for axis in dims]
    if name.startswith("aten._fft_c2r"):
        lengths.append(option)
    if not all(isinstance(length, int) for length in lengths):
        return False
    is_half = name.startswith("aten._fft_c2r") or (name.startswith("aten._fft_r2c") and option)
    last = lengths[-1] if lengths else 0
    others = lengths[: len(dims) - 1] if is_half else lengths
    counts = [*map(_complex_elements, others), *([_half_elements(last)] if is_half else [])]
    return max(counts, default=0) <= MOST_OF_MATRIX


def _check_length(g: Emitter, size: PrimExpr) -> None:
    """Raise DiagnosticError for a transform over no elements."""
    if _length(size) == 0:
        raise g.error("the transform is over an axis without elements", hint="transform at least one element")


def c2c(g: Emitter, z: Pair, axes: Sequence[int], forward: bool, scale: str, most: int = MOST_OF_MATRIX) -> Pair:
    """Return the transform of complex numbers over axes."""
    dims = g.dims(z.real)
    left: list[int] = []
    for axis in axes:
        _check_length(g, dims[axis])
        size = _length(dims[axis])
        if size is None or _complex_elements(size) > most:
            left.append(axis)
            continue
        turns = _turns(size, size, size, -1 if forward else 1) * _factor(scale, size)
        joined = g.emit(op.concat([z.real, z.imag], axis=axis))
        both = _by_matrix(g, joined, axis, np.block([[turns.real, turns.imag], [-turns.imag, turns.real]]))
        z = Pair(*g.parts(op.split(both, 2, axis)))
    if not left:
        return z
    two = const(2, "int64")
    result = _call(g, "fft_c2c", joined_parts(g, z), left, [*dims, two], const(forward, "bool"), scale)
    return split_parts(g, result)


def r2c(
    g: Emitter, x: RelaxExpr, axes: Sequence[int], scale: str, onesided: bool = True, most: int = MOST_OF_MATRIX
) -> Pair:
    """Return the forward transform of real numbers over axes; `onesided` keeps n // 2 + 1 frequencies of the last."""
    if not onesided:
        return c2c(g, as_pair(g, x, str(g.dtype(x))), axes, True, scale, most)
    dims, axis = g.dims(x), axes[-1]
    _check_length(g, dims[axis])
    size = _length(dims[axis])
    half = simplify(dims[axis] // 2 + 1)
    if size is not None and _half_elements(size) <= most:
        turns = _turns(size, size // 2 + 1, size, -1) * _factor(scale, size)
        both = _by_matrix(g, x, axis, np.concatenate([turns.real, turns.imag], 1))
        z = Pair(*g.parts(op.split(both, 2, axis)))
        return c2c(g, z, axes[:-1], True, scale, most)
    result_dims = [half if a == axis else dim for a, dim in enumerate(dims)]
    return split_parts(g, _call(g, "fft_r2c", x, axes, [*result_dims, const(2, "int64")], scale))


def c2r(g: Emitter, z: Pair, axes: Sequence[int], scale: str, last: PrimExpr, most: int = MOST_OF_MATRIX) -> RelaxExpr:
    """Return the real inverse transform of the first n // 2 + 1 frequencies; `last` is n of the last axis.

    Imaginary parts of the frequencies 0 and n / 2 do not count.
    """
    axis, size, dims = axes[-1], _length(last), g.dims(z.real)
    _check_length(g, last)
    if size is not None and _length(dims[axis]) is not None and _half_elements(size) <= most:
        z = c2c(g, z, axes[:-1], False, scale, most)
        count = size // 2 + 1
        turns = _turns(count, size, size, 1) * _factor(scale, size)
        weights = np.full((count, 1), 2.0)
        weights[0] = 1
        if size % 2 == 0:
            weights[-1] = 1
        joined = g.emit(op.concat([z.real, z.imag], axis=axis))
        return _by_matrix(g, joined, axis, np.concatenate([turns.real * weights, -turns.imag * weights]))
    result_dims = [last if a == axis else dim for a, dim in enumerate(dims)]
    return _call(g, "fft_c2r", joined_parts(g, z), axes, result_dims, scale, last)


@pair_converter("aten._fft_r2c")
def fft_r2c(g: Emitter, x: RelaxExpr, dim: Sequence[int], normalization: int, onesided: bool) -> Pair:
    axes = g.axes(list(dim), g.ndim(x)) if dim else []
    return r2c(g, x, axes, SCALES[normalization], onesided) if axes else as_pair(g, x, g.out_dtype)


@pair_converter("aten._fft_c2c")
def fft_c2c(g: Emitter, z: Pair, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    return c2c(g, z, g.axes(list(dim), g.ndim(z.real)) if dim else [], forward, SCALES[normalization])


@pair_converter("aten._fft_c2r")
def fft_c2r(g: Emitter, z: Pair, dim: Sequence[int], normalization: int, last_dim_size: Dim) -> RelaxExpr:
    axes = g.axes(list(dim), g.ndim(z.real))
    size = as_dim(last_dim_size)
    return c2r(g, _resized(g, z, axes[-1], simplify(size // 2 + 1)), axes, SCALES[normalization], size)


# ------------------------------------------------------------------------------------- torch.fft


def _resized(g: Emitter, value: Any, axis: int, size: PrimExpr) -> Any:
    """A tensor or pair cut, or filled up with zeros, to a size along an axis."""
    if isinstance(value, Pair):
        return value.map(lambda part: _resized(g, part, axis, size))
    own = g.dims(value)[axis]
    if g.same_size(own, size):
        return value
    if g.is_true(size <= own) is not True:
        missing = simplify(intrin.max(size - own, const(0, "int64")))
        widths: list[Any] = [0] * (2 * g.ndim(value))
        widths[2 * axis + 1] = missing
        value = g.emit(op.nn.pad(value, widths))
    if g.is_true(size >= own) is not True:
        begin = const(0, "int64")
        value = g.emit(op.strided_slice(value, [axis], [begin], [size], [1]))
    dims = g.dims(value)
    dims[axis] = size
    return g.cast_shape(value, dims)


def _scale(g: Emitter, norm: Any, forward: bool) -> str:
    """The scale for torch's name of a normalisation in a direction."""
    names = ("forward", "ortho", "backward") if not forward else ("backward", "ortho", "forward")
    name = "backward" if norm is None else norm
    if name not in names:
        raise g.error(f"there is no normalization {norm!r}", hint="pass 'backward', 'ortho' or 'forward'")
    return SCALES[names.index(name)]


def _floats(g: Emitter, x: Any) -> Any:
    """The operand in the dtype of the parts of the result: integers are floats."""
    return x.map(lambda part: g.cast(part, g.out_dtype)) if isinstance(x, Pair) else g.tensor(x, g.out_dtype)


def _axes_and_sizes(g: Emitter, x: Any, s: Any, dim: Any) -> tuple[list[int], list[PrimExpr | None]]:
    """The axes of a transform of several, and the sizes that are asked for."""
    ndim = g.ndim(real_tensor(x))
    if dim is None:
        dim = list(range(ndim)) if s is None else list(range(ndim - len(s), ndim))
    axes = g.axes(dim, ndim) if dim else []
    sizes = [None if size == -1 else as_dim(size) for size in (s or [None] * len(axes)) if size is not None]
    return axes, sizes or [None] * len(axes)


def _transformed(g: Emitter, x: Any, axes: Sequence[int], sizes: Sequence[Any], forward: bool, norm: Any) -> Pair:
    value = _floats(g, x)
    for axis, size in zip(axes, sizes, strict=True):
        value = value if size is None else _resized(g, value, axis, size)
    if not isinstance(value, Pair):
        value = as_pair(g, value, g.out_dtype)
    return c2c(g, value, axes, forward, _scale(g, norm, forward))


def _from_real(g: Emitter, x: Any, axes: Sequence[int], sizes: Sequence[Any], norm: Any, forward: bool = True) -> Pair:
    value = _floats(g, x)
    for axis, size in zip(axes, sizes, strict=True):
        value = value if size is None else _resized(g, value, axis, size)
    result = r2c(g, value, axes, _scale(g, norm, forward))
    return result if forward else Pair(result.real, g.emit(op.negative(result.imag)))


def _to_real(
    g: Emitter, x: Any, axes: Sequence[int], sizes: Sequence[Any], norm: Any, forward: bool = False
) -> RelaxExpr:
    """The real result of frequencies that are halves of symmetric ones; `forward` conjugates them first."""
    value = as_pair(g, x, g.out_dtype)
    *others, last_axis = axes
    *given, last = sizes
    for axis, size in zip(others, given, strict=True):
        value = value if size is None else _resized(g, value, axis, size)
    if last is None:
        last = simplify(2 * (g.dims(value.real)[last_axis] - 1))
    value = _resized(g, value, last_axis, simplify(last // 2 + 1))
    if forward:
        value = Pair(value.real, g.emit(op.negative(value.imag)))
    return c2r(g, value, axes, _scale(g, norm, forward), last)


def _along_one(finish: Callable[..., Any]) -> Callable[..., Any]:
    def convert(g: Emitter, x: Any, n: Any = None, dim: int = -1, norm: Any = None) -> Any:
        return finish(g, x, [g.axis(dim, g.ndim(real_tensor(x)))], [None if n is None else as_dim(n)], norm)

    return convert


def _along_several(finish: Callable[..., Any], default: Any) -> Callable[..., Any]:
    def convert(g: Emitter, x: Any, s: Any = None, dim: Any = default, norm: Any = None) -> Any:
        axes, sizes = _axes_and_sizes(g, x, s, dim)
        return finish(g, x, axes, sizes, norm) if axes else as_pair(g, x, g.out_dtype)

    return convert


def _directed(forward: bool) -> Callable[..., Pair]:
    def convert(g: Emitter, x: Any, axes: Sequence[int], sizes: Sequence[Any], norm: Any) -> Pair:
        return _transformed(g, x, axes, sizes, forward, norm)

    return convert


def _hermitian(g: Emitter, x: Any, axes: Sequence[int], sizes: Sequence[Any], norm: Any) -> RelaxExpr:
    return _to_real(g, x, axes, sizes, norm, forward=True)


def _inverse_hermitian(g: Emitter, x: Any, axes: Sequence[int], sizes: Sequence[Any], norm: Any) -> Pair:
    return _from_real(g, x, axes, sizes, norm, forward=False)


_KINDS: dict[str, Callable[..., Any]] = {
    "fft": _directed(True),
    "ifft": _directed(False),
    "rfft": _from_real,
    "irfft": _to_real,
}
for _name, _finish in _KINDS.items():
    pair_converter(f"aten.fft_{_name}")(_along_one(_finish))
    pair_converter(f"aten.fft_{_name}2")(_along_several(_finish, (-2, -1)))
    pair_converter(f"aten.fft_{_name}n")(_along_several(_finish, None))
pair_converter("aten.fft_hfft")(_along_one(_hermitian))
pair_converter("aten.fft_ihfft")(_along_one(_inverse_hermitian))


def _shifted(g: Emitter, x: RelaxExpr, dim: Any, back: bool) -> RelaxExpr:
    """The elements rolled by half of the size of each axis, rounded down, or up for the way back."""
    if dim == []:
        raise g.error("no axis is named", hint="leave dim out for all axes")
    axes = g.axes(dim, g.ndim(x)) if dim is not None else list(range(g.ndim(x)))
    result = x
    for axis in axes:
        size = g.dims(result)[axis]
        result = g.emit(shape.roll(g, result, [simplify((size + 1) // 2 if back else size // 2)], [axis]))
    return result


def _shift(back: bool) -> Callable[..., Any]:
    def convert(g: Emitter, x: Any, dim: Any = None) -> Any:
        return x.map(lambda part: _shifted(g, part, dim, back)) if isinstance(x, Pair) else _shifted(g, x, dim, back)

    return convert


for _name, _back in {"fftshift": False, "ifftshift": True}.items():
    pair_converter(f"aten.fft_{_name}")(converter(f"aten.fft_{_name}")(_shift(_back)))


@converter("aten.fft_fftfreq")
def fftfreq(g: Emitter, n: Dim, d: float = 1.0, **options: Any) -> RelaxExpr:
    """0, 1, … and the negative ones that follow, over n · d."""
    size = as_dim(n)
    position = g.emit(op.arange(PrimValue(size), dtype="int64"))
    half = g.tensor(simplify((size + 1) // 2), "int64")
    wrapped = op.where(op.less(position, half), position, op.subtract(position, g.tensor(size, "int64")))
    return _frequencies(g, g.emit(wrapped), size, d)


@converter("aten.fft_rfftfreq")
def rfftfreq(g: Emitter, n: Dim, d: float = 1.0, **options: Any) -> RelaxExpr:
    size = as_dim(n)
    if isinstance(size, IntImm) and size.value < 0:
        raise g.error(f"a transform of {size} elements", hint="pass 0 or more")
    return _frequencies(g, g.emit(op.arange(PrimValue(simplify(size // 2 + 1)), dtype="int64")), size, d)


def _frequencies(g: Emitter, position: RelaxExpr, size: PrimExpr, d: float) -> RelaxExpr:
    span = g.emit(op.multiply(g.tensor(size, "float64"), g.const(d, "float64")))
    step = g.cast(g.emit(op.divide(g.const(1, "float64"), span)), g.out_dtype)
    return op.multiply(op.astype(position, g.out_dtype), step)


# ------------------------------------------------------------------------------------- short-time transforms


def _window(g: Emitter, window: Any, n_fft: int, win_length: int, dtype: str) -> RelaxExpr | None:
    """The window in the middle of `n_fft` places; None if all elements count alike."""
    if window is None and win_length == n_fft:
        return None
    own = g.cast(window, dtype) if window is not None else g.emit(op.full([win_length], g.const(1, dtype), dtype))
    left = (n_fft - win_length) // 2
    return own if win_length == n_fft else g.emit(nn.pad(g, own, [left, n_fft - win_length - left]))


def _windowed(g: Emitter, x: Any, window: RelaxExpr | None) -> Any:
    if isinstance(x, Pair):
        return x.map(lambda part: _windowed(g, part, window))
    return x if window is None else g.emit(op.multiply(x, window))


@converter("aten.stft.default")
@pair_converter("aten.stft.default")
def stft(
    g: Emitter,
    x: Any,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    normalized: bool = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> Any:
    """Transforms of windows of a signal (length,) or (batch, length): (…, frequencies, windows)."""
    if align_to_window:
        g.unsupported("a short-time transform with align_to_window")
    if isinstance(window, Pair):
        g.unsupported("a window of complex numbers")
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    spread = _windowed(g, _framed(g, x, n_fft, hop), _window(g, window, n_fft, width, g.out_dtype))
    axis, scale = g.ndim(real_tensor(spread)) - 1, "root" if normalized else "none"
    if isinstance(spread, Pair):
        result = c2c(g, spread, [axis], True, scale, MOST_OF_FRAMES)
    else:
        result = r2c(g, spread, [axis], scale, onesided is not False, MOST_OF_FRAMES)
    turned = result.map(lambda part: g.emit(shape.transpose(g, part, -1, -2)))
    return turned if g.value.dtype.is_complex else joined_parts(g, turned)


def _framed(g: Emitter, x: Any, size: int, hop: Any) -> Any:
    """The windows of a signal: (…, windows, size)."""
    if isinstance(x, Pair):
        return x.map(lambda part: _framed(g, part, size, hop))
    length = g.dims(x)[-1]
    count = g.shape()[g.ndim(x)]
    if not g.same_size(count, simplify((length - size) // hop + 1)):
        count = simplify((length - size) // hop + 1)
    starts = op.multiply(op.arange(PrimValue(count), dtype="int64"), g.const(hop, "int64"))
    positions = g.emit(op.add(op.expand_dims(starts, [1]), op.arange(size, dtype="int64")))
    return g.emit(op.take(x, positions, g.ndim(x) - 1))


@pair_converter("aten.istft")
def istft(
    g: Emitter,
    z: Pair,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: Any = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    """The signal of which the windows are transforms: overlapping windows are added, and divided by their weights."""
    if return_complex:
        g.unsupported("an inverse short-time transform to complex numbers")
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    dtype = str(g.dtype(z.real))
    frequencies = z.map(lambda part: g.emit(shape.transpose(g, part, -1, -2)))
    axis = g.ndim(frequencies.real) - 1
    if onesided is False or (onesided is None and not g.same_size(g.dims(z.real)[-2], n_fft // 2 + 1)):
        frequencies = _resized(g, frequencies, axis, const(n_fft // 2 + 1, "int64"))
    scale = "root" if normalized else "all"
    frames = c2r(g, frequencies, [axis], scale, const(n_fft, "int64"), MOST_OF_FRAMES)
    weight = _window(g, window, n_fft, width, dtype)
    square = g.const(np.ones(n_fft), dtype) if weight is None else g.emit(op.multiply(weight, weight))
    signal = _overlapped(g, _windowed(g, frames, weight), n_fft, hop)
    envelope = _overlapped(g, g.emit(op.broadcast_to(square, g.dims(frames)[-2:])), n_fft, hop)
    whole = g.emit(op.divide(signal, envelope))
    total = simplify(n_fft + hop * (g.dims(frames)[-2] - 1))
    start = const(n_fft // 2 if center else 0, "int64")
    end = simplify(total - start) if length is None else intrin.min(total, simplify(start + length))
    last = g.ndim(whole) - 1
    cut = g.emit(op.strided_slice(whole, [last], [start], [simplify(end)], [1]))
    size = simplify(total - start - start) if length is None else as_dim(length)
    if length is None:
        return g.cast_shape(cut, [*g.dims(cut)[:-1], size])
    return _resized(g, cut, last, size)


def _overlapped(g: Emitter, frames: RelaxExpr, size: int, hop: int) -> RelaxExpr:
    """Sums of frames (…, count, size) that begin `hop` apart: (…, size + hop · (count - 1)) and zeros behind them.

    Frames are cut into parts of `hop` elements; the sum is over the number of a part, shifted by that number.
    """
    parts = -(-size // hop)
    *lead, count, _ = g.dims(frames)
    filled = frames if parts * hop == size else g.emit(nn.pad(g, frames, [0, parts * hop - size]))
    blocks = g.reshape(filled, [*lead, count, parts, hop])
    axis, total = len(lead), None
    for part in range(parts):
        block = g.emit(shape.select(g, blocks, axis + 1, part))
        shifted = g.emit(nn.pad(g, block, [0, 0, part, parts - 1 - part]))
        total = shifted if total is None else g.emit(op.add(total, shifted))
    assert total is not None, "a frame has a part"
    return g.reshape(total, [*lead, simplify((count + parts - 1) * hop)])
