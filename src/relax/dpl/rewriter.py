"""PatternMatchingRewriter: rules of a pattern and its replacement, applied until none matches; a pass.

    @R.rewriter
    class Fused:
        @R.function
        def pattern(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            return R.nn.relu(R.add(x, y))

        @R.function
        def replacement(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            return R.call_pure_packed("lib.add_relu", x, y, sinfo_args=R.Tensor(("n",), "float32"))

    double = PatternMatchingRewriter.from_pattern(is_op("relax.add")(x, x), lambda expr, matched: 2 * matched[x])

    mod = (Fused | double)(mod)                         # or in a Sequential; func = Fused(func)

A rule replaces a call, a tuple or a field of one (`ExprPatternRewriter`), or the values of several bindings of a block
together (`TupleRewriter`). All rules are tried at each expression, in their order, and their results are matched again.
What moves keeps its meaning as in `relax.dpl.rewrite`: a value is not looked through where a tensor may have been
modified or a variable is out of scope, and bindings are not rewritten together in a block with effects. Bindings that
are unused afterwards are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast, overload

from ..analysis.effects import may_change
from ..analysis.unused import remove_all_unused
from ..analysis.variables import all_global_vars, free_vars
from ..derive.call_graph import reachable
from ..derive.rules import is_pure_call
from ..derive.substitution import substitute
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    convert,
)
from ..ir import BaseFunc, Diagnostic, DiagnosticError, GlobalVar, IRModule, RelaxExpr, map_children, structural_equal
from ..ir.provided import provide
from ..ir.transform import Pass, PassInfo
from ..rewrite import Rewriter, bindings_in
from ..rewrite.inlined import has_control_flow
from .classes import DFPattern
from .constraints import Rules
from .context import BlockFacts, Search
from .matching import Matched, Pattern
from .module_rule import ModuleRule, without_last_variable
from .rewrite import CallCallback, CallRewriter, DependsOnItself, with_values

TupleCallback = Callable[[RelaxExpr, Matched], RelaxExpr | Sequence[RelaxExpr] | None]

ENDLESS: Final = "E4020"
MOST_REPLACEMENTS: Final = 1000
"""Replacements in a function before rewriting is taken to be endless; plus the square of the number of bindings."""


class PatternMatchingRewriter(Pass):
    """Rewriter of functions and modules by patterns; see the module's docstring. ``a | b`` tries a's rules first."""

    def __init__(self, name: str = "PatternMatchingRewriter") -> None:
        super().__init__(PassInfo.of(name))

    @staticmethod
    def from_pattern(pattern: DFPattern, func: CallCallback) -> PatternMatchingRewriter:
        """Return the rewriter that replaces matches of a pattern by ``func(expr, matched)``; None keeps them."""
        return ExprPatternRewriter(pattern, func)

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """Return the rewriter that replaces the body of a module's function `pattern` by that of `replacement`.

        The parameters stand for any values of their struct info, their shape variables for any sizes. A pattern that
        returns a tuple matches such tuples, and bindings of its fields in one block. Other functions of the module are
        private: the replacement calls them, and they are added to modules in which it is used. Raises DiagnosticError
        (E4019) for a module that is no such pair.
        """
        rule = ModuleRule(mod)
        whole = ExprPatternRewriter(rule.pattern, rule.replace)
        whole.subroutines = rule.subroutines
        if not rule.fields:
            return whole
        fields = TupleRewriter(rule.fields, rule.replace)
        fields.subroutines = rule.subroutines
        return fields | whole

    def __or__(self, other: PatternMatchingRewriter) -> OrRewriter:
        return OrRewriter(self, other)

    @property
    def rules(self) -> tuple[ExprPatternRewriter | TupleRewriter, ...]:
        """Rules in the order in which they are tried."""
        raise NotImplementedError

    @overload
    def __call__(self, obj: IRModule) -> IRModule: ...
    @overload
    def __call__(self, obj: Function) -> Function: ...
    @overload
    def __call__(self, obj: RelaxExpr) -> RelaxExpr: ...
    def __call__(self, obj: IRModule | RelaxExpr) -> IRModule | RelaxExpr:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Apply the rules until none matches; returns the object itself if none did.

        Raises DiagnosticError (E4020) for rules whose results match again without end, and (E4019) for an expression
        whose replacement calls functions of the rewriter's module.
        """
        if isinstance(obj, Function):
            return self._function(obj)
        if isinstance(obj, RelaxExpr):
            return self._expression(obj)
        return super().__call__(obj)

    def transform(self, mod: IRModule) -> IRModule:
        private = _Subroutines(mod, [rule.subroutines for rule in self.rules])
        state = _State(self.rules, private.module, private.renamed)
        functions: dict[GlobalVar, BaseFunc] = {}
        for name, function in mod.functions.items():
            functions[name] = state.fixed(function) if isinstance(function, Function) else function
        if all(functions[name] is function for name, function in mod.functions.items()):
            return mod
        return private.completed(mod.with_functions(functions))

    def _function(self, function: Function) -> Function:
        new = _State(self.rules, IRModule()).fixed(function)
        if new is not function:
            names = {name for rule in self.rules for name in rule.subroutines}
            used = [name.name_hint for name in all_global_vars(new) if name in names]
            if used:
                message = f"the replacement calls {', '.join(used)}, a function of the rewriter's module"
                raise DiagnosticError(Diagnostic("E4019", message, hint="call the rewriter on an IRModule"))
        return new

    def _expression(self, expr: RelaxExpr) -> RelaxExpr:
        body = expr if isinstance(expr, SeqExpr) else SeqExpr((), expr)
        function = Function(free_vars(expr), body, is_pure=False)
        new = self._function(function)
        if new is function:
            return expr
        return without_last_variable(cast(SeqExpr, new.body))


