"""The forms of `R` (see tools/make_stubs.py)."""

from builtins import str as _str
from collections.abc import Callable as _Function
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar, overload

from relax.expr import Call as _Call
from relax.expr import ExternFunc as ExternFunc
from relax.expr import Function, Var
from relax.ir.expr import RelaxExpr, StructInfo, VDevice
from relax.op._signatures import distributed as _distributed
from relax.op._signatures import matmul as matmul
from relax.op.arguments import DimensionLike, DTypeLike
from relax.prim.expr import PrimExpr
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

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
Shape: _ShapeForm
Prim: _PrimForm
Object: _ObjectForm
Tuple: _TupleForm
Callable: _CallableForm

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

def dataflow() -> AbstractContextManager[None]: ...
def match_cast(value: Any, struct_info: _Info) -> Var: ...
def match_shape(value: Any, pattern: Sequence[PrimExpr | int | _str]) -> Var: ...

dist = _distributed
dot = matmul

def emit_te(
    func: _Function[..., Any],
    *args: Any,
    primfunc_name_hint: _str | None = None,
    primfunc_attrs: Mapping[_str, Any] | None = None,
    **kwargs: Any,
) -> _Call: ...
