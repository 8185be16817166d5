"""Rewriting what patterns match: `rewrite_call` for one expression, `rewrite_bindings` for several of a block.

    x, y = wildcard(), wildcard()
    pattern = is_op("relax.add")(x, y)

    def callback(call, matched):                       # every call that the pattern matches
        return R.multiply(matched[x], matched[y])      # what stands in its place; `call` itself to keep it

    new = rewrite_call(pattern, callback, func)

Before   lv = R.add(a, b)                       After    lv = R.multiply(a, b)

Calls are visited in the order of evaluation, and once each: what a callback returns is not matched again. Values are
looked through as far as the result is certain to mean the same at the place of the call: not across a call that may
change a tensor, not through a match_cast, and not to variables that are out of scope there. Bindings of dataflow
variables that nobody uses any more are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from ..analysis.effects import any_call, may_change
from ..analysis.uses import Uses, uses_of
from ..analysis.variables import free_vars
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    convert,
    is_leaf,
)
from ..info.mapping import bound_in
from ..ir import IRModule, RelaxExpr
from ..prim import Var as ShapeVar
from ..rewrite import Rewriter
from .classes import DFPattern
from .context import BlockFacts, PatternContext
from .matching import Match, Matched

CallCallback = Callable[[RelaxExpr, Matched], RelaxExpr]
BindingsCallback = Callable[[Matched, dict[Var, RelaxExpr]], Mapping[Var, RelaxExpr]]


def rewrite_call(pattern: DFPattern, callback: CallCallback, func: Function) -> Function:
    """A function in which ``callback(expr, matched)`` stands for each call, tuple or field that the pattern matches."""
    return CallRewriter(pattern, callback).rewrite_function(func)


def rewrite_bindings(ctx: PatternContext, callback: BindingsCallback, func: Function) -> Function:
    """A function in whose dataflow blocks bindings that a context matches have other values.

    ``callback(matched, values)`` returns the new values by variable; `values` holds what the block binds. Expressions
    that occur in several of them, as one object, are computed once. Bindings are put in an order in which all is
    computed before it is used. Blocks are matched until no more is found; a binding is matched once. Blocks in which a
    tensor may be changed are left alone.
    """
    return _BindingsRewriter(ctx, callback).rewrite_function(func)


class KnownValues(Rewriter):
    """The base of rewriters that match: `values` holds the values that may be looked through where they stand."""

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.values: dict[Var, RelaxExpr] = {}
        self.changes = False
        """True if the function may change a tensor."""

    def function(self, function: Function) -> RelaxExpr:
        outer = self.values, self.changes
        self.changes = self.changes or any_call(function, lambda effects: effects.may_change)
        self.values = {} if self.changes else dict(self.values)
        new = super().function(function)
        self.values, self.changes = outer
        return new

    def block(self, block: BindingBlock) -> BindingBlock:
        before = set(self.values)
        new = super().block(block)
        if not isinstance(block, DataflowBlock):
            return new
        # What a later block can name: neither the variables of this one, nor values that do.
        for var in [var for var in self.values if var not in before]:
            if isinstance(var, DataflowVar) or any(
                isinstance(used, DataflowVar) for used in uses_of(self.values[var]).variables
            ):
                del self.values[var]
        return new if new is block else without_unused(new)

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        var = super().bind(binding, value, var)
        self.note(var, value)
        return var

    def value(self, expr: RelaxExpr) -> RelaxExpr:
        """The value of an expression: a variable looked through, as far as that is allowed here."""
        return Match(self.values).value(expr)

    def note(self, var: Var, value: RelaxExpr) -> None:
        """Remember the value of a variable, unless tensors may have changed since."""
        if isinstance(value, Call) and may_change(value, self.mod):
            self.values.clear()
        else:
            self.values[var] = value


class CallRewriter(KnownValues):
    """Replaces what one pattern matches."""

    def __init__(self, pattern: DFPattern, callback: CallCallback, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.pattern = pattern
        self.callback = callback

    def call(self, call: Call) -> RelaxExpr:
        return self.replaced(self.parts(call))

    def tuple_get_item(self, expr: TupleGetItem) -> RelaxExpr:
        return self.replaced(self.parts(expr))

    def tuple_(self, expr: Tuple) -> RelaxExpr:
        return self.replaced(self.parts(expr))

    def replaced(self, expr: RelaxExpr) -> RelaxExpr:
        """The expression in the place of one whose parts have been rewritten."""
        matched = self.pattern.extract_matched_expr(expr, self.values)
        return expr if matched is None else convert(self.callback(expr, matched))


class _BindingsRewriter(Rewriter):
    def __init__(self, context: PatternContext, callback: BindingsCallback) -> None:
        super().__init__()
        self.context = context
        self.callback = callback

    def block(self, block: BindingBlock) -> BindingBlock:
        if not isinstance(block, DataflowBlock) or _may_change(block):
            return super().block(block)
        done: set[Var] = set()
        new = block
        while True:
            facts = BlockFacts(new)
            matched = self.context.find(facts, skipped=frozenset(done))
            if matched is None:
                break
            matched_vars = [var for p in self.context.rules.wholes if isinstance(var := matched[p], Var)]
            new = with_values(new, self.callback(matched, dict(facts.values)))
            bound = [var for var in matched_vars if var in facts.values]  # others may be matched again
            if not bound:
                break
            done.update(bound)
        return super().block(new)


def _may_change(block: BindingBlock) -> bool:
    return any(isinstance(b.value, Call) and may_change(b.value) for b in block.bindings)


# -------------------------------------------------------------------------------------- changing blocks


def with_values(block: DataflowBlock, values: Mapping[Var, RelaxExpr]) -> DataflowBlock:
    """A block in which variables have other values, ordered and swept; struct info is not derived yet.

    Raises ValueError for a variable that the block does not bind, or whose new value depends on itself.
    """
    changed = {var: convert(value) for var, value in values.items()}
    old = {binding.var: binding.value for binding in block.bindings}
    unknown = [var.name_hint for var in changed if var not in old]
    if unknown:
        raise ValueError(f"rewrite_bindings: the block does not bind {', '.join(unknown)}")
    if all(old[var] is value for var, value in changed.items()):
        return block
    flat = _Flattener()
    bindings: list[Binding] = []
    for binding in block.bindings:
        if binding.var in changed and changed[binding.var] is not binding.value:
            value = flat.outermost(changed[binding.var])
            bindings += flat.taken()
            bindings.append(VarBinding(binding.var, value, span=binding.span))
        else:
            bindings.append(binding)
    return cast(DataflowBlock, without_unused(block.replace(bindings=in_order(bindings))))


class _Flattener:
    """Binds nested expressions to variables; an object that occurs twice is bound once."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []
        self.vars: dict[int, tuple[RelaxExpr, Var]] = {}

    def taken(self) -> list[Binding]:
        """The bindings made since the last call."""
        bindings, self.bindings = self.bindings, []
        return bindings

    def outermost(self, expr: RelaxExpr) -> RelaxExpr:
        """An expression with its parts bound."""
        if id(expr) in self.vars:
            return self.vars[id(expr)][1]
        match expr:
            case Call(_, args) | Tuple(args):
                new = tuple(map(self.leaf, args))
                same = all(a is b for a, b in zip(args, new, strict=True))
                if same:
                    return expr
                return expr.replace(args=new) if isinstance(expr, Call) else Tuple(new, span=expr.span)
            case TupleGetItem(source):
                return expr.replace(tuple_value=self.leaf(source))
            case _:
                return expr

    def leaf(self, expr: RelaxExpr) -> RelaxExpr:
        if isinstance(expr, Tuple):
            return self.outermost(expr)
        if is_leaf(expr):
            return expr
        if id(expr) not in self.vars:
            value = self.outermost(expr)
            var = DataflowVar("lv", span=expr.span)
            self.bindings.append(VarBinding(var, value, span=expr.span))
            self.vars[id(expr)] = expr, var
        return self.vars[id(expr)][1]