class ExprPatternRewriter(PatternMatchingRewriter):
    """Rule that replaces a call, a tuple or a field of a tuple."""

    def __init__(self, pattern: DFPattern, func: CallCallback) -> None:
        super().__init__()
        self.pattern = pattern
        self.func = func
        self.subroutines: Mapping[GlobalVar, BaseFunc] = {}

    @property
    def rules(self) -> tuple[ExprPatternRewriter | TupleRewriter, ...]:
        return (self,)


class TupleRewriter(PatternMatchingRewriter):
    """Rule that replaces the values of several bindings of a block.

    ``func(Tuple(variables), matched)`` returns a tuple of the new values, or None to keep the bindings. Bindings are
    kept where a new value would depend on itself.
    """

    def __init__(self, patterns: Iterable[DFPattern], func: TupleCallback) -> None:
        super().__init__()
        self.patterns = tuple(patterns)
        self.func = func
        self.subroutines: Mapping[GlobalVar, BaseFunc] = {}

    @property
    def rules(self) -> tuple[ExprPatternRewriter | TupleRewriter, ...]:
        return (self,)


class OrRewriter(PatternMatchingRewriter):
    """The rules of two rewriters; those of `lhs` are tried first."""

    def __init__(self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter) -> None:
        super().__init__()
        self.lhs = lhs
        self.rhs = rhs

    @property
    def rules(self) -> tuple[ExprPatternRewriter | TupleRewriter, ...]:
        return (*self.lhs.rules, *self.rhs.rules)


# ------------------------------------------------------------------------------------------ to the fixed point


class _State:
    """Rewriting of functions by rules until none matches."""

    def __init__(
        self,
        rules: Sequence[ExprPatternRewriter | TupleRewriter],
        mod: IRModule,
        renamed: Callable[[RelaxExpr], RelaxExpr] = lambda expr: expr,
    ) -> None:
        self.rules = rules
        self.mod = mod
        self.renamed = renamed
        self.count = 0
        """The number of replacements in the present function."""

    def fixed(self, function: Function) -> Function:
        """Apply all rules until a sweep changes nothing."""
        self.count = 0
        most = MOST_REPLACEMENTS + sum(1 for _ in bindings_in(function)) ** 2
        while True:
            before = function
            for kind, rules in _runs(self.rules):
                function = self.swept(function, kind, rules, most)
            if function is before:
                return function
            function = remove_all_unused(function)

    def swept(self, function: Function, kind: type, rules: Sequence[Any], most: int) -> Function:
        def counted(func: Callable[..., Any]) -> Callable[..., Any]:
            def call(expr: RelaxExpr, matched: Matched) -> Any:
                new = func(expr, matched)
                if new is None or new is expr:
                    return new
                if not isinstance(new, RelaxExpr) or not structural_equal(new, expr):
                    self.count += 1
                if self.count > most:
                    raise _endless(function, expr, most)
                return self.renamed(convert(new))

            return call

        if kind is ExprPatternRewriter:
            pairs = [(rule.pattern, counted(rule.func)) for rule in rules]
            return CallRewriter(pairs, self.mod).rewrite_function(function)
        return _TupleRewriter([(rule.patterns, counted(rule.func)) for rule in rules], self.mod).rewrite_function(
            function
        )


def _runs(rules: Sequence[ExprPatternRewriter | TupleRewriter]) -> Iterator[tuple[type, list[Any]]]:
    """Successive rules of one kind, which one walk applies."""
    run: list[Any] = []
    for rule in rules:
        if run and type(run[-1]) is not type(rule):
            yield type(run[-1]), run
            run = []
        run.append(rule)
    if run:
        yield type(run[-1]), run


def _endless(function: Function, expr: RelaxExpr, most: int) -> DiagnosticError:
    name = function.attrs.get("global_symbol", "")
    where = f" in {name}" if name else ""
    message = f"PatternMatchingRewriter: {most} replacements{where} do not end the rewriting"
    hint = "a rule whose results match a rule again must come to an end; return None to keep an expression"
    return DiagnosticError(Diagnostic(ENDLESS, message, expr.span or function.span, hint=hint))


