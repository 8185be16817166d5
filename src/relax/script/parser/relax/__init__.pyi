"""The namespace `R` of scripts. Written by tools/make_stubs.py."""

from builtins import str as _str
from collections.abc import Callable as _Function, Mapping, Sequence
from contextlib import AbstractContextManager
from relax.expr import (
    Call as _Call,
    Constant,
    DataTypeImm,
    ExternFunc as ExternFunc,
    Function,
    PrimValue,
    ShapeExpr as _ShapeExpr,
    StringImm,
    Tuple as _Tuple,
    TupleGetItem as _TupleGetItem,
    Var,
)
from relax.ir.expr import RelaxExpr, StructInfo, VDevice
from relax.ir.op import Op as _Op
from relax.op._signatures import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    arange as arange,
    argmax as argmax,
    argmin as argmin,
    argsort as argsort,
    asin as asin,
    asinh as asinh,
    assert_op as assert_op,
    astype as astype,
    atan as atan,
    atanh as atanh,
    bitwise_and as bitwise_and,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    blackman_window as blackman_window,
    broadcast_to as broadcast_to,
    bucketize as bucketize,
    builtin as builtin,
    ccl as ccl,
    ceil as ceil,
    clip as clip,
    collapse_sum_like as collapse_sum_like,
    collapse_sum_to as collapse_sum_to,
    concat as concat,
    cos as cos,
    cosh as cosh,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    dequantize as dequantize,
    dequantize_blocks as dequantize_blocks,
    distributed as _distributed,
    divide as divide,
    dynamic_strided_slice as dynamic_strided_slice,
    einsum as einsum,
    equal as equal,
    erf as erf,
    erfc as erfc,
    ewise_fma as ewise_fma,
    exp as exp,
    expand_dims as expand_dims,
    eye as eye,
    eye_like as eye_like,
    flatten as flatten,
    flip as flip,
    floor as floor,
    floor_divide as floor_divide,
    floor_mod as floor_mod,
    full as full,
    full_like as full_like,
    gather_elements as gather_elements,
    gather_nd as gather_nd,
    grad as grad,
    greater as greater,
    greater_equal as greater_equal,
    hamming_window as hamming_window,
    hann_window as hann_window,
    image as image,
    index_put as index_put,
    index_tensor as index_tensor,
    inspect as inspect,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    layout_transform as layout_transform,
    left_shift as left_shift,
    less as less,
    less_equal as less_equal,
    linear as linear,
    log as log,
    log_add_exp as log_add_exp,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    masked_fill as masked_fill,
    matmul as matmul,
    max as max,
    maximum as maximum,
    mean as mean,
    median as median,
    memory as memory,
    meshgrid as meshgrid,
    min as min,
    minimum as minimum,
    mod as mod,
    multinomial_from_uniform as multinomial_from_uniform,
    multiply as multiply,
    negative as negative,
    nn as nn,
    nonzero as nonzero,
    not_equal as not_equal,
    null_value as null_value,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    outer as outer,
    permute_dims as permute_dims,
    power as power,
    print as print,
    prod as prod,
    quantize as quantize,
    random as random,
    read_tensor_from_file as read_tensor_from_file,
    reinterpret as reinterpret,
    repeat as repeat,
    reshape as reshape,
    reverse_sequence as reverse_sequence,
    right_shift as right_shift,
    round as round,
    rsqrt as rsqrt,
    saturating_astype as saturating_astype,
    scatter_elements as scatter_elements,
    scatter_nd as scatter_nd,
    shape_of as shape_of,
    shape_to_tensor as shape_to_tensor,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    slice_scatter as slice_scatter,
    sort as sort,
    split as split,
    sqrt as sqrt,
    square as square,
    squeeze as squeeze,
    stack as stack,
    std as std,
    strided_slice as strided_slice,
    subtract as subtract,
    sum as sum,
    take as take,
    tan as tan,
    tanh as tanh,
    tensor_to_shape as tensor_to_shape,
    tile as tile,
    topk as topk,
    tril as tril,
    triu as triu,
    trunc as trunc,
    unique as unique,
    variance as variance,
    vision as vision,
    vm as vm,
    where as where,
    wrap_param as wrap_param,
    zeros as zeros,
    zeros_like as zeros_like,
)
from relax.op.arguments import DTypeLike, DimensionLike, TensorLike
from relax.prim.expr import PrimExpr
from relax.script.parser.relax.values import FunctionLike, TupleLike
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from typing import Any, TypeAlias, TypeVar, overload

