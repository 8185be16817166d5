"""Calls of intrinsics: a table from names to code-writing functions.

Functions of float32 are formulas of our own (see `math`), which vectorise; those of float64 call libm. Small floats are
computed in float32 and rounded.
"""

from __future__ import annotations

import difflib
import math as python_math
import re
from collections.abc import Callable
from typing import Final, cast

from ..ir import GlobalVar
from ..native import math, powers
from ..native.builder import FunctionBuilder, vector
from ..native.formula import Val, in_parts, suffix
from ..native.piecewise import LANES
from ..native.types import element_type, is_small_float, is_small_integer, memory_element, memory_type, register_type
from ..prim import Call, IntImm, PrimExpr, StringImm, Var
from ..prim.instructions import REDUCTIONS
from ..tir import BufferLoad
from ..tir.buffer import zero_of
from . import cell_calls, dot_products, pointers, tile_products
from .choice import choice
from .context import Context, Rule
from .convert import rounded
from .expr import nan_extremum
from .index import index
from .memory import any_pointer, element_pointer, from_memory, to_memory
from .views import require_offset

_EXTERN_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_PURE_LIBM: Final = "nounwind willreturn memory(none)"


def _call(cx: Context, expr: PrimExpr) -> Val:
    call = cast(Call, expr)
    if isinstance(call.op, GlobalVar):
        cx.report("E5903", f"a call of {call.op.name_hint} has no value; evaluate it as a statement", call)
        return cx.anything(call.dtype)
    rule = _TABLE.get(call.intrinsic)
    if rule is None:
        close = difflib.get_close_matches(call.intrinsic, _TABLE, 3)
        hint = f"similar ones: {', '.join(close)}" if close else ""
        cx.report("E5903", f"there is no code for the intrinsic {call.op.name}", call, hint)
        return cx.anything(call.dtype)
    return rule(cx, call)


Intrinsic = Callable[[Context, Call], Val]

# ------------------------------------------------------------------------------------- floating point


def _of_floats(function: Callable[[Val], Val]) -> Intrinsic:
    """Writer of a function of one float, rounded to the dtype."""

    def write(cx: Context, call: Call) -> Val:
        return rounded(cx, call.dtype, function(cx.value(call.args[0])))

    return write


def _elementary(name: str) -> Intrinsic:
    own = math.FLOAT32.get(name)

    def write(cx: Context, call: Call) -> Val:
        x = cx.value(call.args[0])
        if own is not None and x.type == "float":
            return rounded(cx, call.dtype, _call_own(name, own, x))
        if name == "sigmoid":
            return _sigmoid(x)
        if name == "exp10":
            return libm("pow", x.constant(10.0), x)
        return rounded(cx, call.dtype, libm(name, x))

    return write


def _call_own(name: str, formula: Callable[..., Val], *arguments: Val) -> Val:
    """Call the module's own copy of a function, which LLVM inlines before it vectorises.

    On targets whose 16-lane vectors have instructions for table look-ups and powers of 2 (`ModuleBuilder.math`), other
    vectors are computed in parts of 16 lanes if the function has one operand; formulas of two use neither.
    """
    x = arguments[0]
    module, t = x.b.module, x.full_type
    symbol = f"relax.{name}.{suffix(x.type, x.lanes)}"
    names = [f"%{letter}" for letter in "xy"[: len(arguments)]]

    def write() -> None:
        parameters = ", ".join(f"{t} {name}" for name in names)
        b = FunctionBuilder(module, f"define internal {t} @{symbol}({parameters}) alwaysinline")
        values = [Val(b, x.type, x.lanes, name) for name in names]
        in_vectors = len(values) == 1 and module.math is not None and x.lanes not in (1, LANES)
        result = in_parts(values[0], LANES, formula) if in_vectors else formula(*values)
        b.end(f"ret {t} {result.ref}")
        module.define(b)

    operands = ", ".join(f"{t} {argument.ref}" for argument in arguments)
    return x.make(f"call {t} {module.helper(symbol, write)}({operands})")


def _sigmoid(x: Val) -> Val:
    e = libm("exp", -x.abs())
    return x.ge(0.0).choose(x.constant(1.0), e) / (e + 1.0)


