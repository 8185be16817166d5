"""The operators of `relax.op`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from collections.abc import Callable, Mapping, Sequence
from relax.expr import Call
from relax.ir.expr import RelaxExpr, VDevice
from relax.op.arguments import DTypeLike, ScalarLike, ShapeLike, TensorLike
from relax.op.intrinsics import FunctionLike, InfoLike, TupleLike
from relax.tir.index_map import IndexMap
from typing import Any, Literal

def abs(x: TensorLike) -> Call:
    """The magnitude; of the least value of a signed type, that value (two's complement)."""

def acos(x: TensorLike) -> Call:
    """The inverse cosine, element by element."""

def acosh(x: TensorLike) -> Call:
    """The inverse hyperbolic cosine, element by element."""

def add(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 + x2; integers wrap around; of booleans, True where either is."""

def arange(
    start: ScalarLike,
    end: ScalarLike | None = None,
    step: ScalarLike | None = None,
    dtype: DTypeLike = '',
) -> Call:
    """start, start + step, … as long as end is not reached; ``arange(end)`` starts at 0.

    Without a dtype the result is int64 if all three are integers, else float32.
    """

def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Call:
    """The index of the greatest element along `axis`, the first among equal ones; NaN is the greatest.

    Without an axis, the row-major index in the whole tensor. An empty dimension is an error.
    """

def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Call:
    """The index of the least element along `axis`, the first among equal ones; NaN is the least."""

def argsort(data: TensorLike, axis: int = -1, descending: bool = False, dtype: DTypeLike = 'int32') -> Call:
    """The indices along `axis` that sort the elements of data."""

def asin(x: TensorLike) -> Call:
    """The inverse sine, element by element."""

def asinh(x: TensorLike) -> Call:
    """The inverse hyperbolic sine, element by element."""

def assert_op(condition: Any, *values: Any, format_args: Any = (), format: str = '') -> Call:
    """``assert_op(cond, x, y, format="…")``, or with the values as `format_args`, one or a list."""

def astype(x: TensorLike, dtype: DTypeLike) -> Call:
    """x converted to a dtype.

    Floats convert to integers by truncation, saturating; NaN becomes 0. Integers wrap around in narrower dtypes. Every
    value but 0 becomes True as a bool.
    """

def atan(x: TensorLike) -> Call:
    """The inverse tangent, element by element."""

def atanh(x: TensorLike) -> Call:
    """The inverse hyperbolic tangent, element by element."""

def bitwise_and(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """The bits set in both."""

def bitwise_not(x: TensorLike) -> Call:
    """All bits flipped; of a bool, its negation."""

def bitwise_or(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """The bits set in either."""

def bitwise_xor(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """The bits set in one of the two."""

def blackman_window(window_size: ScalarLike, periodic: ScalarLike, dtype: DTypeLike = 'float32') -> Call:
    """0.42 - 0.5 · cos t + 0.08 · cos 2t, for t from 0 to 2π in window_size steps.

    A periodic window omits the last of window_size + 1 values; a window of one value is 1.
    """

def broadcast_to(x: TensorLike, shape: ShapeLike) -> Call:
    """x repeated along dimensions of size 1, and along new leading ones, to fill a shape."""

def bucketize(
    input_tensor: TensorLike,
    boundaries: TensorLike,
    out_int32: bool = False,
    right: bool = False,
) -> Call:
    """The bucket index of each element: the number of boundaries, in ascending order, less than it.

    With `right`, the number less than or equal to it. NaN is greater than every boundary. Indices are int64, or int32.
    """

def call_builtin_with_ctx(func: FunctionLike, args: TupleLike, *, sinfo_args: InfoLike | None = None) -> Call:
    """Call a builtin of the VM, which receives the VM as its first argument. It may have any effect."""

def call_dps_packed(
    func: FunctionLike,
    args: TupleLike,
    out_sinfo: InfoLike | ShapeLike | None = None,
    *,
    dtype: DTypeLike | Sequence[DTypeLike] = None,
    output_shape: ShapeLike | Sequence[ShapeLike] | None = None,
) -> Call:
    """Allocate the outputs, call a packed function with inputs and outputs; return the outputs."""

def call_inplace_packed(
    func: FunctionLike,
    *args: Any,
    inplace_indices: int | Sequence[int],
    sinfo_args: InfoLike | None = None,
) -> Call:
    """Call a packed function that changes only the arguments `inplace_indices`, which are not used again.

    Result i is the argument `inplace_indices[i]`, or (-1) a new value.
    """

def call_packed(func: FunctionLike, *args: Any, sinfo_args: InfoLike | None = None) -> Call:
    """Call a packed function, which may have any effect."""

def call_pure_packed(func: FunctionLike, *args: Any, sinfo_args: InfoLike | None = None) -> Call:
    """Call a packed function that the caller declares to have no side effects."""

def call_tir(
    gvar: RelaxExpr,
    args: TupleLike,
    out_sinfo: InfoLike | ShapeLike | None = None,
    tir_vars: ShapeLike | None = None,
    *,
    dtype: DTypeLike | Sequence[DTypeLike] = None,
    output_shape: ShapeLike | Sequence[ShapeLike] | None = None,
) -> Call:
    """Allocate the outputs, call a PrimFunc with inputs, integers (`tir_vars`) and outputs; return the outputs.

    `out_sinfo` is one tensor's struct info (that tensor is returned) or a list (a tuple is). The
    older spelling gives shapes and a dtype: ``call_tir(f, args, (m, n), dtype="float32")``.
    """

def call_tir_inplace(
    gvar: RelaxExpr,
    args: TupleLike,
    inplace_indices: int | Sequence[int],
    out_sinfo: InfoLike | None = None,
    tir_vars: ShapeLike | None = None,
) -> Call:
    """Like call_tir, but output i reuses the argument `inplace_indices[i]` (-1: a fresh tensor).

    The PrimFunc takes inputs, integers and the fresh outputs. The reused arguments must not be used again.
    """

def call_tir_with_grad(
    gvar: RelaxExpr,
    args: TupleLike,
    out_sinfo: InfoLike | None = None,
    te_grad_name: str = '',
    te_grad_kwargs: Mapping[str, Any] | None = None,
    tir_vars: ShapeLike | None = None,
) -> Call:
    """Like call_tir, of a kernel whose gradient is the registered function `te_grad_name` of tensor expressions.

    `te_grad_kwargs` are further arguments of that function.
    """

def ceil(x: TensorLike) -> Call:
    """The least whole number ≥ x; integers and booleans unchanged."""

def clip(x: TensorLike, min: ScalarLike, max: ScalarLike) -> Call:
    """min(max(x, min), max): NaN stays NaN, and where min > max the result is max.

    The bounds are numbers, or scalars of the program; bounds outside the range of an integer dtype, or of 0 and 1 for
    booleans, have no effect.
    """

def collapse_sum_like(data: TensorLike, collapse_target: TensorLike) -> Call:
    """data summed to the shape of collapse_target, which broadcasts to that of data."""

def collapse_sum_to(data: TensorLike, shape: ShapeLike) -> Call:
    """data summed to a shape that broadcasts to that of data; booleans are counted in int64."""

def concat(tensors: TupleLike, axis: int | None = 0) -> Call:
    """Concatenation of the tensors of a tuple along an axis. They agree in all other dimensions.

    With an axis of None they must have one dimension.
    """

def cos(x: TensorLike) -> Call:
    """The cosine, element by element."""

def cosh(x: TensorLike) -> Call:
    """The hyperbolic cosine, element by element."""

def cummax(data: TensorLike, axis: int) -> Call:
    """The greatest element so far along `axis`, and its index as int64: the last one of equals.

    NaN is greater than every number. Of booleans, True from the first one on that is.
    """

def cummin(data: TensorLike, axis: int) -> Call:
    """The least element so far along `axis`, and its index as int64: the last one of equals.

    NaN is less than every number. Of booleans, False from the first one on that is.
    """

def cumprod(
    data: TensorLike,
    axis: int | None = None,
    dtype: DTypeLike = '',
    exclusive: bool = False,
) -> Call:
    """Cumulative products along `axis`; without one, of the flattened tensor. `exclusive` excludes the element itself.

    The result has `dtype`, by default the input's (of booleans int64). Integers wrap around.
    """

def cumsum(data: TensorLike, axis: int | None = None, dtype: DTypeLike = '', exclusive: bool = False) -> Call:
    """Cumulative sums along `axis`; without one, of the flattened tensor. `exclusive` excludes the element itself.

    The result has `dtype`, by default the input's (of booleans int64). Integers wrap around.
    """

def dequantize(
    data: TensorLike,
    scale: TensorLike,
    zero_point: TensorLike,
    axis: int = -1,
    out_dtype: DTypeLike = 'float32',
) -> Call:
    """(data - zero_point) · scale as out_dtype: the inverse of `quantize`, of integers or floats of at most 8 bits.

    Scale and zero point are scalars, or have one element for each index along `axis`. The difference of integers is
    exact; the product is computed in float32 (float64, if scale or out_dtype is) and converted.
    """

def dequantize_blocks(weights: TensorLike, format: str = 'q4_0', out_dtype: DTypeLike = 'float32') -> Call:
    """The numbers of rows in a block format: (…, bytes) of uint8 to (…, numbers) of out_dtype.

    Computed in float32 as the package `gguf` does, and converted.
    """

def divide(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 / x2. The quotient of integers is an integer, truncated toward zero as in C; by zero it is an error.

    (`floor_divide` rounds down; for the fraction, convert with `astype` first.)
    """

def dynamic_strided_slice(x: TensorLike, begin: TensorLike, end: TensorLike, strides: TensorLike) -> Call:
    """``x[begin:end:stride]`` along each dimension; the bounds are integer tensors with one element per dimension.

    Bounds have the meaning of strided_slice. The result's dimensions are known only at run time; match_cast names them.
    """

def einsum(operands: TupleLike, subscripts: str) -> Call:
    """Σ of products of the operands' elements, as NumPy's einsum: "ij,jk->ik", "...ij->...ji", "ii".

    Dimensions of one letter broadcast as those of an addition do: their sizes are equal, or 1; so do those of an
    ellipsis, counted from its end. Within one operand they are equal. Products are summed in the operands' dtype, of
    16-bit and narrower floats in float32; of booleans the sum is True where a product is.
    """

def equal(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where x1 = x2; NaN equals nothing."""

def erf(x: TensorLike) -> Call:
    """The error function, element by element."""

def erfc(x: TensorLike) -> Call:
    """1 - erf(x), exact where erf(x) is near 1, element by element."""

def ewise_fma(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike, x3: TensorLike | ScalarLike) -> Call:
    """x1 · x2 + x3. Product and sum are each rounded; integers wrap around.

    The operands have one number of dimensions, in which they broadcast; scalars broadcast to any.
    """

def exp(x: TensorLike) -> Call:
    """e to the power x, element by element."""

def expand_dims(x: TensorLike, axis: int | Sequence[int]) -> Call:
    """x with new dimensions of size 1 at these indices of the result."""

def eye(
    n: ScalarLike,
    m: ScalarLike | None = None,
    k: ScalarLike | None = None,
    dtype: DTypeLike = 'float32',
) -> Call:
    """An n × m matrix (n × n, if m is omitted) of zeros, with ones on a diagonal.

    The diagonal begins k columns to the right of the first element; for a negative k, -k rows below it.
    """

def eye_like(x: TensorLike | ScalarLike, k: ScalarLike | None = None, dtype: DTypeLike = '') -> Call:
    """A matrix of x's shape of zeros, with ones on the k-th diagonal; dtype defaults to that of x."""

def flatten(x: TensorLike) -> Call:
    """All elements of x in one dimension."""

def flip(data: TensorLike, axis: int | Sequence[int]) -> Call:
    """x with the order of elements reversed along these axes."""

def floor(x: TensorLike) -> Call:
    """The greatest whole number ≤ x; integers and booleans unchanged."""

def floor_divide(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 / x2 rounded down, as Python's ``//``; of integers, division by zero is an error."""

def floor_mod(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """The remainder of `floor_divide`, with the sign of x2, as Python's ``%``; of integers, division by zero is an
    error.
    """

def full(shape: ShapeLike, fill_value: TensorLike | ScalarLike, dtype: DTypeLike = '') -> Call:
    """A tensor of a shape, every element fill_value, converted to dtype if one is given."""

def full_like(x: TensorLike | ScalarLike, fill_value: TensorLike | ScalarLike, dtype: DTypeLike = '') -> Call:
    """A tensor of x's shape, every element fill_value, converted to dtype (default: that of x)."""

def gather_elements(data: TensorLike, indices: TensorLike, axis: int = 0) -> Call:
    """For each index into `indices`, the element of data at this index, with component `axis` replaced by the value
    there.
    """

def gather_nd(data: TensorLike, indices: TensorLike, batch_dims: int = 0) -> Call:
    """The slice of data at each index tuple, a row of `indices`.

    The result has the shape indices.shape[:-1] + data.shape[batch_dims + indices.shape[-1]:]. The first `batch_dims`
    dimensions of both operands agree, and are not indexed.
    """

def greater(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where x1 > x2."""

def greater_equal(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where x1 ≥ x2."""

def hamming_window(
    window_size: ScalarLike,
    periodic: ScalarLike,
    alpha: ScalarLike,
    beta: ScalarLike,
    dtype: DTypeLike = 'float32',
) -> Call:
    """alpha - beta · cos t, for t from 0 to 2π in window_size steps.

    A periodic window omits the last of window_size + 1 values; a window of one value is 1.
    """

def hann_window(window_size: ScalarLike, periodic: ScalarLike, dtype: DTypeLike = 'float32') -> Call:
    """0.5 - 0.5 · cos t, for t from 0 to 2π in window_size steps: a special case of hamming_window."""

def hint_on_device(data: TensorLike, dst_vdevice: VDevice) -> Call:
    """The tensor itself, annotated with the virtual device on which it should be."""

def index_put(data: TensorLike, indices: TupleLike, values: TensorLike, accumulate: bool = False) -> Call:
    """data after data[indices[0], indices[1], …] = values, as NumPy writes at index tensors; values broadcast.

    With `accumulate` all values for an element are added.
    """

def index_tensor(data: TensorLike, indices: TupleLike) -> Call:
    """data[indices[0], indices[1], …], as NumPy indexes the leading dimensions by index tensors, which broadcast."""

def invoke_closure(closure: RelaxExpr, args: TupleLike, sinfo_args: InfoLike | None = None) -> Call:
    """Call a closure; it may have any effect."""

def invoke_pure_closure(closure: RelaxExpr, args: TupleLike, sinfo_args: InfoLike | None = None) -> Call:
    """Call a closure without side effects. (It may reuse an argument in place, which is then not used again.)"""

def isfinite(x: TensorLike) -> Call:
    """True where x is neither infinite nor NaN."""

def isinf(x: TensorLike) -> Call:
    """True where x is an infinity."""

def isnan(x: TensorLike) -> Call:
    """True where x is not a number; an integer is one."""

def layout_transform(
    x: TensorLike,
    index_map: IndexMap | Callable[..., Any],
    pad_value: int | float | None = None,
    axis_separators: int | Sequence[int] | None = None,
    input_axis_separators: int | Sequence[int] | None = None,
) -> Call:
    """The tensor that holds x's element at i at ``index_map(i)``: ``lambda n, c: (n, c // 4, c % 4)``.

    Final indices are initial ones, their quotients and remainders by constants, and injective sums of these. Elements
    without a source are pad_value, by default 0. Axis separators apply to multi-dimensional memory, which is not
    supported: they must be empty.
    """

def left_shift(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 shifted left by x2 bits; 0 if x2 is negative or at least the width."""

def less(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where x1 < x2."""

def less_equal(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where x1 ≤ x2."""

def linear(
    data: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    out_dtype: DTypeLike = None,
) -> Call:
    """data · weightᵀ + bias: ``matmul(data, permute_dims(weight))``, and an add."""

def log(x: TensorLike) -> Call:
    """The natural logarithm, element by element."""

def log_add_exp(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """log(e^x1 + e^x2), without intermediate overflow."""

def logical_and(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where both are true."""

def logical_not(x: TensorLike) -> Call:
    """True where x is 0 or False."""

def logical_or(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where either is true."""

def logical_xor(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where one of the two is true."""

def make_closure(func: FunctionLike, args: TupleLike = ()) -> Call:
    """A closure of a global function; the captured values are its last parameters."""

def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike | ScalarLike) -> Call:
    """x, with `value` where the mask is True: ``where(mask, full_like(x, value), x)``."""

def matmul(x1: TensorLike, x2: TensorLike, out_dtype: DTypeLike = '') -> Call:
    """The matrix product of the last two dimensions, over leading ones that broadcast, as NumPy's ``@``.

    A tensor of one dimension is a row on the left and a column on the right. Products are summed in out_dtype (default:
    the operands' dtype), those of 16-bit and narrower floats in float32, rounded once. Of booleans, a sum is True where
    a product is.
    """

def max(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """The greatest element along `axis`; NaN if any element is; the least value of the dtype for an empty dimension.

    Of booleans, True if any element is.
    """

def maximum(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """The larger of two elements; NaN if either is; of booleans, True where either is."""

def mean(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """The mean along `axis`, of floats; NaN for an empty dimension."""

def median(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """The median along `axis`, the lower one of an even number of elements; NaN if any element is.

    Along a single axis a tuple: the values, and the int64 index of the first element equal to the median. An empty
    dimension is an error.
    """

def meshgrid(tensors: TupleLike, indexing: Literal['ij', 'xy'] | str = 'ij') -> Call:
    """Coordinate grids: vector i of a tuple varies along dimension i of a grid with one dimension per vector.

    The indexing "xy" exchanges the first two dimensions. A scalar is a vector of one element.
    """

def min(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """Minimum along `axis`; NaN if any element is NaN; the largest value of the dtype if there are no elements.

    Of booleans, True if all elements are.
    """

def minimum(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """The smaller of two elements; NaN if either is; of booleans, True where both are."""

def mod(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """The remainder of `divide`, which has the sign of x1; of integers, division by zero is an error."""

def multinomial_from_uniform(
    prob: TensorLike,
    uniform_sample: TensorLike,
    sample_indices: TensorLike | None = None,
    dtype: DTypeLike = 'int64',
) -> Call:
    """For each uniform number, an index sampled from a row of probabilities: the first at which the cumulative sum of
    the row exceeds the number, or the last index if rounding keeps the total below it.

    `prob` is (rows, classes), `uniform_sample` (n, 1), and `sample_indices`, (n, 1), holds the row of each number;
    without it, number i uses row i.
    """

def multiply(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 · x2; integers wrap around; of booleans, True where both are."""

def negative(x: TensorLike) -> Call:
    """-x; integers wrap around."""

def nonzero(x: TensorLike) -> Call:
    """The int64 indices of elements that are not zero, in row-major order: (ndim, count), one column per element."""

def not_equal(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """True where x1 ≠ x2; NaN differs from everything."""

def null_value() -> Call:
    """The null object."""

def one_hot(
    indices: TensorLike,
    on_value: ScalarLike,
    off_value: ScalarLike,
    depth: ScalarLike,
    axis: int = -1,
) -> Call:
    """Encode each index along a new axis of size `depth`: on_value at the index, off_value elsewhere.

    An index outside of 0 … depth - 1 gives off_value everywhere.
    """

def ones(shape: ShapeLike, dtype: DTypeLike) -> Call:
    """A tensor of ones."""

def ones_like(x: TensorLike, dtype: DTypeLike = '') -> Call:
    """A tensor of ones of x's shape; dtype defaults to that of x."""

def outer(x1: TensorLike, x2: TensorLike) -> Call:
    """The products of each element of the vector x1 and each of x2, as a matrix."""

def permute_dims(x: TensorLike, axes: int | Sequence[int] | None = None) -> Call:
    """Dimension d of the result is dimension axes[d] of x; axes default to reversed order."""

def power(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 to the power x2.

    Of integers it wraps around, and a negative power is 1 / x1^|x2| truncated toward zero (of 0 an error).
    """

def print(*values: Any, format: str = '') -> Call:
    """Print values, through a Python format string or one after the other."""

def prod(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """Π of the elements along `axis`. Integers wrap around; the product of booleans is an int64."""

def quantize(
    data: TensorLike,
    scale: TensorLike,
    zero_point: TensorLike,
    axis: int = -1,
    out_dtype: DTypeLike = 'int8',
) -> Call:
    """round(data / scale) + zero_point as out_dtype, halves to even, saturating at its limits.

    Scale and zero point are scalars, or have one element for each index along `axis`. NaN becomes 0. For a float
    out_dtype of 8 or 4 bits the quotient is not rounded to an integer: the sum is converted, and NaN stays NaN if the
    dtype has it.
    """

def read_tensor_from_file(path: Any) -> Call:
    """The float32 tensor in a file: NumPy's ``.npy``, or text with one row per line. Reading is an effect."""

def reinterpret(x: TensorLike, dtype: DTypeLike) -> Call:
    """The bits of x read as another dtype, without a conversion of numbers.

    If the dtypes differ in width, the last axis has as many elements as hold its bits, lower bits first: three of
    float32 are twelve of uint8. A bool is a byte; a byte other than 0 is True.
    """

def repeat(data: TensorLike, repeats: ScalarLike, axis: int | None = None) -> Call:
    """Each element `repeats` times in a row, along an axis; without axis, of data flattened."""

def reshape(x: TensorLike | ScalarLike, shape: ShapeLike) -> Call:
    """The elements of x in the same order, in another shape of as many elements.

    In a tuple of sizes, 0 is the size of the same dimension of x, and a single -1 is the remaining size. (For an empty
    x, a 0 that cannot mean this is 0.) A shape value, such as R.shape([0, 4]), is taken literally; it may be dynamic.
    """

def reverse_sequence(
    data: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: int = 1,
    batch_axis: int = 0,
) -> Call:
    """data with the first seq_lengths[b] elements along `seq_axis` reversed, in each slice b of `batch_axis`.

    A length below 0 or above the size of `seq_axis` is an error when the program runs.
    """

def right_shift(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 shifted right by x2 bits, keeping its sign; a negative x2 counts as the width, as a larger one does."""

def round(x: TensorLike) -> Call:
    """The nearest whole number, halves to even, as NumPy rounds; integers unchanged."""

def rsqrt(x: TensorLike) -> Call:
    """1 / sqrt(x), element by element."""

def saturating_astype(x: RelaxExpr, dtype: str, rounding: str = 'nearest') -> RelaxExpr:
    """Convert x to a float of 8 or 4 bits; values beyond its range, infinities included, become its extreme values.

    `rounding` is "nearest"; for float8_e8m0fnu also "up" or "down", to the next power of two.
    """

def scatter_elements(
    data: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    axis: int = 0,
    reduction: Literal['update', 'add', 'mul', 'mean', 'min', 'max'] | str = 'update',
) -> Call:
    """data with each update written at its own index, with component `axis` replaced by the value of `indices`.

    The reduction combines an update with the existing element: "add", "mul", "min", "max", or "mean" of the element and
    all updates for it (of integers, rounded down).
    """

def scatter_nd(
    data: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    reduction: Literal['update', 'add', 'mul', 'mean', 'min', 'max'] | str = 'update',
) -> Call:
    """data with a slice of `updates` written at each index tuple, a row of `indices`.

    updates has the shape indices.shape[:-1] + data.shape[indices.shape[-1]:]. Reductions are those of
    scatter_elements.
    """

def shape_of(expr: TensorLike) -> Call:
    """The shape of a tensor as a shape value."""

def shape_to_tensor(expr: ShapeLike) -> Call:
    """A one-dimensional int64 tensor of a shape's dimensions."""

def sigmoid(x: TensorLike) -> Call:
    """1 / (1 + exp(-x)), element by element."""

def sign(x: TensorLike) -> Call:
    """-1, 0 or 1 as x is below, at or above 0; NaN stays NaN."""

def sin(x: TensorLike) -> Call:
    """The sine, element by element."""

def sinh(x: TensorLike) -> Call:
    """The hyperbolic sine, element by element."""

def slice_scatter(
    input_tensor: TensorLike,
    src: TensorLike,
    start: ScalarLike,
    end: ScalarLike,
    step: ScalarLike,
    axis: int = 0,
) -> Call:
    """input_tensor with its slice ``start:end:step`` along an axis replaced by src; bounds follow Python's slices."""

def sort(x: TensorLike, axis: int = -1, descending: bool = False) -> Call:
    """The elements of x along `axis`, in ascending or descending order."""

def split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> Call:
    """x cut along an axis, as a tuple.

    A number of sections yields `sections` parts of size ⌈size / sections⌉, the last ones smaller or empty if it does
    not divide evenly. A list of indices cuts there: a negative one counts from the end, one beyond the end cuts there.
    """

def sqrt(x: TensorLike) -> Call:
    """The square root, element by element."""

def square(x: TensorLike) -> Call:
    """x · x; integers wrap around."""

def squeeze(x: TensorLike, axis: int | Sequence[int] | None = None) -> Call:
    """x without the dimensions `axis`, which must have size 1; by default without all dimensions of size 1.

    By default the rank of the result is unknown if some size may be 1 or not: name the dimensions to keep it known.
    """

def stack(tensors: TupleLike, axis: int = 0) -> Call:
    """Tensors of a tuple, of one shape, stacked along a new axis."""

def std(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """The standard deviation along `axis`, of floats: the square root of the variance; NaN for an empty dimension."""

def strided_slice(
    x: TensorLike,
    axes: TupleLike,
    begin: TupleLike,
    end: TupleLike,
    strides: TupleLike | None = None,
    assume_inbound: bool = False,
) -> Call:
    """``x[begin:end:stride]`` along each of the axes; the other dimensions whole.

    As in NumPy, a negative bound counts from the end and one out of range is cut off; a negative stride goes backwards.
    Strides are constants, or symbolic sizes; one that is 0 is an error. `assume_inbound` promises that the bounds lie
    within x.
    """

def subtract(x1: TensorLike | ScalarLike, x2: TensorLike | ScalarLike) -> Call:
    """x1 - x2; integers wrap around."""

def sum(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """Σ of the elements along `axis` (an int, several, or None for all). Integers wrap around.

    Booleans are counted in int64.
    """

def take(
    x: TensorLike,
    indices: TensorLike | ScalarLike,
    axis: int | None = None,
    mode: Literal['fast', 'clip', 'wrap', 'nan'] | str = 'fast',
) -> Call:
    """x at the indices, along an axis; without axis, of x flattened. A negative index counts from the end.

    The mode for an index out of range: "fast" is an error at run time, "clip" takes the nearest element, "wrap" counts
    modulo the size, "nan" yields NaN (floats only). If the result is empty, no element is read.
    """

def tan(x: TensorLike) -> Call:
    """The tangent, element by element."""

def tanh(x: TensorLike) -> Call:
    """The hyperbolic tangent, element by element."""

def tensor_to_shape(expr: TensorLike) -> Call:
    """The shape whose dimensions are the elements of a one-dimensional int64 tensor."""

def tile(data: TensorLike, repeats: ShapeLike) -> Call:
    """data repeated repeats[d] times along dimension d; missing dimensions are new, missing counts are 1.

    The counts are a shape, static or dynamic.
    """

def to_vdevice(data: TensorLike, dst_vdevice: VDevice) -> Call:
    """The tensor on another virtual device: itself if already there, else a copy."""

def topk(
    data: TensorLike,
    k: ScalarLike | None = None,
    axis: int = -1,
    ret_type: Literal['both', 'values', 'indices'] | str = 'both',
    largest: bool = True,
    dtype: DTypeLike = 'int32',
) -> Call:
    """The k greatest (or least) elements along `axis` in order, and their indices; `ret_type` selects either or both.

    k may be symbolic and defaults to 1; a negative constant takes all elements.
    """

def tril(x: TensorLike | ScalarLike, k: ScalarLike | None = None) -> Call:
    """The lower triangle of x: elements above the k-th diagonal of the last two dimensions become 0."""

def triu(x: TensorLike | ScalarLike, k: ScalarLike | None = None) -> Call:
    """The upper triangle of x: elements below the k-th diagonal of the last two dimensions become 0."""

def trunc(x: TensorLike) -> Call:
    """x without its fraction; integers and booleans unchanged."""

def unique(
    x: TensorLike,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Call:
    """The distinct elements (along `axis`, the distinct slices): sorted, or in the order in which they first occur.

    With `return_index`, `return_inverse` or `return_counts` a tuple: the elements, then, as requested, int64 tensors of
    the first index of each, the result index of each input element, and the number of occurrences. NaNs are equal.
    """

def variance(x: TensorLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """The mean squared deviation from the mean along `axis`, of floats; NaN for an empty dimension."""

def where(
    condition: TensorLike | ScalarLike,
    x1: TensorLike | ScalarLike,
    x2: TensorLike | ScalarLike,
) -> Call:
    """x1 where the condition holds, else x2; all three broadcast. A number holds if it is not 0."""

def wrap_param(x: TensorLike, dtype: DTypeLike = 'float32') -> Call:
    """A parameter of the model, converted to a dtype like `astype`."""

def zeros(shape: ShapeLike, dtype: DTypeLike) -> Call:
    """A tensor of zeros."""

def zeros_like(x: TensorLike, dtype: DTypeLike = '') -> Call:
    """A tensor of zeros of x's shape; dtype defaults to that of x."""
