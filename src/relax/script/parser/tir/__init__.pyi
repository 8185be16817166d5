"""The namespace `T` of scripts. Written by tools/make_stubs.py."""

from builtins import bool as _bool
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from relax.ir.dtype import DataType
from relax.ir.span import Span
from relax.op.arguments import DTypeLike
from relax.prim.expr import (
    Call,
    ExprLike,
    FloatImm,
    IntImm,
    PrimExpr,
    StringImm as _StringImm,
    Var as Var,
    Var as _Var,
)
from relax.script.parser.tir.frames import EnclosingStmt
from relax.script.parser.tir.structs import StructType
from relax.tir.buffer import (
    Broadcast as _Broadcast,
    BufferLoad as _BufferLoad,
    IterVar,
    Ramp as _Ramp,
    Range as Range,
    Shuffle as _Shuffle,
)
from relax.tir.index_map import IndexMap
from relax.tir.stmt import BufferStore, Evaluate, Precondition, PrimFunc
from typing import Any, TypeVar, overload

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
"""``T.handle``: a pointer."""

ptr: _Pointer
"""``T.Ptr[T.float32]``, ``T.ptr("float32")``: a pointer. The element type is informational only."""

Ptr: _Pointer
"""``T.Ptr[T.float32]``, ``T.ptr("float32")``: a pointer. The element type is informational only."""

Buffer: _BufferForm
"""``T.Buffer((n, m), "float32")``, and the older ``T.Buffer[(n, m), "float32"]``."""

axis: _Axis
"""``T.axis``: the variables of a block."""

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
) -> _Buffer:
    """``A = T.match_buffer(a, (n, m), "float32")`` of a parameter, or of a region inside a block."""

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
) -> _Buffer:
    """A buffer of the block or the whole function; inside a loop or branch, of the following statements."""

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
) -> _Buffer:
    """Storage for the statements that follow, or for the body of a ``with``. Raises ValueError for a condition."""

def allocate_const(
    data: Any, dtype: DTypeLike, extents: Any, annotations: Mapping[str, Any] | None = None
) -> _Buffer:
    """Storage for the following statements, initialised with `data`.

    Raises ValueError unless `data` has one number per element, and above a limit of elements.
    """

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
) -> _Buffer:
    """Another view of existing storage; without `data`, new storage.

    A computed pointer as `data` is bound to a variable first.
    """

def block(name: str = "", no_realize: _bool = False) -> AbstractContextManager[None]:
    """``with T.block("B"):`` a unit of computation."""

sblock = block

def init() -> AbstractContextManager[None]:
    """``with T.init():`` the initialisation of a reduction block."""

def Assert(condition: Any, message: Any = "") -> AbstractContextManager[None]:
    """Raise an error with the message unless the condition holds."""

def attr(node: Any, attr_key: str, value: Any) -> AbstractContextManager[None]:
    """A compiler annotation of the following statements."""

def env_thread(thread_tag: str, dtype: str = "int32") -> _Var:
    """``tx = T.env_thread("threadIdx.x")``: the index of a device thread."""

def launch_thread(thread: _Var | str, extent: ExprLike) -> AbstractContextManager[_Var]:
    """Run the rest once for each of `extent` threads; `thread` is a thread tag or a variable of T.env_thread.

    Raises TypeError for any other value.
    """

def LetStmt(value: Any, type_annotation: Any = None, *, var: _Var | None = None) -> AbstractContextManager[_Var]:
    """``with T.LetStmt(value) as x:`` and ``with T.LetStmt(value, var=x):``."""

@overload
def let(var: _Var, value: Any, body: None = None) -> AbstractContextManager[_Var]:
    """``with T.let(x, value):``; with a body, an expression."""

@overload
def let(var: _Var, value: Any, body: ExprLike) -> PrimExpr:
    """``with T.let(x, value):``; with a body, an expression."""

def meta_var(value: Any) -> Any:
    """A name for a parse-time value: ``x = T.meta_var(expr)`` creates no variable."""

@overload
def grid(extent: Any, /) -> Iterable[_Var]:
    """``for i, j in T.grid(n, m)``: nested serial loops. An extent may be a pair (start, stop).

    Raises TypeError without an extent.
    """

@overload
def grid(extent: Any, second: Any, /, *extents: Any) -> Iterable[tuple[_Var, ...]]:
    """``for i, j in T.grid(n, m)``: nested serial loops. An extent may be a pair (start, stop).

    Raises TypeError without an extent.
    """

