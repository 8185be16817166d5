"""PatternContext: patterns that are matched together in a dataflow block.

    with PatternContext() as context:
        conv, bias, relu = is_call_tir("conv2d"), is_call_tir("bias_add"), is_call_tir("relu")
        conv >> bias >> relu                     # each is used by the next one only
    context.match_dfb(block)                     # {conv: lv, bias: lv1, relu: lv2}, or None

Patterns created while a context is open each match a separate binding, unless they are part of another pattern or of an
alternative. Patterns created earlier are included if a constraint names them. Operands of call_tir, call_tir_inplace
and call_dps_packed are indexed among the kernel's operands. Aliases (``b = a``) are resolved. "Only used by" refers to
the block: a value visible outside of it has other uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import cast

from ..analysis.variables import free_vars
from ..expr import BindingBlock, Call, DataflowVar, Tuple, TupleGetItem, Var, VarBinding
from ..ir import RelaxExpr
from ..op import operator_of
from ..op.intrinsic import DestinationPassing
from ..prim import Verdict, prove_shape_equal
from .compare import dims_of
from .constraints import Rules, SameShapeConstraint, Use, active_rules, close_rules, open_rules
from .matching import Match, Matched, Pattern


class PatternContext:
    """Patterns and constraints that are matched together; see the module's docstring.

    With `incremental` a context starts with the rules of the enclosing one.
    """

    def __init__(self, incremental: bool = False) -> None:
        outer = active_rules() if incremental else None
        self.rules = Rules() if outer is None else outer.copy()

    def __enter__(self) -> PatternContext:
        open_rules(self.rules)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_rules()

    def match_dfb(
        self, dfb: BindingBlock, start_hint: Var | None = None, must_include_hint: bool = False
    ) -> Matched | None:
        """Match all patterns in a block; returns each pattern's variable or leaf, or None without a match.

        A match in which some pattern matches `start_hint` is preferred; with `must_include_hint` it is required.
        """
        return self.find(BlockFacts(dfb), start_hint, must_include_hint)

    def find(
        self,
        block: BlockFacts,
        start_hint: Var | None = None,
        must_include_hint: bool = False,
        skipped: frozenset[Var] = frozenset(),
    ) -> Matched | None:
        """Like `match_dfb`; root patterns do not match `skipped` variables."""
        search = Search(self.rules, block, skipped)
        if start_hint is not None:
            for pattern in self.rules.wholes:
                match = search.first({pattern: start_hint})
                if match is not None:
                    return match
            if must_include_hint:
                return None
        return search.first({})


class BlockFacts:
    """Definitions and uses of the variables of a block."""

    def __init__(self, block: BindingBlock) -> None:
        self.bound = [binding.var for binding in block.bindings]
        self.values: dict[Var, RelaxExpr] = {
            binding.var: binding.value for binding in block.bindings if isinstance(binding, VarBinding)
        }
        self.match = Match(self.values)
        self.users: dict[Var, dict[Var, None]] = {}
        """Users of each variable: variables whose values use it; aliases are not counted."""
        self.leaving: set[Var] = set()
        """Variables whose values are used outside of the block, as the first of their aliases."""
        for binding in block.bindings:
            if not isinstance(binding.var, DataflowVar):
                self.leaving.add(cast(Var, self.match.holder(binding.var)))
            if not isinstance(binding.value, Var) or not isinstance(binding, VarBinding):
                for used in free_vars(binding.value):
                    users = self.users.setdefault(cast(Var, self.match.holder(used)), {})
                    users[binding.var] = None

    def uses(self, use: Use, used: RelaxExpr, user: RelaxExpr) -> bool:
        """True if the use of one variable's value by another's satisfies a constraint."""
        source = self.match.holder(used)
        if not isinstance(source, Var) or not isinstance(user, Var):
            return False
        users = self.users.get(source, {})
        target = cast(Var, self.match.holder(user))
        if target not in users:
            return False
        if use.only and (len(users) > 1 or source in self.leaving):
            return False
        if use.position == -1:
            return True
        operands = _operands(self.values.get(target))
        return use.position < len(operands) and self.match.holder(operands[use.position]) is source


def _operands(value: RelaxExpr | None) -> Sequence[RelaxExpr]:
    match value:
        case Call(_, args) if isinstance(operator_of(value), DestinationPassing) and len(args) > 1:
            packed = args[1]
            return packed.fields if isinstance(packed, Tuple) else (packed,)
        case Call(_, args):
            return args
        case Tuple(fields):
            return fields
        case TupleGetItem(source):
            return (source,)
        case _:
            return ()


class Search:
    """Backtracking search for all patterns of a context in a block."""

    def __init__(self, rules: Rules, block: BlockFacts, skipped: frozenset[Var]) -> None:
        self.rules = rules
        self.block = block
        self.skipped = skipped
        self.order = _connected(rules)
        self.match = Match(block.values)
        self.candidates: dict[Pattern, list[Var]] = {}
        outside = [var for var in block.users if var not in block.values]
        variables = dict.fromkeys([*outside, *block.bound])
        for pattern in self.order:
            self.candidates[pattern] = [
                var for var in variables if var not in skipped and pattern.match(var, block.values)
            ]

    def first(self, fixed: Mapping[Pattern, Var]) -> Matched | None:
        """First match in which some patterns match given variables."""
        return next(self.matches(fixed), None)

    def matches(self, fixed: Mapping[Pattern, Var]) -> Iterator[Matched]:
        """All matches in which some patterns match given variables."""
        if not self.order:
            return
        self.match.matched.clear()
        for _ in self.step(0, fixed):
            yield dict(self.match.matched)

    def step(self, at: int, fixed: Mapping[Pattern, Var]) -> Iterator[None]:
        """Matches of the patterns from a position in the search order on."""
        if at == len(self.order):
            if all(map(self.same_shape, self.rules.same_shapes)):
                yield
            return
        pattern = self.order[at]
        taken = {self.match.matched[earlier] for earlier in self.order[:at]}
        candidates: Iterable[Var] = self.candidates[pattern]
        if pattern in fixed:
            candidates = [var for var in candidates if var is fixed[pattern]]
        for var in candidates:
            if var in taken:
                continue
            for _ in self.match.fit(pattern, var):
                if self.related(pattern):
                    yield from self.step(at + 1, fixed)

    def related(self, pattern: Pattern) -> bool:
        """True if the constraints between a pattern and those already matched hold."""
        matched = self.match.matched
        return all(
            self.block.uses(use, matched[use.used], matched[use.user])
            for use in self.rules.uses
            if pattern in use[:2] and use.used in matched and use.user in matched
        )

    def same_shape(self, constraint: SameShapeConstraint) -> bool:
        patterns = constraint.patterns
        shapes = [dims_of(self.match.matched[p]) for p in patterns if p in self.match.matched]
        known_shapes = [shape for shape in shapes if shape is not None]
        return len(known_shapes) == len(patterns) and all(
            len(shape) == len(known_shapes[0]) and prove_shape_equal(known_shapes[0], shape) is Verdict.YES
            for shape in known_shapes[1:]
        )


def _connected(rules: Rules) -> list[Pattern]:
    """Root patterns in search order, each related to earlier ones if possible."""
    order: list[Pattern] = []
    waiting = dict(rules.wholes)
    while waiting:
        near = (p for p in waiting if any(p in use[:2] and {*use[:2]} & {*order} for use in rules.uses))
        pattern = next(near, next(iter(waiting)))
        order.append(pattern)
        del waiting[pattern]
    return order