def libm(name: str, *arguments: Val) -> Val:
    """Call a C library function lane by lane."""
    x = arguments[0]
    symbol = name if x.type == "double" else f"{name}f"
    function = x.b.module.declare(symbol, x.type, ", ".join([x.type] * len(arguments)), _PURE_LIBM)
    if x.lanes == 1:
        return x.make(f"call {x.type} {function}({', '.join(f'{a.type} {a.ref}' for a in arguments)})")
    result = "poison"
    for lane in range(x.lanes):
        parts = [x.b.op(f"extractelement {a.full_type} {a.ref}, i64 {lane}") for a in arguments]
        one = x.b.op(f"call {x.type} {function}({', '.join(f'{x.type} {part}' for part in parts)})")
        result = x.b.op(f"insertelement {x.full_type} {result}, {x.type} {one}, i64 {lane}")
    return Val(x.b, x.type, x.lanes, result)


def _of_two_floats(function: Callable[[Val, Val], Val]) -> Intrinsic:
    def write(cx: Context, call: Call) -> Val:
        a, b = (cx.value(arg) for arg in call.args)
        return rounded(cx, call.dtype, function(a, b))

    return write


def _elementary_of_two(name: str) -> Intrinsic:
    own = math.FLOAT32_PAIRS[name]

    def compute(a: Val, b: Val) -> Val:
        if a.type != "float":
            return libm(name, a, b)
        fixed = powers.fixed_power(a, b) if name == "pow" else None
        return _call_own(name, own, a, b) if fixed is None else fixed

    return _of_two_floats(compute)


def _llvm(name: str) -> Intrinsic:
    return _of_floats(lambda x: x.intrinsic(name))


def _is_infinite(x: Val) -> Val:
    return x.abs().eq(python_math.inf)


def _test(function: Callable[[Val], Val]) -> Intrinsic:
    return lambda cx, call: function(cx.value(call.args[0]))


def _abs(cx: Context, call: Call) -> Val:
    x = cx.value(call.args[0])
    if x.is_float:
        return x.abs()
    return _with_flag(x, "abs")


# ------------------------------------------------------------------------------------- integers


def _with_flag(x: Val, name: str) -> Val:
    """Call an LLVM intrinsic whose second operand (undefined result for a special input) is false."""
    t = x.full_type
    function = x.b.module.intrinsic(f"llvm.{name}.{suffix(x.type, x.lanes)}", t, t, "i1")
    return x.make(f"call {t} {function}({t} {x.ref}, i1 false)")


def _clz(cx: Context, call: Call) -> Val:
    return _with_flag(cx.value(call.args[0]), "ctlz").to(element_type(call.dtype), signed=False)


def _bitwise(name: str) -> Intrinsic:
    def write(cx: Context, call: Call) -> Val:
        a, b = (cx.value(arg) for arg in call.args)
        return a.make(f"{name} {a.full_type} {a.ref}, {b.ref}")

    return write


def _bitwise_not(cx: Context, call: Call) -> Val:
    x = cx.value(call.args[0])
    return x ^ (1 if x.type == "i1" else -1)


def _shift(left: bool) -> Intrinsic:
    """Writer of shifts. Beyond the width they yield 0, or the sign in every bit, as repeated 1-bit shifts do."""

    def write(cx: Context, call: Call) -> Val:
        a, n = (cx.value(arg) for arg in call.args)
        bits = call.dtype.bits
        inside = n.compare("", "ult", bits)
        amount = inside.choose(n, bits - 1)
        if not left and call.dtype.is_int:
            return a >> amount
        shifted = a << amount if left else a.lshr(amount)
        return inside.choose(shifted, a.constant(0))

    return write


# ------------------------------------------------------------------------------------- the rest


def _likely(cx: Context, call: Call) -> Val:
    x = cx.value(call.args[0])
    if x.lanes > 1:
        return x
    function = cx.b.module.intrinsic("llvm.expect.i1", "i1", "i1", "i1")
    return x.make(f"call i1 {function}(i1 {x.ref}, i1 true)")


def _if_then_else(cx: Context, call: Call) -> Val:
    return choice(cx, call.args[0], call.args[1], call.args[2])


_POINTERS: Final = "view the data of a buffer (T.decl_buffer(shape, data=A.data)), or pass the pointer as a T.handle"


