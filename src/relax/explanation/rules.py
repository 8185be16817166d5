"""Reports on schedule rules: which one takes a PrimFunc, and why those before it do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..runtime.records import dataclass
from ..schedules.cpu import rules_for
from ..schedules.rule import IS_SCHEDULED, PackedFunction, Refusal, applied
from ..target import Target
from ..tir import PrimFunc


@dataclass(frozen=True)
class RuleReport:
    """Schedule rules for one function, by name."""

    function: str
    is_scheduled: bool
    """True if a rule, or the user, has scheduled the function: no rule is tried then."""
    taken: tuple[str, ...]
    """The first rule that takes the function, and rules that schedule nests it left."""
    refusals: Mapping[str, Refusal]
    """Reasons of the rules tried before, in their order."""

    def reasons(self, unrelated: bool = False) -> dict[str, list[str]]:
        """Rules by the reason of their refusal: rules for other kinds of loop nests, or else those for its kind."""
        reasons: dict[str, list[str]] = {}
        for rule, refusal in self.refusals.items():
            if refusal.unrelated == unrelated:
                reasons.setdefault(refusal.reason, []).append(rule)
        return reasons

    def lines(self) -> list[str]:
        """Lines of text: the rule that takes the function, and the refusals of rules for its kind of loop nests."""
        chosen = "it is scheduled already" if self.is_scheduled else ", then ".join(self.taken) or "none"
        refusals = [f"  not {', '.join(rules)}: {reason}" for reason, rules in self.reasons().items()]
        return [f"schedule rule of {self.function}: {chosen}", *refusals]


def joined(reports: Sequence[RuleReport]) -> list[RuleReport]:
    """Return the reports, with one in the place of those of functions that are scheduled already."""
    scheduled = [report for report in reports if report.is_scheduled]
    names = ", ".join(report.function for report in scheduled)
    return [*(replace(report, function=names) for report in scheduled[:1]), *(r for r in reports if not r.is_scheduled)]


def rule_report(name: str, func: PrimFunc, target: Target, constants: Sequence[int]) -> RuleReport:
    """Try the rules as `relax.build` does; `constants` are the positions of parameters with constant arguments."""
    if func.attrs.get(IS_SCHEDULED):
        return RuleReport(name, True, (), {})
    rules, result = rules_for(target), func
    taken: list[str] = []
    refusals: dict[str, Refusal] = {}
    packed = ((rule, rule.pack(func, target, constants)) for rule in rules if constants)
    packing = next(((rule, variant.func) for rule, variant in packed if isinstance(variant, PackedFunction)), None)
    for rule in rules:
        if taken and not rule.complements:
            continue
        if packing is None or taken:
            arranged = applied(rule, result, target)
        else:
            arranged = packing[1] if rule is packing[0] else None
        if arranged:
            result = arranged
            taken.append(repr(rule))
        elif not taken:
            refusal = rule.accepts(func, target, constants)
            if isinstance(refusal, Refusal):
                refusals[repr(rule)] = refusal
    return RuleReport(name, False, tuple(taken), refusals)
