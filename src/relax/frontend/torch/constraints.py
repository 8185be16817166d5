"""Conditions that torch.export puts on the sizes of a program's inputs, as checks of ``main`` and facts for the prover.

    _ = R.assert_op(R.prim_value(s77 <= 128), [R.prim_value(s77)], format="the size s77 of x ... is {}, expected ...")

Ranges are those of ``torch.export.Dim(min=..., max=...)``; guards are comparisons that the module's own code made of
sizes, or `torch._check`. That a size is neither 0 nor 1 is not checked: torch assumes it of each dynamic dimension, and
of sizes that are computed of them, and programs serve these sizes as well. A condition that others imply is not checked
again. A program with a guard that cannot be checked is rejected with E6001.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

from ... import op
from ...expr import PrimValue
from ...ir import Diagnostic, DiagnosticError
from ...prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Sub,
    cast,
    const,
    intrin,
    simplify,
)
from ...prim.expr import BinaryExpr, binary
from ...prim.expr import Var as PrimVar
from ...runtime.records import dataclass
from .emitter import Emitter
from .symbols import UnknownFunction, UnknownSymbol, as_float, linear_form, same_dtype, translate

Sizes: TypeAlias = Mapping[str, Sequence[PrimExpr] | PrimExpr | None]
"""The inputs of a program by name, in order: dimensions of tensors, values of numbers, None for a constant."""

_UNLIMITED = 1 << 62
"""Upper limits from here on are none."""


@dataclass(frozen=True)
class Condition:
    """A condition that holds for all inputs of a program, the text that says so, and the sizes that the text shows."""

    holds: PrimExpr
    text: str
    shown: tuple[PrimExpr, ...]


def check(g: Emitter, found: Sequence[Condition]) -> None:
    """Emit the checks of conditions on the sizes of the inputs, but for those that others imply."""
    for condition in found:
        if g.is_true(condition.holds) is None:
            shown = [PrimValue(value) for value in condition.shown]
            g.builder.emit(op.assert_op(PrimValue(condition.holds), shown, format=condition.text))


def conditions(g: Emitter, program: Any, inputs: Sizes) -> Iterator[Condition]:
    """Yield the conditions that a program puts on its sizes: derived dimensions, ranges, then guards."""
    yield from _multiples(g)
    ranges = list(program.range_constraints.items())
    yield from (found for expr, limits in ranges if (found := _in_range(g, expr, limits, inputs)) is not None)
    for text in getattr(program, "_guards_code", None) or ():
        guard = _Guard(inputs)
        holds = guard.read(text)
        if holds is not None:
            message = guard.message(text)
            for condition in (*guard.divisors, holds):
                yield Condition(condition, message, tuple(guard.used.values()))


def _multiples(g: Emitter) -> Iterator[Condition]:
    """Yield the condition that a dimension such as 8*s is a multiple of 8."""
    for derived in g.derived:
        rest = simplify((derived.var - derived.offset) % derived.factor)
        shown = f"{derived.factor}*{derived.symbol}" + (f" + {derived.offset}" if derived.offset else "")
        text = f"dimension {derived.axis} of {derived.name} is {{}}, expected {shown} for an integer {derived.symbol}"
        yield Condition(rest.equal(const(0, "int64")), text, (derived.var,))


# ------------------------------------------------------------------------------------- ranges


def _in_range(g: Emitter, expr: Any, limits: Any, inputs: Sizes) -> Condition | None:
    """Return the condition that a size is in its range; None if that says nothing, or depends on data."""
    lower, upper = _limit(limits.lower), _limit(limits.upper)
    lower = None if lower is not None and lower <= 2 else lower
    if lower is None and upper is None:
        return None
    form = linear_form(expr)
    try:
        var = next((found.var for found in g.derived if (found.factor, found.symbol, found.offset) == form), None)
        size = translate(expr, g.symbols) if var is None else var
    except (UnknownSymbol, UnknownFunction):
        return None
    if isinstance(size, IntImm):
        return None
    holds = [size >= lower] if lower is not None else []
    holds += [size <= upper] if upper is not None else []
    condition = holds[0] if len(holds) == 1 else holds[0] & holds[1]  # type: ignore[operator]
    expected = f"at least {lower}" if upper is None else f"at most {upper}" if lower is None else f"{lower} to {upper}"
    name = size.name if isinstance(size, PrimVar) else str(expr)
    return Condition(condition, f"{_place(g, size, name, inputs)} is {{}}, expected {expected}", (size,))


def _limit(limit: Any) -> int | None:
    """A limit as an integer; None for infinity."""
    value = int(limit) if getattr(limit, "is_Integer", False) or isinstance(limit, int) else None
    return None if value is None or value >= _UNLIMITED else value


def _place(g: Emitter, size: PrimExpr, name: str, inputs: Sizes) -> str:
    """The place of a size among the inputs, and its name: ``dimension 0 of x (s77)``."""
    for of, dims in inputs.items():
        for axis, dim in enumerate(dims if isinstance(dims, Sequence) else ()):
            if g.same_size(dim, size):
                return f"dimension {axis} of {of} ({name})"
    return f"the size {name}"


# ------------------------------------------------------------------------------------- guards


_OPERATORS: Mapping[type[ast.operator], type[BinaryExpr]] = {ast.Add: Add, ast.Sub: Sub, ast.Mult: Mul}
_DIVISIONS: Mapping[type[ast.operator], type[BinaryExpr]] = {ast.FloorDiv: FloorDiv, ast.Mod: FloorMod, ast.Div: Div}
_COMPARISONS: Mapping[type[ast.cmpop], type[BinaryExpr]] = {
    ast.Eq: EQ,
    ast.NotEq: NE,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
}
_EXTREMES: Mapping[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {"max": intrin.max, "min": intrin.min}
_ROUNDINGS: Mapping[str, Callable[[PrimExpr], PrimExpr]] = {
    "math.trunc": intrin.trunc,
    "math.floor": intrin.floor,
    "math.ceil": intrin.ceil,
    "round": intrin.nearbyint,
}


class _Unread(Exception):
    """A form of a guard that has no counterpart."""


class _Guard:
    """Reads a guard of torch, an expression of Python: ``(L['x'].size()[0] % 8) == 0``."""

    def __init__(self, inputs: Sizes) -> None:
        self.inputs = inputs
        self.used: dict[str, PrimExpr] = {}
        """The sizes that the guard reads, by the text that stands for them."""
        self.divisors: list[PrimExpr] = []
        """Conditions that divisors are positive, without which the guard has no value."""

    def read(self, text: str) -> PrimExpr | None:
        """Return the condition; None for one without dynamic sizes, and for one that `_is_assumed`.

        Raises DiagnosticError for a form that is not read: the program would be wrong where the guard does not hold.
        """
        try:
            tree = ast.parse(text, mode="eval").body
            if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and _is_assumed(tree):
                return None
            condition = self._condition(tree)
        except (SyntaxError, _Unread):
            message = f"the guard {text} of torch.export is not supported"
            hint = "export the module without a branch on these sizes, or check them yourself: check_sizes=False"
            raise DiagnosticError(Diagnostic("E6001", message, hint=hint)) from None
        return condition if any(isinstance(size, PrimVar) for size in self.used.values()) else None

    def _condition(self, tree: ast.expr) -> PrimExpr:
        match tree:
            case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(o) in _COMPARISONS for o in ops):
                numbers = [self._number(item) for item in (left, *comparators)]
                pairs = zip(ops, numbers, numbers[1:], strict=False)
                return _all(binary(_COMPARISONS[type(o)], *same_dtype(a, b)) for o, a, b in pairs)
            case ast.BoolOp(op=ast.And(), values=values):
                return _all(map(self._condition, values))
            case ast.BoolOp(op=ast.Or(), values=values):
                return ~_all(~self._condition(value) for value in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self._condition(operand)
            case _:
                raise _Unread

    def _number(self, tree: ast.expr) -> PrimExpr:
        match tree:
            case ast.Constant(value=int(value)):
                return const(int(value), "int64")
            case ast.Constant(value=float(value)):
                return const(value, "float64")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self._number(operand)
                return const(0, str(value.dtype)) - value
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATORS:
                return binary(_OPERATORS[type(operation)], *same_dtype(self._number(left), self._number(right)))
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _DIVISIONS:
                return self._quotient(type(operation), self._number(left), self._number(right))
            case ast.Call(func=ast.Name(id=name), args=[first, *others]) if name in _EXTREMES and others:
                numbers = [self._number(item) for item in (first, *others)]
                return reduce(lambda a, b: _EXTREMES[name](*same_dtype(a, b)), numbers)
            case ast.Call(func=function, args=[operand]) if ast.unparse(function) == "torch.sym_float":
                return as_float(self._number(operand))
            case ast.Call(func=function, args=[operand]) if ast.unparse(function) in _ROUNDINGS:
                value = self._number(operand)
                return cast("int64", _ROUNDINGS[ast.unparse(function)](value)) if value.dtype.is_float else value
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[]),
                slice=ast.Constant(value=int(axis)),
            ):
                return self._size(tensor, axis)
            case ast.Subscript() | ast.Attribute():
                return self._input(tree)
            case _:
                raise _Unread

    def _quotient(self, operation: type[ast.operator], a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Divide by a divisor, or by 1 where it is not positive, which `divisors` then excludes."""
        if b.dtype.is_float or (a.dtype.is_float and operation is not ast.Div):
            raise _Unread
        if not (isinstance(b, IntImm) and b.value > 0):
            self.divisors.append(b > 0)
            b = intrin.max(b, const(1, "int64"))
        if operation is ast.Div:
            a, b = as_float(a), as_float(b)
        return binary(_DIVISIONS[operation], a, b)

    def _size(self, tensor: ast.expr, axis: int) -> PrimExpr:
        name = self.name(tensor)
        dims = self.inputs[name]
        if not isinstance(dims, Sequence) or not axis < len(dims):
            raise _Unread
        return self.used.setdefault(f"{name}.shape[{axis}]", dims[axis])

    def _input(self, tree: ast.expr) -> PrimExpr:
        name = self.name(tree)
        value = self.inputs[name]
        if not isinstance(value, PrimExpr):
            raise _Unread
        return self.used.setdefault(name, value)

    def name(self, tree: ast.expr) -> str:
        """Return the name of the input that ``L['x']`` or ``L['d']['x']`` is; ``L['flat_args'][0]`` is the first one.

        Torch numbers an input whose name another one has: such names are not read, as either may be meant.
        """
        words = _path(tree)
        names = list(self.inputs)
        if words[0] == "flat_args" and len(words) == 2 and words[1].isdigit() and int(words[1]) < len(names):
            return names[int(words[1])]
        name = "_".join(words)
        if name not in self.inputs or any(re.fullmatch(rf"{name}_\d+", other) for other in names):
            raise _Unread
        return name

    def message(self, text: str) -> str:
        """Return the message of a guard that was read: what the program is for, and the sizes that were found."""

        def named(match: re.Match[str]) -> str:
            return self.name(ast.parse(match[1], mode="eval").body) + (".shape" if match[2] else "")

        shown = re.sub(r"(L(?:\['\w+'\]|\[\d+\]|\.(?!size\b)\w+)+)(\.size\(\))?", named, text)
        shown = shown.replace("{", "{{").replace("}", "}}")
        found = ", ".join(f"{name} = {{}}" for name in self.used)
        return f"the program is for inputs with {shown}; found {found}"


