"""The forms of `T` (see tools/make_stubs.py)."""

from builtins import bool as _bool
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar, overload

from relax.op.arguments import DTypeLike
from relax.prim.expr import ExprLike, PrimExpr
from relax.prim.expr import Var as _Var
from relax.tir.stmt import PrimFunc

_Macro = TypeVar("_Macro", bound=Callable[..., Any])

class _Buffer:
    """A buffer of a script: ``A[i, j]`` loads, ``A[i, j] = x`` stores."""

    name: str
    data: _Var
    dtype: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    elem_offset: Any
    ndim: int
    def __getitem__(self, indices: Any) -> Any: ...
    def __setitem__(self, indices: Any, value: Any) -> None: ...
    def __enter__(self) -> _Buffer: ...
    def __exit__(self, *error: object) -> None: ...
    def scope(self) -> str: ...
    def vload(self, begin: Any, dtype: str | None = None, predicate: Any = None) -> Any: ...
    def vstore(self, begin: Any, value: Any, predicate: Any = None) -> Any: ...
    def offset_of(self, indices: Any) -> tuple[PrimExpr, ...]: ...

class _Dtype:
    """A dtype: an annotation of a parameter; called, a new variable, a constant, or the conversion of a value."""

    @overload
    def __call__(self, expr: None = None, is_size_var: _bool = False) -> _Var: ...
    @overload
    def __call__(self, expr: ExprLike | str, is_size_var: _bool = False) -> PrimExpr: ...

class _IntDtype:
    """A dtype of integers. Its values may stand in Python's `range`, which only the parser of scripts allows."""

    def __call__(self, expr: ExprLike | str | None = None, is_size_var: _bool = False) -> Any: ...

class _Handle:
    def __call__(self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: _bool = False) -> _Var: ...

class _Pointer:
    def __call__(self, dtype: Any, storage_scope: str = "global", is_size_var: _bool = False) -> _Var: ...
    def __getitem__(self, dtype: Any) -> _Var: ...

class _BufferForm:
    def __call__(
        self,
        shape: Any,
        dtype: DTypeLike = "float32",
        data: Any = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> _Buffer: ...
    def __getitem__(self, items: Any) -> _Buffer: ...

class _Axis:
    def spatial(self, dom: Any, binding: Any, dtype: str | None = None) -> _Var:
        """A data-parallel axis."""
    def reduce(self, dom: Any, binding: Any, dtype: str | None = None) -> _Var:
        """An axis that is reduced over."""
    def scan(self, dom: Any, binding: Any, dtype: str | None = None) -> _Var:
        """An axis whose iterations depend on those before."""
    def opaque(self, dom: Any, binding: Any, dtype: str | None = None) -> _Var:
        """An axis of which nothing is said."""
    S = spatial
    R = reduce
    def remap(self, kinds: str, bindings: Any, dtype: str | None = None) -> Any:
        """Axes bound to loop variables, one letter each: S spatial, R reduce. Their domains are the loops'."""

handle: _Handle
ptr: _Pointer
Ptr: _Pointer
Buffer: _BufferForm
axis: _Axis

@overload
def prim_func(function: Callable[..., object], /) -> PrimFunc:
    """``@T.prim_func``: the ``def`` becomes a PrimFunc; in a class under ``@I.ir_module``, one of the module's."""

@overload
def prim_func(
    *, name: str | None = None, private: _bool = False, check_well_formed: _bool = True
) -> Callable[[Callable[..., object]], PrimFunc]:
    """``@T.prim_func(private=True)``, … Options:

    name                 the function's name, if the ``def`` cannot have it
    private              True: the function has no global symbol, and only the module calls it
    check_well_formed    False: the rules of the language are not checked
    """

@overload
def macro(function: _Macro, /) -> _Macro:
    """``@T.macro``: statements that are read where the macro is called."""

@overload
def macro(*, hygienic: _bool = True) -> Callable[[_Macro], _Macro]:
    """``@T.macro(hygienic=False)``: names that are no parameters mean what they mean where the macro is called."""

def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: DTypeLike = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> _Buffer: ...
def alloc_buffer(
    shape: Any,
    dtype: DTypeLike = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> _Buffer: ...

sblock_alloc_buffer = alloc_buffer

def allocate(
    extents: Any,
    dtype: DTypeLike = "float32",
    scope: str = "global",
    condition: Any = None,
    annotations: dict[str, Any] | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    align: int = 0,
    offset_factor: int = 0,
    axis_separators: Any = None,
) -> _Buffer: ...
def allocate_const(
    data: Any, dtype: DTypeLike, extents: Any, annotations: Mapping[str, Any] | None = None
) -> _Buffer: ...
def decl_buffer(
    shape: Any,
    dtype: DTypeLike = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> _Buffer: ...
def block(name: str = "", no_realize: _bool = False) -> AbstractContextManager[None]: ...

sblock = block

def init() -> AbstractContextManager[None]: ...
def Assert(condition: Any, message: Any = "") -> AbstractContextManager[None]: ...
def attr(node: Any, attr_key: str, value: Any) -> AbstractContextManager[None]: ...
def env_thread(thread_tag: str, dtype: str = "int32") -> _Var: ...
def launch_thread(thread: _Var | str, extent: ExprLike) -> AbstractContextManager[_Var]: ...
def LetStmt(value: Any, type_annotation: Any = None, *, var: _Var | None = None) -> AbstractContextManager[_Var]: ...
@overload
def let(var: _Var, value: Any, body: None = None) -> AbstractContextManager[_Var]: ...
@overload
def let(var: _Var, value: Any, body: ExprLike) -> PrimExpr: ...
def meta_var(value: Any) -> Any: ...
@overload
def grid(extent: Any, /) -> Iterable[_Var]: ...
@overload
def grid(extent: Any, second: Any, /, *extents: Any) -> Iterable[tuple[_Var, ...]]: ...
def serial(
    start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None, step: int = 1
) -> Iterable[_Var]: ...
def parallel(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Iterable[_Var]: ...
def vectorized(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Iterable[_Var]: ...
def unroll(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Iterable[_Var]: ...

unrolled = unroll

def thread_binding(
    start: Any, stop: Any = None, thread: str = "", *, annotations: Mapping[str, Any] | None = None
) -> Iterable[_Var]: ...