_Macro = TypeVar("_Macro", bound=_Function[..., Any])

_Info: TypeAlias = StructInfo | _TensorForm | _ShapeForm | _PrimForm | _ObjectForm | _TupleForm | _CallableForm

class _TensorForm:
    def __call__(
        self,
        shape: RelaxExpr | Sequence[DimensionLike] | DimensionLike | None = None,
        dtype: DTypeLike = None,
        vdevice: VDevice | _str | None = None,
        ndim: int = -1,
    ) -> TensorStructInfo: ...
    def __getitem__(self, index: Any) -> TensorStructInfo: ...

class _ShapeForm:
    def __call__(
        self, values: RelaxExpr | Sequence[DimensionLike] | DimensionLike | None = None, ndim: int = -1
    ) -> ShapeStructInfo: ...

class _PrimForm:
    def __call__(self, dtype: DTypeLike = None, value: PrimExpr | _str | float | None = None) -> PrimStructInfo: ...

class _ObjectForm:
    def __call__(self) -> ObjectStructInfo: ...

class _TupleForm:
    def __call__(self, *fields: _Info | Sequence[_Info]) -> TupleStructInfo: ...

class _CallableForm:
    def __call__(
        self,
        params: _Info | Sequence[_Info] | None = None,
        ret: _Info | None = None,
        purity: bool | None = None,
        derive_func: _str | None = None,
    ) -> FuncStructInfo: ...

Tensor: _TensorForm
"""R.Tensor(shape, dtype, vdevice, ndim): every argument is optional; a single string is the dtype."""

Shape: _ShapeForm
"""R.Shape(values, ndim): ``R.Shape(["n", 4])``, ``R.Shape(ndim=2)``, ``R.Shape``."""

Prim: _PrimForm
"""R.Prim(dtype) or R.Prim(value=expression); both, where a quoted value is a new variable of that dtype."""

Object: _ObjectForm
"""R.Object: any value."""

Tuple: _TupleForm
"""R.Tuple(field, ...)."""

Callable: _CallableForm
"""R.Callable((params...), ret, purity); without params, a packed function's."""

@overload
def function(function: _Function[..., object], /) -> Function:
    """``@R.function``: the ``def`` becomes a Relax function; in a class under ``@I.ir_module``, one of the module's."""

@overload
def function(
    *, name: _str | None = None, private: bool = False, pure: bool = True, check_well_formed: bool = True
) -> _Function[[_Function[..., object]], Function]:
    """``@R.function(private=True)``, … Options:

    name                 the function's name, if the ``def`` cannot have it
    private              True: the function has no global symbol, and only the module calls it
    pure                 False: the function may have effects
    check_well_formed    False: the rules of the language are not checked
    """

func = function

@overload
def macro(function: _Macro, /) -> _Macro:
    """``@R.macro``: statements that are read where the macro is called."""

@overload
def macro(*, hygienic: bool = True) -> _Function[[_Macro], _Macro]:
    """``@R.macro(hygienic=False)``: names that are no parameters mean what they mean where the macro is called."""

def dataflow() -> AbstractContextManager[None]:
    """``with R.dataflow():`` opens a dataflow block."""

def match_cast(value: Any, struct_info: _Info) -> Var:
    """``y = R.match_cast(x, R.Tensor((n, m), "float32"))``: check at run time, and bind new shape variables."""

def match_shape(value: Any, pattern: Sequence[PrimExpr | int | _str]) -> Var:
    """``R.match_shape(x, (n, m))``, an older spelling of match_cast, of tensors and of shapes."""

dist = _distributed

dot = matmul

def emit_te(
    func: _Function[..., Any],
    *args: Any,
    primfunc_name_hint: _str | None = None,
    primfunc_attrs: Mapping[_str, Any] | None = None,
    **kwargs: Any,
) -> _Call:
    """``R.emit_te(func, *args, **kwargs, primfunc_name_hint=, primfunc_attrs=)``."""

def Call(op: Any, args: Sequence[Any], attrs: Any = None, sinfo_args: Sequence[Any] = ()) -> _Call:
    """``R.Call(op, [args], attrs=..., sinfo_args=(...))``: the node itself, without the operator's checks."""

