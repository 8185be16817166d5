"""Rules written as two functions, `pattern` and `replacement`, of one signature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from ..analysis.variables import free_symbolic_vars
from ..derive.substitution import copy_with_new_vars, substitute
from ..expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..info.relations import Verdict, fit_all
from ..ir import (
    BaseFunc,
    Diagnostic,
    DiagnosticError,
    GlobalVar,
    IRModule,
    Op,
    RelaxExpr,
    Span,
    StructInfo,
    structural_equal,
)
from ..op.operands import is_absent
from .classes import (
    CallPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    TupleGetItemPattern,
    TuplePattern,
    WildcardPattern,
)
from .matching import Match, Matched, Pattern

MALFORMED: Final = "E4019"


class ModuleRule:
    """Rule of a module: the pattern of its function `pattern`, and the body of `replacement`.

    `fields` are the patterns of the fields of a tuple that `pattern` returns, if a binding can compute each of them.
    """

    def __init__(self, mod: IRModule) -> None:
        function, self.replacement = _function(mod, "pattern"), _function(mod, "replacement")
        if not structural_equal(function.struct_info, self.replacement.struct_info):
            notes = (f"pattern: {function.struct_info}", f"replacement: {self.replacement.struct_info}")
            raise _malformed("`pattern` and `replacement` differ in their signatures", self.replacement.span, *notes)
        self.subroutines: dict[GlobalVar, BaseFunc] = {}
        for name, other in mod.functions.items():
            if name.name_hint not in ("pattern", "replacement"):
                if "global_symbol" in other.attrs:
                    message = f"{name.name_hint} is a public function, beside `pattern` and `replacement`"
                    raise _malformed(message, other.span, hint="declare it with private=True")
                self.subroutines[name] = other
        made = _Patterns(function)
        self.params = [made.patterns[param] for param in function.params]
        self.pattern: DFPattern = _Checked(made.result, made)
        inner = made.result
        self.fields: tuple[DFPattern, ...] = ()
        if isinstance(inner, TuplePattern) and all(field.is_computed for field in inner.fields):
            self.fields = tuple(inner.fields)
        self.made = made

    def replace(self, _: RelaxExpr, matched: Matched) -> RelaxExpr | None:
        """Return the body of `replacement` for what the parameters matched; None if that does not fit."""
        if not self.made.holds(matched):
            return None
        new = copy_with_new_vars(self.replacement)
        args = [matched[param] for param in self.params]
        fits, sizes, unmatched = fit_all([arg.struct_info for arg in args], [param.struct_info for param in new.params])
        if unmatched or any(fit.verdict is not Verdict.YES for fit in fits):
            return None
        body = cast(SeqExpr, substitute(new.body, {**dict(zip(new.params, args, strict=True)), **sizes}))
        return without_last_variable(body)


def without_last_variable(body: SeqExpr) -> RelaxExpr:
    """The value of a body, as its last binding computes it if that is its result."""
    last = body.blocks[-1].bindings[-1] if body.blocks else None
    if last is None or body.body is not last.var or not isinstance(last, VarBinding):
        return body if body.blocks else body.body
    rest = body.blocks[-1].replace(bindings=body.blocks[-1].bindings[:-1])
    blocks = [*body.blocks[:-1], rest] if rest.bindings else list(body.blocks[:-1])
    return SeqExpr(blocks, last.value) if blocks else last.value


def _function(mod: IRModule, name: str) -> Function:
    function = mod.get(name)
    if function is None:
        names = ", ".join(g.name_hint for g in mod.functions) or "none"
        raise _malformed(f"the module has no function `{name}`", mod.span, f"its functions: {names}")
    if not isinstance(function, Function):
        raise _malformed(f"`{name}` is a {type(function).__name__}, not a Relax function", function.span)
    return function


def _malformed(message: str, span: Span | None, *notes: str, hint: str = "") -> DiagnosticError:
    return DiagnosticError(Diagnostic(MALFORMED, f"rewriter: {message}", span, notes=notes, hint=hint))


class _Patterns:
    """Patterns of the values of a function, and the conditions under which their matches fit together."""

    def __init__(self, function: Function) -> None:
        self.infos = [param.struct_info for param in function.params]
        self.patterns: dict[Var, DFPattern] = {param: WildcardPattern() for param in function.params}
        self.params = list(self.patterns.values())
        self.results: list[tuple[DFPattern, StructInfo]] = []
        """Calls that state the struct info of their results."""
        self.sizes: list[tuple[DFPattern, ShapeExpr | PrimValue]] = []
        """Values that name shape variables of the parameters."""
        if not function.is_pure:
            raise _malformed("`pattern` is impure", function.span, hint="a pattern matches values, not effects")
        body = function.body if isinstance(function.body, SeqExpr) else SeqExpr((), function.body)
        for binding in (binding for block in body.blocks for binding in block.bindings):
            if not isinstance(binding, VarBinding):
                raise _malformed("a match_cast in `pattern` cannot be matched", binding.span)
            self.patterns[binding.var] = self.of(binding.value)
        self.result = self.of(body.body)
        used = set(_parts(self.result))
        for param in function.params:
            if self.patterns[param] not in used:
                raise _malformed(f"`pattern` does not use its parameter {param.name_hint}", param.span or function.span)

    def of(self, expr: RelaxExpr) -> DFPattern:
        """Pattern of an expression."""
        match expr:
            case Var():
                return self.patterns[expr]
            case Call():
                return self.call(expr)
            case Tuple(fields):
                return TuplePattern([self.of(field) for field in fields])
            case TupleGetItem(source):
                return TupleGetItemPattern(self.of(source), expr.index)
            case ShapeExpr() | PrimValue() if free_symbolic_vars(expr):
                size = WildcardPattern()
                self.sizes.append((size, expr))
                return size
            case ExternFunc(name):
                return ExternFuncPattern(name)
            case Op() | Constant() | ShapeExpr() | PrimValue() | StringImm() | DataTypeImm():
                return ExprPattern(expr)
            case _:
                what = "a function of the module" if isinstance(expr, GlobalVar) else f"{type(expr).__name__}"
                raise _malformed(f"`pattern` holds {what}, which cannot be matched", expr.span)

    def call(self, call: Call) -> CallPattern:
        args = list(call.args)
        while args and is_absent(args[-1]):
            args.pop()
        pattern = _SameCall(self.of(call.op), [self.of(arg) for arg in args], call)
        if call.sinfo_args:
            self.results.append((pattern, call.struct_info))
        return pattern

    def holds(self, matched: Matched) -> bool:
        """True if what the parts matched is proved to fit the parameters' struct info, attributes and sizes."""
        args = [matched[param].struct_info for param in self.params]
        fits, sizes, unmatched = fit_all(args, self.infos)
        if unmatched or any(fit.verdict is not Verdict.YES for fit in fits):
            return False
        return all(
            structural_equal(substitute(info, sizes), matched[p].struct_info) for p, info in self.results
        ) and all(substitute(size, sizes).struct_info.is_base_of(matched[p].struct_info) for p, size in self.sizes)


def _parts(pattern: DFPattern) -> Iterator[Pattern]:
    yield pattern
    for part in pattern.parts:
        yield from _parts(part)


class _SameCall(CallPattern):
    """A call with the attributes of another one."""

    def __init__(self, op: DFPattern, args: Sequence[DFPattern], call: Call) -> None:
        super().__init__(op, args)
        self.call = call

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        found = match.value(expr)
        if isinstance(found, Call) and structural_equal(self.call.attrs, found.attrs):
            yield from super().fits(expr, match)


class _Checked(DFPattern):
    """A pattern whose match must satisfy the conditions between its parts."""

    def __init__(self, pattern: DFPattern, made: _Patterns) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.made = made

    @property
    def is_computed(self) -> bool:
        return all(part.is_computed for part in self.parts)

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        for _ in match.fit(self.pattern, expr):
            if self.made.holds(match.matched):
                yield