def serial(
    start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None, step: int = 1
) -> Iterable[_Var]:
    """``for i in T.serial(n)``: sequential iterations. Raises ValueError for a step of 0 or less."""

def parallel(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Iterable[_Var]:
    """Iterations distributed to several threads."""

def vectorized(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Iterable[_Var]:
    """Iterations executed at once, as vector operations."""

def unroll(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Iterable[_Var]:
    """Unrolled iterations."""

unrolled = unroll

def thread_binding(
    start: Any, stop: Any = None, thread: str = "", *, annotations: Mapping[str, Any] | None = None
) -> Iterable[_Var]:
    """Iterations bound to device threads, ``thread="threadIdx.x"``. Raises TypeError without a thread."""

def Add(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Add of two operands, which are brought to one dtype."""

def And(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """And of two operands, which are brought to one dtype."""

def Broadcast(value: Any, lanes: int, *, dtype: Any = None) -> _Broadcast:
    """A vector of equal elements."""

def BufferLoad(buffer: Any, indices: Any, predicate: Any = None) -> _BufferLoad:
    """``buffer[indices]``."""

def Cast(dtype: str, value: Any) -> PrimExpr:
    """A Cast node, without folding."""

def Div(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Div of two operands, which are brought to one dtype."""

def EQ(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """EQ of two operands, which are brought to one dtype."""

def FloorDiv(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """FloorDiv of two operands, which are brought to one dtype."""

def FloorMod(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """FloorMod of two operands, which are brought to one dtype."""

def GE(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """GE of two operands, which are brought to one dtype."""

def GT(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """GT of two operands, which are brought to one dtype."""

def LE(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """LE of two operands, which are brought to one dtype."""

def LT(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """LT of two operands, which are brought to one dtype."""

def Let(expr: Any, where: Mapping[_Var, Any]) -> PrimExpr:
    """``T.Let(body, where={x: value})``: an expression with variables bound."""

def Max(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Max of two operands, which are brought to one dtype."""

def Min(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Min of two operands, which are brought to one dtype."""

def Mod(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Mod of two operands, which are brought to one dtype."""

def Mul(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Mul of two operands, which are brought to one dtype."""

def NE(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """NE of two operands, which are brought to one dtype."""

def Not(a: Any, *, dtype: Any = None) -> PrimExpr:
    """The negation of a bool."""

def Or(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Or of two operands, which are brought to one dtype."""

def Ramp(base: Any, stride: Any, lanes: int, *, dtype: Any = None) -> _Ramp:
    """The vector base, base + stride, …"""

def Select(condition: Any, true_value: Any, false_value: Any, *, dtype: Any = None) -> PrimExpr:
    """Select one of two values; both may be evaluated."""

def Shuffle(vectors: Any, indices: Any, *, dtype: Any = None) -> _Shuffle:
    """Lanes of vectors, in the order of the indices."""

def SizeVar(name: str, dtype: str | DataType = 'int32', span: Span | None = None) -> _Var:
    """A variable known to be ≥ 0."""

def StringImm(text: str, *, dtype: Any = None) -> _StringImm:
    """A string."""

def Sub(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Sub of two operands, which are brought to one dtype."""

def abs(x: Any, *, dtype: Any = None) -> PrimExpr:
    """The magnitude; of the least integer of a signed type, that integer (two's complement).

    Raises TypeError for what is no number.
    """

def acos(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The inverse cosine."""

def acosh(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The inverse hyperbolic cosine."""

def address_of(element: Any, span: Any = None, *, dtype: Any = None) -> Call:
    """The pointer to an element of a buffer, or to a field of a struct, given as a load of it.

    Raises TypeError for another expression.
    """

def all(*args: Any, dtype: Any = None) -> PrimExpr:
    """The conjunction."""

def alloc_var(dtype: Any, init: Any = None) -> EnclosingStmt:
    """A variable of the following statements, which assignments to its name change."""

def any(*args: Any, dtype: Any = None) -> PrimExpr:
    """The disjunction."""

def anylist_getitem(*args: Any, dtype: Any = None) -> PrimExpr: ...

def anylist_keep_apart(*args: Any, dtype: Any = None) -> PrimExpr: ...

def anylist_resetitem(*args: Any, dtype: Any = None) -> PrimExpr: ...

def anylist_setitem(*args: Any, dtype: Any = None) -> PrimExpr: ...

def anylist_setitem_call_cpacked(*args: Any, dtype: Any = None) -> PrimExpr: ...

def anylist_setitem_call_last(*args: Any, dtype: Any = None) -> PrimExpr: ...

def anylist_setitem_call_packed(*args: Any, dtype: Any = None) -> PrimExpr: ...

def asin(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The inverse sine."""

def asinh(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The inverse hyperbolic sine."""

def assume(cond: Any, span: Any = None, *, dtype: Any = None) -> Call:
    """A condition that the writer promises to hold where this is evaluated."""

def atan(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The inverse tangent."""

def atan2(a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The angle of the point (b, a)."""

def atanh(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The inverse hyperbolic tangent."""

def atomic_add(pointer: Any, value: Any, order: Any, *, dtype: Any = None) -> Call:
    """Atomic add of a value and the one at a pointer; the value before."""

def atomic_and(pointer: Any, value: Any, order: Any, *, dtype: Any = None) -> Call:
    """Atomic and of a value and the one at a pointer; the value before."""

def atomic_cmpxchg(
    pointer: Any,
    expected: Any,
    value: Any,
    success: Any,
    failure: Any,
    *,
    dtype: Any = None,
) -> Call:
    """Store `value` if the value at the pointer is `expected`. Return the value before."""

def atomic_load(dtype: Any, pointer: Any, order: Any) -> Call:
    """The value at a pointer, loaded atomically."""

def atomic_max(pointer: Any, value: Any, order: Any, *, dtype: Any = None) -> Call:
    """Atomic max of a value and the one at a pointer; the value before."""

def atomic_store(pointer: Any, value: Any, order: Any, *, dtype: Any = None) -> Call:
    """Store a value atomically."""

def atomic_sub(pointer: Any, value: Any, order: Any, *, dtype: Any = None) -> Call:
    """Atomic sub of a value and the one at a pointer; the value before."""

def atomic_umax(pointer: Any, value: Any, order: Any, *, dtype: Any = None) -> Call:
    """Atomic umax of a value and the one at a pointer; the value before."""

def bitwise_and(a: ExprLike, b: ExprLike, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """The bits set in both."""

def bitwise_not(a: ExprLike, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """The bits not set; of a bool, its negation."""

def bitwise_or(a: ExprLike, b: ExprLike, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """The bits set in either."""

def bitwise_xor(a: ExprLike, b: ExprLike, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """The bits set in one of the two."""

def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block; outside of blocks, of the root block."""

def break_loop(*, dtype: Any = None) -> Call:
    """Leave the innermost loop."""

def broadcast(value: Any, lanes: int, *, dtype: Any = None) -> _Broadcast:
    """A vector of equal elements."""

def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> BufferStore:
    """``buffer[indices] = value``, in the lanes in which the predicate holds."""

def call_cpacked(func_name: str, *args: Any, dtype: str = 'int32') -> Call:
    """A call of a packed function by its registered name."""

def call_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """A call of a C function by its symbol."""

def call_intrin(dtype: str, op: Any, *args: Any) -> Call:
    """A call of any intrinsic by name."""

def call_llvm_intrin(*args: Any, **keywords: Any) -> Call: ...

def call_llvm_pure_intrin(*args: Any, **keywords: Any) -> Call: ...

def call_packed(func_name: str, *args: Any, dtype: str = 'int32') -> Call:
    """A call of a packed function by its registered name."""

def call_pointer(dtype: Any, function: Any, *args: Any) -> Call:
    """Call the C function at an address."""

def call_pure_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """A call of a side-effect-free C function."""

def cast(value: Any, dtype: str) -> PrimExpr:
    """`value` converted to `dtype`."""

def ceil(x: Any, *, dtype: Any = None) -> PrimExpr:
    """The least whole number ≥ x. An integer is returned as it is."""

def ceildiv(a: ExprLike, b: ExprLike, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """Integer division rounded toward plus infinity. Raises TypeError for floats."""

def cell_alloc(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_copy(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_data(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_dim(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_field(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_fits(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_payload(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_plain(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_reshape(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_shape(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_storage(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_truth(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_value(*args: Any, dtype: Any = None) -> PrimExpr: ...

def cell_view(*args: Any, dtype: Any = None) -> PrimExpr: ...

def clz(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The number of leading zero bits, an int32; all the bits for 0."""

def continue_loop(*, dtype: Any = None) -> Call:
    """Go on with the next iteration of the innermost loop."""

def copysign(a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The magnitude of a with the sign of b."""

def cos(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The cosine."""

def cosh(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The hyperbolic cosine."""

def cpu_clock(*, dtype: Any = None) -> Call:
    """Ticks of a clock of constant frequency."""

def cpu_pause(*, dtype: Any = None) -> Call:
    """Hint to the CPU that the thread spins."""

def div(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Div of two operands, which are brought to one dtype."""

def dot_bf16(total: ExprLike, a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """float32 sums plus dot products of bfloat16×2 groups."""

def dot_s16s16(total: ExprLike, a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """int32 sums plus dot products of int16×2 groups."""

def dot_s8s8(total: ExprLike, a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """int32 sums plus dot products of signed int8×4 groups."""

def dot_u7s8(total: ExprLike, a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """int32 sums plus dot products of bytes below 128 (`a`) by signed (`b`) int8×4 groups.

    Other bytes of `a` give other sums on some machines; the interpreter raises ValueError for them.
    """

def dot_u8s8(total: ExprLike, a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """int32 sums plus dot products of unsigned (`a`) by signed (`b`) int8×4 groups."""

def erf(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The error function."""

def erfc(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """1 - erf(x), exact where erf(x) is near 1."""

def evaluate(value: Any) -> Evaluate:
    """Evaluate an expression for its side effects."""

def exp(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """e to the power x."""

def exp10(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """10 to the power x."""

def exp2(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """2 to the power x."""

def fabs(x: Any, *, dtype: Any = None) -> PrimExpr:
    """The magnitude; of the least integer of a signed type, that integer (two's complement).

    Raises TypeError for what is no number.
    """

def float_mode(*, dtype: Any = None) -> Call:
    """The rounding and subnormal modes of the thread."""

def floor(x: Any, *, dtype: Any = None) -> PrimExpr:
    """The greatest whole number ≤ x. An integer is returned as it is."""

def floordiv(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """FloorDiv of two operands, which are brought to one dtype."""

def floormod(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """FloorMod of two operands, which are brought to one dtype."""

def fma(a: ExprLike, b: ExprLike, c: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """a * b + c, rounded once, for float32 or float64 or vectors of them. Raises TypeError for other dtypes."""

def fmod(a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The remainder of a / b with the sign of a."""

def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function."""

def func_name(name: str) -> None:
    """Set the function's global symbol."""

def func_ret(dtype: Any) -> None:
    """Set the function's return type."""

def handle_add_byte_offset(handle: Any, offset: Any, *, dtype: Any = None) -> Call:
    """The pointer `offset` bytes behind `handle`."""

def hypot(a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """sqrt(a*a + b*b) without overflow on the way."""

def if_then_else(cond: Any, t: Any, f: Any, *, dtype: Any = None) -> PrimExpr:
    """`t` if `cond` else `f`; only the selected value is evaluated."""

def index_map(
    mapping_function: Callable[..., Any],
    ndim: int | None = None,
    inverse_index_map: Callable[..., Any] | IndexMap | None = None,
    *,
    index_dtype: str = 'int64',
) -> IndexMap:
    """Return the map that a function of the indices describes; a function of ``*indices`` needs `ndim`.

    Raises ValueError if the function returns axis separators: see `from_func_with_separators`.
    """

def indexdiv(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """FloorDiv of two operands, which are brought to one dtype."""

def indexmod(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """FloorMod of two operands, which are brought to one dtype."""

def infinity(dtype: str, span: Any = None) -> FloatImm:
    """Positive infinity. Raises TypeError for a dtype that has none."""

def isfinite(x: Any, *, dtype: Any = None) -> PrimExpr:
    """Whether x is neither infinite nor NaN."""

def isinf(x: Any, *, dtype: Any = None) -> PrimExpr:
    """Whether x is an infinity."""

def isnan(x: Any, *, dtype: Any = None) -> PrimExpr:
    """Whether x is not a number."""

def isnullptr(handle: Any, *, dtype: Any = None) -> Call:
    """True for the null pointer."""

def iter_var(var: _Var, dom: Any, iter_type: str, thread_tag: str = '') -> IterVar:
    """An IterVar."""

def kernel_call(*args: Any, dtype: Any = None) -> PrimExpr: ...

def likely(cond: Any, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """`cond`, expected to be true."""

def log(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The natural logarithm."""

def log10(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The logarithm to base 10."""

def log1p(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """log(1 + x), exact near 0."""

def log2(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The logarithm to base 2."""

def logical_not(a: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The negation of a bool."""

def max(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Max of two operands, which are brought to one dtype."""

def max_value(dtype: str, span: Any = None) -> IntImm | FloatImm:
    """The greatest finite value of a dtype."""

def min(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Min of two operands, which are brought to one dtype."""

def min_value(dtype: str, span: Any = None) -> IntImm | FloatImm:
    """The least finite value of a dtype."""

def nan(dtype: str = 'float32') -> FloatImm:
    """Not-a-number of a floating-point dtype."""

def nearbyint(x: Any, *, dtype: Any = None) -> PrimExpr:
    """The nearest whole number, halves to even. An integer is returned as it is."""

def noalias() -> None:
    """Declare that the function's parameters do not alias."""

def parallel_for(call: Any, written: Any, span: Any = None, *, dtype: Any = None) -> Call:
    """A call of a function for parts of the range [begin, end), its first two arguments, in any order or at once.

    Of the buffers that follow, the function writes the first `written`. Raises TypeError for another call.
    """

def popcount(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The number of one bits, in the operand's dtype: of an int2, -2 for the two bits of -1."""

def pow(a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """a to the power b."""

def power(a: ExprLike, b: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """a to the power b."""

def precondition(condition: Any, message: Any = '') -> Precondition:
    """A condition on sizes and scalar parameters required of calls of the function.

    Raises TypeError unless it is a bool.
    """

def prefetch(element: Any, rw: int = 0, locality: int = 3, *, dtype: Any = None) -> Call:
    """Prefetch the cache line of ``A[i, j]``, which may be outside of A.

    `rw` is 0 for reading, 1 for writing; `locality` is the temporal locality from 0 (none) to 3 (high). Raises
    TypeError if `element` is not an element of a buffer, ValueError for other numbers.
    """

def ramp(base: Any, stride: Any, lanes: int, *, dtype: Any = None) -> _Ramp:
    """The vector base, base + stride, …"""

def reads(*regions: Any) -> None:
    """Declare the regions a block reads: ``T.reads(A[i, j], B[0:n])``; ``T.reads()`` for none."""

def reinterpret(dtype: str, value: Any) -> PrimExpr:
    """Reinterpret the bits of a value as another dtype."""

def ret(value: Any = None, span: Any = None, *, dtype: Any = None) -> Call:
    """The end of the function, with its value if it returns one."""

def round(x: Any, *, dtype: Any = None) -> PrimExpr:
    """The nearest whole number, halves away from zero. An integer is returned as it is."""

def rsqrt(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """1 / sqrt(x)."""

def sblock_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block; outside of blocks, of the root block."""

def select(cond: Any, t: Any, f: Any, *, dtype: Any = None) -> PrimExpr:
    """`t` if `cond` else `f`; both may be evaluated."""

def set_float_mode(mode: Any, *, dtype: Any = None) -> Call:
    """Set the rounding and subnormal modes of the thread."""

def shift_left(a: ExprLike, b: ExprLike, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """a << b; 0 when b is negative or at least the number of bits."""

def shift_right(a: ExprLike, b: ExprLike, span: Any = None, *, dtype: Any = None) -> PrimExpr:
    """a >> b, keeping the sign; all sign bits when b is negative or at least the number of bits."""

def sigmoid(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """1 / (1 + exp(-x))."""

def sin(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The sine."""

def sinh(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The hyperbolic sine."""

def size_var(dtype: str = 'int32', name: str = '') -> _Var:
    """A new variable known to be ≥ 0."""

def sqrt(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The square root."""

def struct(name: str) -> StructType:
    """A C struct (`relax.target.c_structs`). Raises ValueError if none has the name."""

def struct_size(name: Any, *, dtype: Any = None) -> Call:
    """Bytes of a struct."""

def symbol_address(name: Any, *, dtype: Any = None) -> Call:
    """The address of a function or variable of the object, or one that the loader binds."""

def system_call(name: Any, *args: Any, dtype: Any = None) -> Call:
    """A system call of Linux. Raises ValueError for a name that no architecture describes."""

def tan(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The tangent."""

def tanh(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """The hyperbolic tangent."""

def target(config: Any, host: Any = None) -> Any:
    """A target, for a function's attributes, from a text or table.

    Raises TypeError for another description.
    """

def tile_dot_bf16(
    sums: ExprLike,
    sums_distance: ExprLike,
    left: ExprLike,
    left_distance: ExprLike,
    right: ExprLike,
    right_distance: ExprLike,
    rows: ExprLike,
    columns: ExprLike,
    steps: ExprLike,
    *,
    dtype: Any = None,
) -> Call:
    """Add a product of tiles of bfloat16 and of bfloat16."""

def tile_dot_s8s8(
    sums: ExprLike,
    sums_distance: ExprLike,
    left: ExprLike,
    left_distance: ExprLike,
    right: ExprLike,
    right_distance: ExprLike,
    rows: ExprLike,
    columns: ExprLike,
    steps: ExprLike,
    *,
    dtype: Any = None,
) -> Call:
    """Add a product of tiles of int8 and of int8."""

def tile_dot_s8u8(
    sums: ExprLike,
    sums_distance: ExprLike,
    left: ExprLike,
    left_distance: ExprLike,
    right: ExprLike,
    right_distance: ExprLike,
    rows: ExprLike,
    columns: ExprLike,
    steps: ExprLike,
    *,
    dtype: Any = None,
) -> Call:
    """Add a product of tiles of int8 and of uint8."""

def tile_dot_u8s8(
    sums: ExprLike,
    sums_distance: ExprLike,
    left: ExprLike,
    left_distance: ExprLike,
    right: ExprLike,
    right_distance: ExprLike,
    rows: ExprLike,
    columns: ExprLike,
    steps: ExprLike,
    *,
    dtype: Any = None,
) -> Call:
    """Add a product of tiles of uint8 and of int8."""

def tile_dot_u8u8(
    sums: ExprLike,
    sums_distance: ExprLike,
    left: ExprLike,
    left_distance: ExprLike,
    right: ExprLike,
    right_distance: ExprLike,
    rows: ExprLike,
    columns: ExprLike,
    steps: ExprLike,
    *,
    dtype: Any = None,
) -> Call:
    """Add a product of tiles of uint8 and of uint8."""

def trunc(x: Any, *, dtype: Any = None) -> PrimExpr:
    """x without its fraction. An integer is returned as it is."""

def truncdiv(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Div of two operands, which are brought to one dtype."""

def truncmod(a: Any, b: Any, *, dtype: Any = None) -> PrimExpr:
    """Mod of two operands, which are brought to one dtype."""

def tvm_access_ptr(
    ptype: Any,
    data: Any,
    offset: Any,
    extent: Any,
    rw_mask: Any,
    *,
    dtype: Any = None,
) -> Call:
    """Pointer to an element of a buffer's data, at an offset."""

def tvm_struct_get(pointer: Any, index: Any, kind: Any, *, dtype: Any = None) -> Call:
    """The field ``"Struct.field"`` of the struct at ``pointer[index]``; arrays and structs are given by their address.

    Without a field, the address of the struct. Raises ValueError for a name that is not declared.
    """

def tvm_struct_set(pointer: Any, index: Any, kind: Any, value: Any, *, dtype: Any = None) -> Call:
    """Set a field. Raises TypeError for a value of another kind than the field's, and for arrays and structs."""

def type_annotation(dtype: Any) -> Call:
    """A dtype, as an argument of an intrinsic."""

def umul_overflows(a: Any, b: Any, *, dtype: Any = None) -> Call:
    """True if the product of two 64-bit integers, taken as unsigned, has more than 64 bits."""

def undef(dtype: Any = 'float32') -> Call:
    """An undefined value."""

def var(dtype: str, name: str = '') -> _Var:
    """A new variable."""

def vector_reduce_add(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """Sum of a vector's lanes, by repeated halving; their number must be a power of two."""

def vector_reduce_and(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """True if all lanes of a vector of bool are."""

def vector_reduce_max(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """Maximum of a vector's lanes, NaN if one is NaN; their number must be a power of two."""

def vector_reduce_min(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """Minimum of a vector's lanes, NaN if one is NaN; their number must be a power of two."""

def vector_reduce_mul(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """Product of a vector's lanes, by repeated halving; their number must be a power of two."""

def vector_reduce_or(x: ExprLike, *, dtype: Any = None) -> PrimExpr:
    """True if some lane of a vector of bool is."""

def where(predicate: Any) -> None:
    """Run the block only where the predicate holds. Raises TypeError unless it is a bool."""

def writes(*regions: Any) -> None:
    """Declare the regions a block writes."""

int2: _IntDtype
int4: _IntDtype
int8: _IntDtype
int16: _IntDtype
int32: _IntDtype
int64: _IntDtype
uint2: _IntDtype
uint4: _IntDtype
uint8: _IntDtype
uint16: _IntDtype
uint32: _IntDtype
uint64: _IntDtype
float16: _Dtype
float32: _Dtype
float64: _Dtype
bfloat16: _Dtype
bool: _Dtype
float8_e3m4: _Dtype
float8_e4m3: _Dtype
float8_e4m3b11fnuz: _Dtype
float8_e4m3fn: _Dtype
float8_e4m3fnuz: _Dtype
float8_e5m2: _Dtype
float8_e5m2fnuz: _Dtype
float8_e8m0fnu: _Dtype
float4_e2m1fn: _Dtype
boolean: _Dtype
int2x2: _IntDtype
int2x4: _IntDtype
int2x8: _IntDtype
int2x16: _IntDtype
int2x32: _IntDtype
int2x64: _IntDtype
int4x2: _IntDtype
int4x4: _IntDtype
int4x8: _IntDtype
int4x16: _IntDtype
int4x32: _IntDtype
int4x64: _IntDtype
int8x2: _IntDtype
int8x4: _IntDtype
int8x8: _IntDtype
int8x16: _IntDtype
int8x32: _IntDtype
int8x64: _IntDtype
int16x2: _IntDtype
int16x4: _IntDtype
int16x8: _IntDtype
int16x16: _IntDtype
int16x32: _IntDtype
int16x64: _IntDtype
int32x2: _IntDtype
int32x4: _IntDtype
int32x8: _IntDtype
int32x16: _IntDtype
int32x32: _IntDtype
int32x64: _IntDtype
int64x2: _IntDtype
int64x4: _IntDtype
int64x8: _IntDtype
int64x16: _IntDtype
int64x32: _IntDtype
int64x64: _IntDtype
uint2x2: _IntDtype
uint2x4: _IntDtype
uint2x8: _IntDtype
uint2x16: _IntDtype
uint2x32: _IntDtype
uint2x64: _IntDtype
uint4x2: _IntDtype
uint4x4: _IntDtype
uint4x8: _IntDtype
uint4x16: _IntDtype
uint4x32: _IntDtype
uint4x64: _IntDtype
uint8x2: _IntDtype
uint8x4: _IntDtype
uint8x8: _IntDtype
uint8x16: _IntDtype
uint8x32: _IntDtype
uint8x64: _IntDtype
uint16x2: _IntDtype
uint16x4: _IntDtype
uint16x8: _IntDtype
uint16x16: _IntDtype
uint16x32: _IntDtype
uint16x64: _IntDtype
uint32x2: _IntDtype
uint32x4: _IntDtype
uint32x8: _IntDtype
uint32x16: _IntDtype
uint32x32: _IntDtype
uint32x64: _IntDtype
uint64x2: _IntDtype
uint64x4: _IntDtype
uint64x8: _IntDtype
uint64x16: _IntDtype
uint64x32: _IntDtype
uint64x64: _IntDtype
float16x2: _Dtype
float16x4: _Dtype
float16x8: _Dtype
float16x16: _Dtype
float16x32: _Dtype
float16x64: _Dtype
float32x2: _Dtype
float32x4: _Dtype
float32x8: _Dtype
float32x16: _Dtype
float32x32: _Dtype
float32x64: _Dtype
float64x2: _Dtype
float64x4: _Dtype
float64x8: _Dtype
float64x16: _Dtype
float64x32: _Dtype
float64x64: _Dtype
bfloat16x2: _Dtype
bfloat16x4: _Dtype
bfloat16x8: _Dtype
bfloat16x16: _Dtype
bfloat16x32: _Dtype
bfloat16x64: _Dtype