def Op(name: _str) -> _Op:
    """``R.Op(name)``: an operator as a value."""

def ShapeExpr(values: Sequence[Any]) -> _ShapeExpr:
    """A shape value."""

def TupleGetItem(value: Any, index: int) -> _TupleGetItem:
    """``R.TupleGetItem(value, index)``: the node itself."""

def call_builtin_with_ctx(func: FunctionLike, args: TupleLike, *, sinfo_args: Any = None) -> _Call:
    """Call a builtin of the VM."""

def call_dps_packed(func: FunctionLike, args: TupleLike, out_sinfo: Any = None, **older: Any) -> _Call:
    """Call a packed function in destination-passing style."""

def call_inplace_packed(
    func: FunctionLike,
    *args: Any,
    inplace_indices: int | Sequence[int],
    sinfo_args: Any = None,
) -> _Call:
    """Call a packed function that changes only the arguments named."""

def call_packed(func: FunctionLike, *args: Any, sinfo_args: Any = None) -> _Call:
    """Call a packed function, which may have any effect."""

def call_pure_packed(func: FunctionLike, *args: Any, sinfo_args: Any = None) -> _Call:
    """Call a packed function that the caller declares to be free of side effects."""

def call_tir(
    func: FunctionLike,
    args: TupleLike,
    out_sinfo: Any = None,
    tir_vars: Any = None,
    **older: Any,
) -> _Call:
    """Call a PrimFunc in destination-passing style. Text names a packed function (an older spelling)."""

def call_tir_inplace(
    func: FunctionLike,
    args: TupleLike,
    inplace_indices: int | Sequence[int],
    out_sinfo: Any = None,
    tir_vars: Any = None,
) -> _Call:
    """Like call_tir, but outputs reuse arguments."""

def call_tir_with_grad(
    func: FunctionLike,
    args: TupleLike,
    out_sinfo: Any = None,
    te_grad_name: _str = '',
    te_grad_kwargs: Mapping[_str, Any] | None = None,
    tir_vars: Any = None,
) -> _Call:
    """Like call_tir, of a kernel with a registered gradient."""

def const(value: Any, dtype: _str | None = None) -> Constant:
    """A tensor constant of a number, nested lists of numbers, or an array."""

def dtype(value: Any) -> DataTypeImm:
    """A dtype as a value."""

def func_attr(attrs: Mapping[_str, Any]) -> None:
    """Set attributes of the enclosing function."""

def func_ret_struct_info(struct_info: Any) -> None:
    """Annotate the result of the enclosing function."""

def hint_on_device(data: TensorLike, dst_vdevice: VDevice | _str) -> _Call:
    """The tensor itself, annotated with the virtual device on which it should be."""

def invoke_closure(closure: RelaxExpr, args: TupleLike, sinfo_args: Any = None) -> _Call:
    """Call a closure, which may have any effect."""

def invoke_pure_closure(closure: RelaxExpr, args: TupleLike, sinfo_args: Any = None) -> _Call:
    """Call a closure without side effects."""

def make_closure(func: FunctionLike, args: TupleLike = ()) -> _Call:
    """A closure of a function; the captured values are its last parameters."""

def output(*values: Any) -> None:
    """``R.output(a, b)``: these variables of the dataflow block are visible after it."""

def outputs(*values: Any) -> None:
    """``R.output(a, b)``: these variables of the dataflow block are visible after it."""

def prim_value(value: Any) -> PrimValue:
    """A scalar: a Python number, or an expression over shape variables."""

def rewriter(cls: type) -> Any:
    """Parse a class with the functions `pattern` and `replacement`, and return its PatternMatchingRewriter.

    See `relax.dpl.PatternMatchingRewriter.from_module`.
    """

def shape(values: Sequence[Any]) -> _ShapeExpr:
    """A shape value."""

def str(value: _str) -> StringImm:
    """A string."""

def to_vdevice(data: TensorLike, dst_vdevice: VDevice | _str) -> _Call:
    """The tensor on another virtual device: itself if already there, else a copy."""

def tuple(*fields: Any) -> _Tuple:
    """A tuple: ``R.tuple(a, b)``, or ``R.tuple([a, b])``."""
