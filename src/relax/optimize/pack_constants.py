"""Pack constant operands of kernels at compile time, where a rule's kernel reads them in another layout.

    Before   matmul(x, R.const(w), out)             matmul copies panels of w in every call
    After    matmul_packed(x, R.const(p), out)      p holds the packed panels of w

A rule schedules the called function for the packed layout (`ScheduleRule.pack`) and returns the packing of the
constant. Kernels that only transpose a constant are handled here (`permuted_constants`). The original function stays
for calls with other operands, and the original constant for other uses. The module attribute ``relax.packed_constants``
and a message of the logger ``relax.optimize.pack_constants`` count the packed constants; ``relax.packed_kernels`` maps
each new function to its original.

Skipped: calls whose constant operands no rule packs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from ..expr import Binding, Call, Constant, Function, constant_of
from ..ir import GlobalVar, IRModule, RelaxExpr
from ..ir.transform import Pass, module_pass
from ..rewrite import Rewriter, bindings_in
from ..runtime.files import in_threads
from ..schedules.apply import Scheduled, schedule
from ..schedules.choice import SCHEDULE, rules_for_function
from ..schedules.described import description_of
from ..schedules.rule import IS_SCHEDULED, PackedFunction, Packing, ScheduleRule, applied
from ..schedules.variants import has_variants, joined, variants_of
from ..target import Target
from ..tir import PrimFunc
from ..transform.remove_unused_functions import without_unreachable
from .permuted_constants import with_permuted_constants

PACKED_CONSTANTS: Final = "relax.packed_constants"
"""Module attribute with statistics of the packed constants: {"kernels": 2, "constants": 3, "bytes": 4096}."""

PACKED_KERNELS: Final = "relax.packed_kernels"
"""Module attribute that maps each packed kernel to its original: {"matmul_packed": "matmul"}."""

_log = logging.getLogger(__name__)


def PackConstants(*rules: ScheduleRule, target: Target | None = None, scheduled: Scheduled | None = None) -> Pass:
    """Pass: pack constant operands of kernels into the layouts that the rules' kernels read.

    `target` defaults to the current one (``with target:``) and must be resolved. Raises ValueError if
    there is none. `scheduled` is called with each kernel it creates.
    """

    def run(mod: IRModule) -> IRModule:
        chosen = target or Target.current(allow_none=False)
        assert chosen is not None
        return pack_constants(mod, chosen, rules, scheduled)

    return module_pass(run, name="PackConstants")()


def pack_constants(
    mod: IRModule, target: Target, rules: Sequence[ScheduleRule], scheduled: Scheduled | None = None
) -> IRModule:
    """Return the module with constant operands of kernels packed into the layouts that the rules' kernels read."""
    packer = _Packer(mod, target, rules, scheduled)
    for func in mod.functions.values():
        if isinstance(func, Function):
            for binding in bindings_in(func):
                packer.see(binding)
    if not packer.variants:
        return mod
    for name, variant in packer.variants.values():
        mod = mod.with_function(name, variant.func)
    packer.pack_all()
    rewritten = _Calls(mod, packer).module()
    private = {name for name, _ in packer.variants if "global_symbol" not in mod[name].attrs}
    kept = without_unreachable(rewritten, {g.name_hint for g in rewritten.functions if g.name_hint not in private})
    size = sum(constant.content.nbytes for constant in packer.constants.values())
    counts = {"kernels": len(packer.variants), "constants": len(packer.constants), "bytes": size}
    _log.info("packed %(constants)d constants, %(bytes)d bytes, for %(kernels)d kernels", counts)
    origins = {new: name for (name, _), (new, _) in packer.variants.items()}
    return kept.with_attr(PACKED_CONSTANTS, counts).with_attr(PACKED_KERNELS, origins)