def _reinterpret(cx: Context, call: Call) -> Val:
    source, target = call.args[0].dtype, call.dtype
    if cx.plain and source.is_handle != target.is_handle:
        return pointers.reinterpreted(cx, call)
    if source.is_handle or target.is_handle:
        cx.report("E5903", "reinterpret: a pointer is no number, and a number is no pointer", call, _POINTERS)
        return cx.anything(target)
    value = cx.value(call.args[0])
    if source.is_padded or target.is_padded:
        if source.lanes != target.lanes:
            hint = "reinterpret lanes of as many bits"
            cx.report("E5903", f"reinterpret: a {source!s} is no {target!s} in memory", call, hint)
            return cx.anything(target)
        return from_memory(cx, target, to_memory(cx, source, value))
    if is_small_float(source):
        value = cx.unit.small_floats.encode(source, value)
    ref = cx.b.op(f"bitcast {value.full_type} {value.ref} to {memory_type(target)}")
    element = memory_type(target.element_of)
    return from_memory(cx, target, Val(cx.b, element, max(target.lanes, 1), ref))


def _extern(pure: bool) -> Intrinsic:
    def write(cx: Context, call: Call) -> Val:
        name = call.args[0]
        if cx.plain and isinstance(name, StringImm):
            done = pointers.called_by_symbol(cx, call)
            if done is not None:
                return done
        if not isinstance(name, StringImm) or not _EXTERN_NAME.fullmatch(name.value):
            cx.report("E5903", "call_extern: the first argument must be the name of a C function", call)
            return cx.anything(call.dtype)
        if name.value in cx.unit.symbols:
            message = f"call_extern {name.value}: this is no C function, but one that the module itself defines"
            cx.report("E5909", message, call, "call it by its name in the module")
        for arg in (*call.args[1:], call):
            if arg is not call or not call.dtype.is_void:
                _check_extern(cx, call, name.value, arg)
        values = [_extern_argument(cx, arg) for arg in call.args[1:]]
        attributes = _PURE_LIBM if pure else "nounwind"
        result = _extern_type(call)
        parameters = ", ".join(text.rsplit(" ", 1)[0] for text in values)
        function = cx.b.module.declare(name.value, result, parameters, attributes)
        text = f"call {result} {function}({', '.join(values)})"
        if not pure:
            cx.forget()
        if result == "void":
            cx.b.do(text)
            return cx.i64(0)
        value = Val(cx.b, result, 1, cx.b.op(text))
        return value.ne(0) if call.dtype.is_bool else value

    return write


def _check_extern(cx: Context, call: Call, name: str, arg: PrimExpr) -> None:
    if is_small_float(arg.dtype) or is_small_integer(arg.dtype) or arg.dtype.lanes > 1:
        cx.report(
            "E5903",
            f"call_extern {name}: a C function cannot take or return a {arg.dtype!s}",
            call,
            "cast it to int32" if is_small_integer(arg.dtype) else "cast it to float32",
        )


def _extern_type(call: Call) -> str:
    if call.dtype.is_void:
        return "void"
    return "i8" if call.dtype.is_bool else register_type(call.dtype)


def _extern_argument(cx: Context, arg: PrimExpr) -> str:
    """C ABI type, extension and operand of an argument."""
    value = cx.value(arg)
    if arg.dtype.is_bool:
        return f"i8 zeroext {value.to('i8', signed=False).ref}"
    if arg.dtype.is_integer and arg.dtype.bits < 32:
        return f"{value.type} {'zeroext' if arg.dtype.is_uint else 'signext'} {value.ref}"
    return f"{vector(value.type, value.lanes)} {value.ref}"


def _assume(cx: Context, call: Call) -> Val:
    """Ignore the assumption: relying on a wrong one would be undefined behaviour."""
    return cx.value(IntImm("bool", 1))


def _undef(cx: Context, call: Call) -> Val:
    return cx.value(zero_of(call.dtype))


def _address_of(cx: Context, call: Call) -> Val:
    if isinstance(call.args[0], Call):
        return pointers.field_address(cx, call.args[0])
    load = cast(BufferLoad, call.args[0])
    return Val(cx.b, "ptr", 1, element_pointer(cx, load.buffer, load.indices))


def _access_ptr(cx: Context, call: Call) -> Val:
    element, offset = memory_element(call.args[0].dtype), index(cx, call.args[2])
    data = cx.value(call.args[1])
    lanes = max(call.args[0].dtype.lanes, 1)
    if isinstance(call.args[1], Var):
        require_offset(cx, call.args[1], call.args[0].dtype, offset)
    at = offset if lanes == 1 else offset * lanes
    return Val(cx.b, "ptr", 1, cx.b.op(f"getelementptr {element}, ptr {data.ref}, i64 {at.ref}"))