def _all(conditions: Iterable[PrimExpr]) -> PrimExpr:
    return reduce(lambda a, b: a & b, conditions)


def _is_assumed(tree: ast.Compare) -> bool:
    """True for conditions that torch's own kernels make of sizes, and under which the program is as right as without.

    They are ``size != 0``, ``size != 1``, ``size > 1`` and ``size >= 2`` of an input's or a computed size, and a
    computed size that differs from another: the kernels ask whether tensors are views of each other or broadcast. A
    remainder of an input's size by a number is not such a size, nor is a number among the inputs.
    """
    limits = {(ast.NotEq, 0), (ast.NotEq, 1), (ast.Gt, 0), (ast.Gt, 1), (ast.GtE, 1), (ast.GtE, 2)}
    limit, nodes = tree.comparators[0], list(ast.walk(tree.left))
    if not any(isinstance(node, ast.Attribute) and node.attr == "size" for node in nodes):
        return False
    if isinstance(tree.ops[0], ast.NotEq) and not (_is_written(tree.left) and _is_written(limit)):
        return True
    if any(isinstance(node, ast.Mod) for node in nodes):
        return False
    return isinstance(limit, ast.Constant) and (type(tree.ops[0]), limit.value) in limits


def _is_written(tree: ast.expr) -> bool:
    """True for a number, an input's size or value, and its remainder by a number."""
    match tree:
        case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant()):
            return _is_written(left)
        case _:
            return isinstance(tree, (ast.Constant, ast.Subscript, ast.Attribute))


def _path(tree: ast.expr) -> list[str]:
    """The words of which torch makes the name of an input: ``L['d']['x']`` is d_x."""
    match tree:
        case ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=key)):
            return [_word(key)]
        case ast.Subscript(value=value, slice=ast.Constant(value=key)):
            return [*_path(value), _word(key)]
        case ast.Attribute(value=value, attr=key):
            return [*_path(value), _word(key)]
        case _:
            raise _Unread


def _word(key: object) -> str:
    return re.sub(r"[^a-zA-Z0-9]", "_", str(key)).lower()