def in_order(bindings: Iterable[Binding]) -> list[Binding]:
    """Bindings with each behind those it depends on, else in their order. Raises ValueError for a circle."""
    bindings = list(bindings)
    needed = dependencies(bindings)
    order: list[Binding] = []
    recursive = {b.var for b in bindings if not isinstance(b.value, Function) and b.var in free_vars(b.value)}
    state: dict[Binding, bool] = {}
    """True for a binding that has its place, False for one whose dependencies are being placed."""
    for first in bindings:
        pending = [first]
        while pending:
            binding = pending[-1]
            if state.get(binding):
                pending.pop()
                continue
            waiting = [other for other in needed[binding] if not state.get(other)]
            if binding.var in recursive or any(other in state for other in waiting):
                raise ValueError(f"the value of {binding.var.name_hint} depends on itself")
            if waiting:
                state[binding] = False
                pending += waiting
            else:
                state[binding] = True
                order.append(binding)
    return order


def dependencies(bindings: Iterable[Binding]) -> dict[Binding, list[Binding]]:
    """For each of some bindings, those whose variables or sizes it uses."""
    bindings = list(bindings)
    definers: dict[Var | ShapeVar, Binding] = {}
    uses = {binding: _uses(binding) for binding in bindings}
    known: set[ShapeVar] = set()
    for binding in bindings:
        definers[binding.var] = binding
        if isinstance(binding, MatchCast):
            for size in bound_in(binding.struct_info):
                if size not in known:  # else it is bound before, and compared here
                    definers[size] = binding
        known.update(uses[binding].shape_variables)
    return {binding: _needed(binding, uses[binding], definers) for binding in bindings}


def _uses(binding: Binding) -> Uses:
    uses = uses_of(binding.value)
    uses.add_definition(binding.var)
    if isinstance(binding, MatchCast):
        uses.add_info(binding.struct_info)
    return uses


def _needed(binding: Binding, uses: Uses, definers: Mapping[Var | ShapeVar, Binding]) -> list[Binding]:
    needed = [definers[name] for name in (*uses.variables, *uses.shape_variables) if name in definers]
    return [other for other in dict.fromkeys(needed) if other is not binding]


def without_unused(block: BindingBlock) -> BindingBlock:
    """A dataflow block without the bindings of dataflow variables that nobody uses."""
    live = Uses()
    kept: list[Binding] = []
    for binding in reversed(block.bindings):
        binds_sizes = isinstance(binding, MatchCast) and bound_in(binding.struct_info)
        if not isinstance(binding.var, DataflowVar) or binds_sizes or binding.var in live.variables:
            live.add(binding)
            kept.append(binding)
    return block if len(kept) == len(block.bindings) else block.replace(bindings=tuple(reversed(kept)))
