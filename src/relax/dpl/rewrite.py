"""Rewriting by patterns: `rewrite_call` replaces single expressions, `rewrite_bindings` several bindings of a block.

    x, y = wildcard(), wildcard()
    pattern = is_op("relax.add")(x, y)

    def callback(call, matched):                       # every call that the pattern matches
        return R.multiply(matched[x], matched[y])      # its replacement; `call` itself to keep it

    new = rewrite_call(pattern, callback, func)

Before   lv = R.add(a, b)                       After    lv = R.multiply(a, b)

Calls are visited once, in evaluation order: results of a callback are not matched again. Variables are resolved to
their values only if the value is unchanged and in scope at the call: not across a call that may modify a tensor, and
not through a match_cast. Bindings of dataflow variables that become unused are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

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
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    convert,
    is_leaf,
)
from ..info.mapping import bound_in
from ..ir import IRModule, RelaxExpr, structural_equal
from ..prim import Var as ShapeVar
from ..rewrite import Rewriter
from ..rewrite.inlined import emitted, has_control_flow
from .classes import DFPattern
from .context import BlockFacts, PatternContext
from .matching import Match, Matched

BlockT = TypeVar("BlockT", bound=BindingBlock)
CallCallback = Callable[[RelaxExpr, Matched], RelaxExpr | None]
BindingsCallback = Callable[[Matched, dict[Var, RelaxExpr]], Mapping[Var, RelaxExpr]]


def rewrite_call(pattern: DFPattern, callback: CallCallback, func: Function) -> Function:
    """Replace each call, tuple or field that the pattern matches by ``callback(expr, matched)``; returns the
    function.
    """
    return CallRewriter([(pattern, callback)]).rewrite_function(func)


def rewrite_bindings(ctx: PatternContext, callback: BindingsCallback, func: Function) -> Function:
    """Replace values of bindings that a context matches in a function's dataflow blocks; returns the function.

    ``callback(matched, values)`` returns the new values by variable; `values` maps the block's variables to their
    values. Expression objects shared between new values are computed once. Bindings are sorted by dependency. Blocks
    are matched until there is no further match; a binding is matched once, and bindings of new values are not matched.
    Blocks in which a tensor may be modified are skipped.
    """
    return _BindingsRewriter(ctx, callback).rewrite_function(func)


class KnownValues(Rewriter):
    """Base class of rewriters that match; `values` holds the variables that may be replaced by their values."""

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.values: dict[Var, RelaxExpr] = {}
        self.changes = False
        """True if the function may modify tensors in place."""

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
        # Keep values visible in later blocks: not dataflow variables of this block, or values that use them.
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
        """Value of an expression, with variables resolved where this is allowed."""
        return Match(self.values).value(expr)

    def note(self, var: Var, value: RelaxExpr) -> None:
        """Record the value of a variable, unless tensors may have been modified since."""
        if isinstance(value, Call) and may_change(value, self.mod):
            self.values.clear()
        else:
            self.values[var] = value


class CallRewriter(KnownValues):
    """Rewriter that replaces the matches of patterns; the first pattern whose callback replaces an expression wins.

    A callback returns the expression, an equal one or None to keep it. A SeqExpr that it returns is inlined. Branches
    and local functions are ignored in a dataflow block.
    """

    def __init__(self, rules: Sequence[tuple[DFPattern, CallCallback]], mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.rules = rules

    def call(self, call: Call) -> RelaxExpr:
        return self.replaced(self.parts(call))

    def tuple_get_item(self, expr: TupleGetItem) -> RelaxExpr:
        return self.replaced(self.parts(expr))

    def tuple_(self, expr: Tuple) -> RelaxExpr:
        return self.replaced(self.parts(expr))

    def replaced(self, expr: RelaxExpr) -> RelaxExpr:
        """Replacement of an expression whose parts have already been rewritten."""
        for pattern, callback in self.rules:
            matched = pattern.extract_matched_expr(expr, self.values)
            given = None if matched is None else callback(expr, matched)
            if given is None:
                continue
            new = convert(given)
            if new is expr or structural_equal(new, expr):
                continue
            if self.builder.in_dataflow and has_control_flow(new):
                continue
            return emitted(self.builder, new) if isinstance(new, SeqExpr) else new
        return expr


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
            # Other variables may be matched again, those that the callback's values are bound to are not.
            bound = [var for var in matched_vars if var in facts.values]
            if not bound:
                break
            done.update(bound)
            done.update(binding.var for binding in new.bindings if binding.var not in facts.values)
        return super().block(new)


def _may_change(block: BindingBlock) -> bool:
    return any(isinstance(b.value, Call) and may_change(b.value) for b in block.bindings)


# -------------------------------------------------------------------------------------- changing blocks


class DependsOnItself(ValueError):
    """The value of a variable depends on the variable."""


def with_values(block: BlockT, values: Mapping[Var, RelaxExpr], added: Sequence[Binding] = ()) -> BlockT:
    """Replace values of variables in a block, add bindings, sort all and remove unused ones; struct info is not
    derived.

    Raises ValueError for a variable that the block does not bind, DependsOnItself for one whose new value depends on
    it.
    """
    changed = {var: convert(value) for var, value in values.items()}
    old = {binding.var: binding.value for binding in block.bindings}
    unknown = [var.name_hint for var in changed if var not in old]
    if unknown:
        raise ValueError(f"rewrite_bindings: the block does not bind {', '.join(unknown)}")
    if all(old[var] is value for var, value in changed.items()):
        return block
    flat = _Flattener(DataflowVar if isinstance(block, DataflowBlock) else Var)
    bindings: list[Binding] = []
    for binding in (*added, *block.bindings):
        if binding.var in changed and changed[binding.var] is not binding.value:
            value = flat.outermost(changed[binding.var])
            bindings += flat.taken()
            bindings.append(VarBinding(binding.var, value, span=binding.span))
        else:
            bindings.append(binding)
    return cast(BlockT, without_unused(block.replace(bindings=in_order(bindings))))


class _Flattener:
    """Binder of nested expressions to variables; a shared object is bound once."""

    def __init__(self, kind: type[Var]) -> None:
        self.kind = kind
        self.bindings: list[Binding] = []
        self.vars: dict[int, tuple[RelaxExpr, Var]] = {}

    def taken(self) -> list[Binding]:
        """Return the bindings created since the last call."""
        bindings, self.bindings = self.bindings, []
        return bindings

    def outermost(self, expr: RelaxExpr) -> RelaxExpr:
        """Bind the parts of an expression."""
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
            var = self.kind("lv", span=expr.span)
            self.bindings.append(VarBinding(var, value, span=expr.span))
            self.vars[id(expr)] = expr, var
        return self.vars[id(expr)][1]


def in_order(bindings: Iterable[Binding]) -> list[Binding]:
    """Sort bindings topologically, otherwise keeping their order. Raises DependsOnItself for a cycle."""
    bindings = list(bindings)
    needed = dependencies(bindings)
    order: list[Binding] = []
    recursive = {b.var for b in bindings if not isinstance(b.value, Function) and b.var in free_vars(b.value)}
    state: dict[Binding, bool] = {}
    """True for a placed binding, False for one whose dependencies are being placed."""
    for first in bindings:
        pending = [first]
        while pending:
            binding = pending[-1]
            if state.get(binding):
                pending.pop()
                continue
            waiting = [other for other in needed[binding] if not state.get(other)]
            if binding.var in recursive or any(other in state for other in waiting):
                raise DependsOnItself(f"the value of {binding.var.name_hint} depends on itself")
            if waiting:
                state[binding] = False
                pending += waiting
            else:
                state[binding] = True
                order.append(binding)
    return order


def dependencies(bindings: Iterable[Binding]) -> dict[Binding, list[Binding]]:
    """Per binding, the bindings whose variables or shape variables it uses."""
    bindings = list(bindings)
    definers: dict[Var | ShapeVar, Binding] = {}
    uses = {binding: _uses(binding) for binding in bindings}
    seen: set[ShapeVar] = set()
    for binding in bindings:
        definers[binding.var] = binding
        if isinstance(binding, MatchCast):
            for size in bound_in(binding.struct_info):
                if size not in seen:  # else it is bound before, and compared here
                    definers[size] = binding
        seen.update(uses[binding].shape_variables)
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
    """Remove the bindings of unused dataflow variables from a dataflow block."""
    live = Uses()
    kept: list[Binding] = []
    for binding in reversed(block.bindings):
        binds_sizes = isinstance(binding, MatchCast) and bound_in(binding.struct_info)
        if not isinstance(binding.var, DataflowVar) or binds_sizes or binding.var in live.variables:
            live.add(binding)
            kept.append(binding)
    return block if len(kept) == len(block.bindings) else block.replace(bindings=tuple(reversed(kept)))
