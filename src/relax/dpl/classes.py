"""Pattern classes of Relax expressions, as a grammar. The functions of `relax.dpl.pattern` construct them.

    DFPattern ::= WildcardPattern | ExprPattern(expr) | VarPattern(name) | DataflowVarPattern(name)
                | GlobalVarPattern(name) | ExternFuncPattern(name) | ConstantPattern | PrimArrPattern(fields)
                | CallPattern(op, args) | TuplePattern(fields) | UnorderedTuplePattern(fields)
                | TupleGetItemPattern(tuple, index?) | FunctionPattern(params, body)
                | OrPattern(left, right) | AndPattern(left, right) | NotPattern(reject)
                | AttrPattern(pattern, attrs) | StructInfoPattern(pattern, struct_info)
                | DataTypePattern(pattern, dtype) | ShapePattern(pattern, shape)

    x, w = wildcard(), wildcard()
    dense = is_op("relax.matmul")(x, w)
    with_relu = dense | is_op("relax.nn.relu")(dense)
    with_relu.match(value, get_var2val(function))

Patterns are compared by identity: all occurrences of one pattern object must match the same value. Variables are
resolved to the values they are bound to, as far as `var2val` has them. The operands of a commutative operator may come
in either order. Matching backtracks over all alternatives. `used_by`, `only_used_by`, ``^`` and ``>>`` relate patterns
that a `PatternContext` matches together in a block (`relax.dpl.context`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from ..analysis.variables import get_var2val
from ..expr import Call, Constant, DataflowVar, ExternFunc, Function, SeqExpr, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir import DataType, GlobalVar, Op, RelaxExpr, StructInfo, structural_equal
from ..op import Operator, operator_of
from ..op.operands import is_absent
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from .compare import dims_of, same_attr, same_dims
from .constraints import SameShapeConstraint, Use, active_rules
from .matching import Match, Pattern


class DFPattern(Pattern):
    """Base class of patterns, with operators that combine and match them."""

    def __init__(self, *parts: DFPattern) -> None:
        self.parts = parts
        rules = active_rules()
        if rules is not None:
            rules.built(self, parts)

    # -- combining

    def __call__(
        self, *args: DFPattern, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call whose callee this pattern matches; `varg_default_wildcard` allows any further arguments.

        `add_constraint` exists for compatibility with TVM and is ignored: parts of a pattern are never matched
        separately.
        """
        return CallPattern(self, args, varg_default_wildcard)

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def __add__(self, other: DFPattern) -> CallPattern:
        return _operator("relax.add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return _operator("relax.subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return _operator("relax.multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return _operator("relax.divide")(self, other)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> OrPattern:
        """This pattern, or one built from it: ``conv.optional(lambda y: is_op("relax.nn.relu")(y))``."""
        return OrPattern(self, option_constructor(self))

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """This pattern, restricted to calls, operators or functions with these attributes."""
        return AttrPattern(self, attrs)

    def has_struct_info(self, struct_info: StructInfo) -> StructInfoPattern:
        """This pattern, restricted to values proved to have some struct info."""
        return StructInfoPattern(self, struct_info)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """This pattern, restricted to values of a dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """This pattern, restricted to values proved to have a shape."""
        return ShapePattern(self, shape)

    def same_shape_as(self, *args: DFPattern) -> DFPattern:
        """Require in the open PatternContext that this pattern and `args` match values of one shape; returns this
        pattern.
        """
        SameShapeConstraint(self, *args)
        return self

    # -- relating

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """Require that this pattern's value is an operand of the other's, at position `index` or anywhere (-1)."""
        return _followed(PatternSeq([self]), other, index, only=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """Like `used_by`, and require that the value has no other use."""
        return _followed(PatternSeq([self]), other, index, only=True)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def fork_to(self, *args: DFPattern | PatternSeq) -> None:
        """Require that this pattern's value is an operand of each of the others."""
        for other in args:
            self.used_by(other)

    def dup(self) -> DFPattern:
        """Deep copy of a pattern, which may match another value."""
        return self._copy({})

    def _copy(self, copies: dict[DFPattern, DFPattern]) -> DFPattern:
        if self not in copies:
            new = copies[self] = object.__new__(type(self))
            for name, value in vars(self).items():
                setattr(new, name, _copied(value, copies))
            rules = active_rules()
            if rules is not None:
                rules.built(new, new.parts)
        return copies[self]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name != "parts")
        return f"{type(self).__name__}({fields})"


def _copied(value: Any, copies: dict[DFPattern, DFPattern]) -> Any:
    """Copy a field of a pattern, including patterns in it."""
    if isinstance(value, DFPattern):
        return value._copy(copies)  # pyright: ignore[reportPrivateUsage]
    if isinstance(value, tuple):
        return tuple(_copied(item, copies) for item in cast("tuple[Any, ...]", value))
    return value


class _Computed(DFPattern):
    """Base class of patterns of values that a binding computes."""

    @property
    def is_computed(self) -> bool:
        return True


class PatternSeq:
    """A chain of patterns, each used by the next; ``^`` and ``>>`` append another."""

    def __init__(self, patterns: Sequence[DFPattern], only_use: bool = False) -> None:
        self.patterns = list(patterns)
        self.uses: list[Use] = []
        """Kind of use of each pattern by the next."""
        for first, second in itertools.pairwise(self.patterns):
            self.uses.append(_related(first, second, -1, only_use))

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def __len__(self) -> int:
        return len(self.patterns)

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """Require that the last pattern's value is an operand of the other's first."""
        return _followed(self, other, index, only=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """Like `used_by`, and require that the value has no other use."""
        return _followed(self, other, index, only=True)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def dup(self) -> PatternSeq:
        """Deep copy of the chain."""
        new = PatternSeq([pattern.dup() for pattern in self.patterns[:1]])
        for pattern, use in zip(self.patterns[1:], self.uses, strict=True):
            new = _followed(new, pattern.dup(), use.position, use.only)
        return new


def _operator(name: str) -> ExprPattern:
    return ExprPattern(Op.get(name))


def _related(used: DFPattern, user: DFPattern, index: int, only: bool) -> Use:
    use = Use(used, user, index, only)
    rules = active_rules()
    if rules is not None:
        rules.add_use(use)
    return use


def _followed(chain: PatternSeq, other: DFPattern | PatternSeq, index: int, only: bool) -> PatternSeq:
    behind = other if isinstance(other, PatternSeq) else PatternSeq([other])
    result = PatternSeq([])
    result.patterns = [*chain.patterns, *behind.patterns]
    result.uses = [*chain.uses, _related(chain[-1], behind[0], index, only), *behind.uses]
    return result


# ---------------------------------------------------------------------------------------- leaves


class WildcardPattern(DFPattern):
    """Any expression."""

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        yield


class ExprPattern(DFPattern):
    """An expression structurally equal to a given one; variables compare by identity."""

    def __init__(self, expr: RelaxExpr) -> None:
        super().__init__()
        self.expr = expr

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        same = match.same if isinstance(self.expr, Var) else structural_equal
        if expr is self.expr or same(self.expr, match.value(expr)):
            yield


class _Named(DFPattern):
    """Base class of patterns of named values; an empty name matches any."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = name

    def named(self, name: str) -> Iterator[None]:
        if self.name in ("", name):
            yield


class VarPattern(_Named):
    """A variable, optionally of a given name."""

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        if isinstance(expr, Var):
            yield from self.named(expr.name_hint)


class DataflowVarPattern(_Named):
    """A dataflow variable, optionally of a given name."""

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        if isinstance(expr, DataflowVar):
            yield from self.named(expr.name_hint)


class GlobalVarPattern(_Named):
    """A function of the module, optionally of a given name."""

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        if isinstance(expr, GlobalVar):
            yield from self.named(expr.name_hint)


class ExternFuncPattern(_Named):
    """A packed function."""

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        callee = match.value(expr)
        if isinstance(callee, ExternFunc):
            yield from self.named(callee.global_symbol)


class ConstantPattern(DFPattern):
    """A tensor constant."""

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        if isinstance(match.value(expr), Constant):
            yield


class PrimArrPattern(DFPattern):
    """A shape proved to be equal to a given one."""

    def __init__(self, fields: Sequence[Any]) -> None:
        super().__init__()
        self.fields = ShapeExpr(tuple(fields)).values

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        info = expr.struct_info_
        if isinstance(info, ShapeStructInfo) and same_dims(self.fields, info.values):
            yield


# ----------------------------------------------------------------------------- expressions with parts


class CallPattern(_Computed):
    """A call whose callee and arguments match.

    Omitted optional operands are not arguments. The two operands of a commutative operator are tried in both orders.
    """

    def __init__(self, op: DFPattern, args: Sequence[DFPattern], varg_default_wildcard: bool = False) -> None:
        super().__init__(op, *args)
        self.op = op
        self.args = tuple(args)
        self.varg_default_wildcard = varg_default_wildcard

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        call = match.value(expr)
        if not isinstance(call, Call):
            return
        args = list(call.args)
        while len(args) > len(self.args) and is_absent(args[-1]):
            args.pop()
        if len(args) < len(self.args) or (len(args) > len(self.args) and not self.varg_default_wildcard):
            return
        for _ in match.fit(self.op, call.op):
            yield from match.fit_all(self.args, args)
            operator = operator_of(call)
            if operator is not None and operator.commutative and len(self.args) == 2 == len(args):
                yield from match.fit_all(self.args, args[::-1])


class TuplePattern(_Computed):
    """A tuple whose fields match, in order."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        super().__init__(*fields)
        self.fields = tuple(fields)

    def __getitem__(self, index: int) -> TupleGetItemPattern:
        return TupleGetItemPattern(self, index)

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        value = match.value(expr)
        if isinstance(value, Tuple) and len(value.fields) == len(self.fields):
            yield from match.fit_all(self.fields, value.fields)


class UnorderedTuplePattern(_Computed):
    """A tuple whose fields match in some order."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        super().__init__(*fields)
        self.fields = tuple(fields)

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        value = match.value(expr)
        if isinstance(value, Tuple) and len(value.fields) == len(self.fields):
            yield from self._some_order(self.fields, list(value.fields), match)

    def _some_order(self, patterns: Sequence[DFPattern], fields: list[RelaxExpr], match: Match) -> Iterator[None]:
        if not patterns:
            yield
            return
        for at, field in enumerate(fields):
            for _ in match.fit(patterns[0], field):
                yield from self._some_order(patterns[1:], fields[:at] + fields[at + 1 :], match)


class TupleGetItemPattern(_Computed):
    """A field of a matching tuple: that of `index`, or any (None)."""

    def __init__(self, tuple: DFPattern, index: int | None = None) -> None:
        super().__init__(tuple)
        self.tuple = tuple
        self.index = index

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        value = match.value(expr)
        if isinstance(value, TupleGetItem) and self.index in (None, value.index):
            yield from match.fit(self.tuple, value.tuple_value)


class FunctionPattern(DFPattern):
    """A function whose parameters and result match."""

    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None:
        super().__init__(*params, body)
        self.params = tuple(params)
        self.body = body

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        value = match.value(expr)
        if not isinstance(value, Function) or len(value.params) != len(self.params):
            return
        result = value.body.body if isinstance(value.body, SeqExpr) else value.body
        outer = match.values
        match.values = {**outer, **get_var2val(value)}
        for _ in match.fit_all((*self.params, self.body), (*value.params, result)):
            yield
        match.values = outer


# ------------------------------------------------------------------------------------- combinations


class OrPattern(DFPattern):
    """Alternative of two patterns; the left one is tried first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right

    @property
    def is_computed(self) -> bool:
        return all(part.is_computed for part in self.parts)

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        yield from match.fit(self.left, expr)
        yield from match.fit(self.right, expr)


class AndPattern(DFPattern):
    """Conjunction of two patterns."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right

    @property
    def is_computed(self) -> bool:
        return any(part.is_computed for part in self.parts)

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        yield from match.fit_all((self.left, self.right), (expr, expr))


class NotPattern(DFPattern):
    """Negation: matches everything that another pattern does not."""

    def __init__(self, reject: DFPattern) -> None:
        super().__init__(reject)
        self.reject = reject

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        inner = Match(match.values)
        inner.matched.update(match.matched)
        if next(inner.fit(self.reject, expr), self) is self:
            yield


class _Refined(DFPattern):
    """Base class of patterns that restrict another one."""

    def __init__(self, pattern: DFPattern) -> None:
        super().__init__(pattern)
        self.pattern = pattern

    @property
    def is_computed(self) -> bool:
        return all(part.is_computed for part in self.parts)

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        if self.holds(expr, match):
            yield from match.fit(self.pattern, expr)

    def holds(self, expr: RelaxExpr, match: Match) -> bool:
        raise NotImplementedError


class AttrPattern(_Refined):
    """A call, operator or function with given attribute values."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        super().__init__(pattern)
        self.attrs = dict(attrs)

    def holds(self, expr: RelaxExpr, match: Match) -> bool:
        value = match.value(expr)
        if isinstance(value, Function):
            return all(k in value.attrs and same_attr(v, value.attrs[k]) for k, v in self.attrs.items())
        if isinstance(value, Op):
            return all(value.has_attr(k) and same_attr(v, value.get_attr(k)) for k, v in self.attrs.items())
        attrs = value.attrs if isinstance(value, Call) else None
        return attrs is not None and all(hasattr(attrs, k) and _is_spelled(attrs, k, v) for k, v in self.attrs.items())


def _is_spelled(attrs: Any, name: str, expected: Any) -> bool:
    """True if an attribute has the expected value, in any spelling that its operator accepts."""
    actual = getattr(attrs, name)
    if same_attr(expected, actual) or not isinstance(attrs, Operator):
        return same_attr(expected, actual)
    try:
        return same_attr(attrs.spelled(name, expected), actual)
    except (TypeError, ValueError):
        return False


class StructInfoPattern(_Refined):
    """A value proved to have some struct info."""

    def __init__(self, pattern: DFPattern, struct_info: StructInfo) -> None:
        super().__init__(pattern)
        self.struct_info = struct_info

    def holds(self, expr: RelaxExpr, match: Match) -> bool:
        info = expr.struct_info_
        return info is not None and self.struct_info.is_base_of(info)


class DataTypePattern(_Refined):
    """A tensor or scalar of a dtype."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        super().__init__(pattern)
        self.dtype = DataType(dtype)

    def holds(self, expr: RelaxExpr, match: Match) -> bool:
        info = expr.struct_info_
        return isinstance(info, TensorStructInfo | PrimStructInfo) and info.dtype == self.dtype


class ShapePattern(_Refined):
    """A tensor or shape proved to have given dimensions."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]) -> None:
        super().__init__(pattern)
        self.shape = ShapeExpr(tuple(shape)).values

    def holds(self, expr: RelaxExpr, match: Match) -> bool:
        return same_dims(self.shape, dims_of(expr))