class _Packer:
    """Collects the functions called with constants, by name and constant positions, and their packed variants."""

    def __init__(
        self, mod: IRModule, target: Target, rules: Sequence[ScheduleRule], scheduled: Scheduled | None
    ) -> None:
        self.mod, self.target, self.rules, self._scheduled = mod, target, rules, scheduled
        self.variants: dict[tuple[str, tuple[int, ...]], tuple[str, PackedFunction]] = {}
        self._refused: set[tuple[str, tuple[int, ...]]] = set()
        self._calls: list[Call] = []
        """Calls with constant arguments."""
        self.constants: dict[tuple[int, Packing], Constant] = {}
        """Packed constants by (constant, packing), shared between kernels."""
        self._alive: list[Constant] = []

    def see(self, binding: Binding) -> None:
        """Create the packed variant that a call with constants needs."""
        value = getattr(binding, "value", None)
        if isinstance(value, Call) and isinstance(value.op, GlobalVar):
            self._prepare(value.op.name_hint, constant_positions(value))
            self._calls.append(value)

    def _prepare(self, name: str, positions: tuple[int, ...]) -> None:
        key = (name, positions)
        func = self.mod.functions.get(self.mod.get_global_var(name)) if positions else None
        if not isinstance(func, PrimFunc) or key in self.variants or key in self._refused:
            return
        variant = None if func.attrs.get(IS_SCHEDULED) else packed_variant(func, self.target, self.rules, positions)
        if variant is None:
            self._refused.add(key)
            return
        taken = {g.name_hint for g in self.mod.functions} | {known for known, _ in self.variants.values()}
        new = f"{name}_packed"
        while new in taken:
            new += "_"
        self.variants[key] = (new, variant)
        if self._scheduled is not None:
            self._scheduled(new, variant.func)

    def pack_all(self) -> None:
        """Pack the constants of all calls, several in parallel; it takes about as long as copying them."""
        wanted: dict[tuple[int, Packing], Constant] = {}
        for call in self._calls:
            for packing, constant in self._packed(call):
                wanted[id(constant), packing] = constant
        jobs = [(constant, packing) for (_, packing), constant in wanted.items()]
        self.constants.update(zip(wanted, in_threads(lambda job: _packed(*job), jobs), strict=True))
        self._alive += wanted.values()

    def _packed(self, call: Call) -> Iterator[tuple[Packing, Constant]]:
        """Yield (packing, constant) for each argument of a call that is packed."""
        variant = self.variants.get((cast(GlobalVar, call.op).name_hint, constant_positions(call)))
        for i, packing in variant[1].packings.items() if variant is not None else ():
            yield packing, cast(Constant, call.args[i])

    def constant(self, constant: Constant, packing: Packing) -> Constant:
        """Return the packed constant."""
        key = (id(constant), packing)
        if key not in self.constants:
            self._alive.append(constant)
            self.constants[key] = _packed(constant, packing)
        return self.constants[key]


def packed_variant(
    func: PrimFunc, target: Target, rules: Sequence[ScheduleRule], positions: Sequence[int]
) -> PackedFunction | None:
    """Return the scheduled function for packed constants at `positions` of its parameters; None if no rule packs them.

    The rule that the function's attribute names (`schedules.choice`) comes before `rules`: where it applies and packs
    nothing, no other rule does. An attribute with several (`schedules.variants`) makes a function that decides by a
    size.
    """
    if has_variants(func):
        return _packed_variants(func, target, rules, positions)
    own, several = description_of(target, rules_for_function(func, target, rules))
    if own is not target:
        func, target = func.without_attr(SCHEDULE), own
    permuted = with_permuted_constants(func, positions)
    packings: Mapping[int, Packing] = {} if permuted is None else permuted.packings
    others = tuple(position for position in positions if position not in packings)
    for rule in several:
        variant = rule.pack(func, target, positions)
        if not isinstance(variant, PackedFunction):
            if rule is several[0] and SCHEDULE in func.attrs and isinstance(applied(rule, func, target), PrimFunc):
                break  # the function asks for this rule, which reads constants in their own layout
            continue
        if permuted is not None:  # unless the rule fuses the transposing nest
            both = rule.pack(permuted.func, target, others)
            if isinstance(both, PackedFunction):
                variant = replace(both, packings={**packings, **both.packings})
        complements = [other for other in several if other.complements]
        return _arranged(variant, schedule(variant.func.without_attr(SCHEDULE), target, complements))
    if permuted is None:
        return None
    return _arranged(permuted, schedule(permuted.func, target, rules))


def _packed_variants(
    func: PrimFunc, target: Target, rules: Sequence[ScheduleRule], positions: Sequence[int]
) -> PackedFunction | None:
    """Return the function with a decision between its variants; None if the last one packs no constant."""
    variants = [
        (bound, packed_variant(one, target, rules, positions) or PackedFunction(schedule(one, target, rules), {}))
        for bound, one in variants_of(func)
    ]
    whole = joined(func, variants)
    return whole if whole.packings else None


def _arranged(variant: PackedFunction, func: PrimFunc) -> PackedFunction:
    """Return the variant with `func` marked as scheduled, so that no other rule is tried on it."""
    return replace(variant, func=func.without_attr("global_symbol").with_attr(IS_SCHEDULED, True))


def _packed(constant: Constant, packing: Packing) -> Constant:
    # constant_of reuses the memory of the packed array if it can.
    return constant_of(packing(constant.data.numpy()))


class _Calls(Rewriter):
    """Redirects calls to the packed variants."""

    def __init__(self, mod: IRModule, packer: _Packer) -> None:
        super().__init__(mod)
        self.packer = packer

    def call(self, call: Call) -> RelaxExpr:
        whole = self.parts(call)
        if not isinstance(whole.op, GlobalVar):
            return whole
        variant = self.packer.variants.get((whole.op.name_hint, constant_positions(whole)))
        if variant is None:
            return whole
        name, packed = variant
        args = [
            self.packer.constant(cast(Constant, arg), packed.packings[i]) if i in packed.packings else arg
            for i, arg in enumerate(whole.args)
        ]
        return whole.replace(op=self.mod.get_global_var(name), args=tuple(args))


def constant_positions(call: Call) -> tuple[int, ...]:
    """Return the positions of constant arguments."""
    return tuple(i for i, arg in enumerate(call.args) if isinstance(arg, Constant))