class _TupleRewriter(Rewriter):
    """Replaces values of several bindings of a block, which the patterns of a rule match together."""

    def __init__(self, rules: Sequence[tuple[tuple[DFPattern, ...], TupleCallback]], mod: IRModule) -> None:
        super().__init__(mod)
        self.rules = rules

    def block(self, block: BindingBlock) -> BindingBlock:
        if any(isinstance(b.value, Call) and self.has_effect(b.value) for b in block.bindings):
            return super().block(block)
        new = block
        while (replaced := self.replaced(new)) is not new:
            new = replaced
        return super().block(new)

    def has_effect(self, call: Call) -> bool:
        return may_change(call, self.mod) or not is_pure_call(call)

    def replaced(self, block: BindingBlock) -> BindingBlock:
        """Replace the first match that may be replaced; the block itself if there is none."""
        facts = BlockFacts(block)
        for patterns, callback in self.rules:
            search = Search(Rules(wholes=dict.fromkeys(cast("tuple[Pattern, ...]", patterns))), facts, frozenset())
            for matched in search.matches({}):
                new = self.with_match(block, facts, [matched[p] for p in patterns], matched, callback)
                if new is not None:
                    return new
        return block

    def with_match(
        self,
        block: BindingBlock,
        facts: BlockFacts,
        found: Sequence[RelaxExpr],
        matched: Matched,
        callback: TupleCallback,
    ) -> BindingBlock | None:
        """The block with the values of one match replaced; None to keep it."""
        variables = [facts.match.holder(var) for var in found]
        if not all(isinstance(var, Var) and var in facts.values for var in variables):
            return None
        given = callback(Tuple(variables), matched)
        if given is None:
            return None
        added, result = _body(convert(given), isinstance(block, DataflowBlock))
        if added is None:
            return None
        if isinstance(result, Tuple):
            if len(result.fields) != len(variables):
                raise ValueError(f"TupleRewriter: expected {len(variables)} new values, found {len(result.fields)}")
            fields = result.fields
        else:
            fields = tuple(TupleGetItem(result, index) for index in range(len(variables)))
        try:
            return with_values(block, dict(zip(cast("list[Var]", variables), fields, strict=True)), added)
        except DependsOnItself:
            return None


def _body(expr: RelaxExpr, in_dataflow: bool) -> tuple[list[Binding] | None, RelaxExpr]:
    """Bindings of a replacement, with variables of the block's kind, and its result; no bindings if it cannot be
    inlined.
    """
    if in_dataflow and has_control_flow(expr):
        return None, expr
    if not isinstance(expr, SeqExpr):
        return [], expr
    kind = DataflowVar if in_dataflow else Var
    table: dict[Var, Var] = {}
    bindings: list[Binding] = []
    for binding in (binding for block in expr.blocks for binding in block.bindings):
        var = table[binding.var] = kind(binding.var.name_hint, binding.var.struct_info_)
        if isinstance(binding, MatchCast):
            value = substitute(binding.value, table)
            bindings.append(MatchCast(var, value, binding.struct_info, span=binding.span))
        else:
            value = substitute(cast(VarBinding, binding).value, table)
            bindings.append(VarBinding(var, value, span=binding.span))
    return bindings, substitute(expr.body, table)


# ------------------------------------------------------------------------------------- functions that are added


class _Subroutines:
    """Private functions of rewriters' modules, under names that are free in a module."""

    def __init__(self, mod: IRModule, given: Iterable[Mapping[GlobalVar, BaseFunc]]) -> None:
        self.names: dict[GlobalVar, GlobalVar] = {}
        functions = {name.name_hint: function for name, function in mod.functions.items()}
        names = {name.name_hint: name for name in mod.functions}
        for name, function in (item for subroutines in given for item in subroutines.items()):
            text, number = name.name_hint, 0
            while text in functions and not structural_equal(functions[text], function):
                number += 1
                text = f"{name.name_hint}_{number}"
            functions.setdefault(text, function)
            self.names[name] = names.setdefault(text, name if text == name.name_hint else GlobalVar(text))
        new = {g: f if text in mod else self.renamed(f) for text, g in names.items() for f in (functions[text],)}
        self.module = mod.with_functions(cast("dict[GlobalVar, BaseFunc]", new))

    def renamed(self, expr: RelaxExpr) -> RelaxExpr:
        """Refer to the functions by their names in the module."""
        changed = {old: new for old, new in self.names.items() if old is not new}
        return _renamed(expr, changed) if changed else expr

    def completed(self, mod: IRModule) -> IRModule:
        """Add those functions to the module that it reaches."""
        added = {name: function for name, function in self.module.functions.items() if name not in mod.functions}
        if not added:
            return mod
        whole = mod.with_functions({**mod.functions, **added})
        used = reachable(whole, {name.name_hint for name in mod.functions})
        return whole.with_functions({g: f for g, f in whole.functions.items() if g.name_hint in used})


def _renamed(expr: RelaxExpr, table: Mapping[GlobalVar, GlobalVar]) -> RelaxExpr:
    def visit(node: Any) -> Any:
        return table.get(node, node) if isinstance(node, GlobalVar) else map_children(node, visit)

    return cast(RelaxExpr, visit(expr))


provide("rewriter", PatternMatchingRewriter.from_module)