def _fma(cx: Context, call: Call) -> Val:
    a, b, c = (cx.value(arg) for arg in call.args)
    return a.intrinsic("fma", b, c)


def _reduce(cx: Context, call: Call) -> Val:
    """Reduce lanes by halving the vector; conditions by one instruction."""
    x, kind = cx.value(call.args[0]), call.intrinsic.removeprefix("vector_reduce_")
    if kind in ("and", "or"):
        function = cx.b.module.intrinsic(f"llvm.vector.reduce.{kind}.v{x.lanes}i1", "i1", x.full_type)
        return Val(x.b, "i1", 1, x.b.op(f"call i1 {function}({x.full_type} {x.ref})"))
    while x.lanes > 1:
        half = x.lanes // 2
        low, high = (_part(x, start, half) for start in (0, half))
        x = _combined(kind, low, high, call.dtype.is_uint)
    return x


def _combined(kind: str, a: Val, b: Val, unsigned: bool) -> Val:
    if kind in ("add", "mul"):
        return a + b if kind == "add" else a * b
    if a.is_float:
        return nan_extremum(a, b, f"{kind}imum")
    return a.intrinsic(f"{'u' if unsigned else 's'}{kind}", b)


def _part(x: Val, start: int, count: int) -> Val:
    """Lanes [start, start + count) of a vector."""
    if count == 1:
        return Val(x.b, x.type, 1, x.b.op(f"extractelement {x.full_type} {x.ref}, i64 {start}"))
    lanes = ", ".join(f"i32 {i}" for i in range(start, start + count))
    text = f"shufflevector {x.full_type} {x.ref}, {x.full_type} poison, <{count} x i32> <{lanes}>"
    return Val(x.b, x.type, count, x.b.op(text))


def _prefetch(cx: Context, call: Call) -> Val:
    load = cast(BufferLoad, call.args[0])
    rw, locality = (cast(IntImm, arg).value for arg in call.args[1:])
    pointer = any_pointer(cx, load.buffer, load.indices)
    function = cx.b.module.intrinsic("llvm.prefetch.p0", "void", "ptr", "i32", "i32", "i32")
    cx.b.do(f"call void {function}(ptr {pointer}, i32 {rw}, i32 {locality}, i32 1)")
    return cx.i64(0)


_TABLE: Final[dict[str, Intrinsic]] = {
    **{name: _elementary(name) for name in (
        "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "erfc", "sin", "cos",
        "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    )},
    **{name: _llvm(name) for name in ("sqrt", "floor", "ceil", "trunc", "nearbyint", "round")},
    "rsqrt": _of_floats(lambda x: 1.0 / x.intrinsic("sqrt")),
    "fabs": _abs, "abs": _abs,
    **{name: _elementary_of_two(name) for name in math.FLOAT32_PAIRS},
    "fmod": _of_two_floats(lambda a, b: a.make(f"frem {a.full_type} {a.ref}, {b.ref}")),
    "copysign": _of_two_floats(lambda a, b: a.copysign(b)),
    "isnan": _test(lambda x: x.is_nan()),
    "isinf": _test(_is_infinite),
    "isfinite": _test(lambda x: x.abs().lt(python_math.inf)),
    "popcount": lambda cx, call: cx.value(call.args[0]).intrinsic("ctpop"),
    "clz": _clz,
    "bitwise_and": _bitwise("and"), "bitwise_or": _bitwise("or"), "bitwise_xor": _bitwise("xor"),
    "bitwise_not": _bitwise_not, "shift_left": _shift(True), "shift_right": _shift(False),
    "likely": _likely, "if_then_else": _if_then_else, "reinterpret": _reinterpret,
    "call_extern": _extern(False), "call_pure_extern": _extern(True),
    "fma": _fma, **{f"vector_reduce_{kind}": _reduce for kind in REDUCTIONS}, "prefetch": _prefetch,
    **dot_products.TABLE, **tile_products.TABLE, **cell_calls.TABLE, **pointers.TABLE,
    "assume": _assume, "undef": _undef, "address_of": _address_of, "tvm_access_ptr": _access_ptr,
}  # fmt: skip

RULES: Final[dict[type, Rule]] = {Call: _call}
