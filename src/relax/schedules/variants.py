"""Kernels that decide by one of their sizes which of several schedules they run.

    T.func_attr({"relax.schedule": [
        {"at_most": {"n": 16}, "rule": "Product", "parameters": {"tile": [4, 2], "strassen": False}},
        {"rule": "Product"},
    ]})

    Before   the loops of the formula
    After    if n <= 16:  the loops of the first rule    else:  those of the second

Entries are in the order of their bounds, all on one size, and the last one has no bound. An entry without a rule leaves
its sizes to the choice of the rules. Entries with the same loops are one. A constant has one layout: an entry whose
packings or parameters differ from those of the last one is left out, and its sizes fall to the next entry.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from ..ir import Diagnostic, DiagnosticError, structural_equal
from ..prim import IntImm, Var
from ..tir import Block, BlockRealize, Evaluate, IfThenElse, PrimFunc, Stmt
from ..tir.buffer import shape_vars_bound_by
from ..tir.functor import substitute
from ..tir.renew import renew_bound_vars
from ..tir.usage import size_vars
from .choice import NO_CHOICE, SCHEDULE
from .rule import IS_SCHEDULED, PackedFunction

VARIANTS: Final = "Variants"
"""Name by which a tuning record refers to a schedule with variants."""

MOST: Final = 4
"""Most variants of a kernel: each is code."""

Bound: TypeAlias = "int | None"
"""Largest size of a variant; None for the last one."""

_log = logging.getLogger(__name__)


def has_variants(func: PrimFunc) -> bool:
    """True if the function's attribute lists variants instead of naming one rule."""
    return isinstance(func.attrs.get(SCHEDULE), (list, tuple))


def variants_of(func: PrimFunc) -> list[tuple[Bound, PrimFunc]]:
    """Return a copy of the function for each entry of its attribute, with the entry's rule as attribute, and the bound.

    Raises DiagnosticError (E4110) for a list of another form.
    """
    entries = cast("Sequence[object]", func.attrs[SCHEDULE])
    try:
        names, pairs = _entries(entries)
        if len(names) > 0:
            _var_named(next(iter(names)), func, [bound for bound, _ in pairs if bound is not None])
    except ValueError as error:
        hint = 'write it as [{"at_most": {"n": 16}, "rule": "Product"}, {"rule": "Product", "parameters": {}}]'
        raise DiagnosticError(Diagnostic(NO_CHOICE, f"{SCHEDULE}: {error}", func.span, hint=hint)) from None
    bare = func.without_attr(SCHEDULE)
    return [(bound, bare.with_attr(SCHEDULE, choice) if choice else bare) for bound, choice in pairs]


def _entries(entries: Sequence[object]) -> tuple[set[str], list[tuple[Bound, dict[str, Any]]]]:
    """Return the names of sizes in `at_most`, and bound and choice of each entry. Raises ValueError."""
    if not 1 <= len(entries) <= MOST:
        raise ValueError(f"expected 1 to {MOST} variants, found {len(entries)}")
    names: set[str] = set()
    pairs: list[tuple[Bound, dict[str, Any]]] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping):
            raise ValueError(f"variant {number}: expected a dict, found {type(entry).__name__}")
        choice = dict(cast("Mapping[str, Any]", entry))
        bound = None
        if number < len(entries):
            name, bound = _bound(choice.pop("at_most", None), number)
            names.add(name)
            if pairs and bound <= cast(int, pairs[-1][0]):
                raise ValueError(f"variant {number}: its bound {bound} is not above the one before")
        elif "at_most" in choice:
            raise ValueError(f"variant {number}: the last one has no `at_most`")
        pairs.append((bound, choice))
    if len(names) > 1:
        raise ValueError(f"variants are bounded by several sizes: {', '.join(sorted(names))}")
    return names, pairs


def _bound(at_most: object, number: int) -> tuple[str, int]:
    table = dict(cast("Mapping[Any, Any]", at_most)) if isinstance(at_most, Mapping) else {}
    name, bound = next(iter(table.items()), (None, None))
    if len(table) != 1 or not isinstance(name, str) or type(bound) is not int or bound < 0:
        raise ValueError(f"variant {number}: `at_most` is a dict of one size and its largest value")
    return name, bound


def _var_named(name: str, func: PrimFunc, bounds: Sequence[int]) -> Var:
    """Return the size of this name, whose dtype holds the bounds. Raises ValueError."""
    sizes = size_vars(func)
    several = [var for var in sizes if var.name == name]
    if len(several) != 1:
        there = ", ".join(var.name for var in sizes) or "none"
        raise ValueError(f"there {'are two sizes' if several else 'is no size'} {name} (there is: {there})")
    if any(bound >> (several[0].dtype.bits - 1) for bound in bounds):
        raise ValueError(f"{name} is {several[0].dtype}, which lacks the value {max(bounds)}")
    return several[0]


def joined(func: PrimFunc, variants: Sequence[tuple[Bound, PackedFunction]]) -> PackedFunction:
    """Return the last of scheduled variants of a function, with a decision for those before it by their bounds.

    `func` has the attribute that lists them. Its size is read where the last variant binds it.
    """
    last = variants[-1][1]
    kept: list[tuple[int, Stmt]] = []
    following: Stmt = last.func.body
    for bound, variant in reversed(variants[:-1]):
        assert bound is not None
        body = _body_for(variant, last)
        if body is None:
            _log.info("the variant of sizes up to %d is left out: other layouts of constants, or parameters", bound)
        elif not structural_equal(body, following):
            kept.append((bound, body))
            following = body
    if not kept:
        return last
    first = cast("Sequence[Mapping[str, Any]]", func.attrs[SCHEDULE])[0]
    var = _var_named(next(iter(first["at_most"])), last.func, [])
    whole = renew_bound_vars(last.func.body)
    for bound, body in kept:
        whole = IfThenElse(var <= IntImm(var.dtype, bound), renew_bound_vars(body), whole)
    if isinstance(last.func.body, BlockRealize) or any(isinstance(body, BlockRealize) for _, body in kept):
        whole = BlockRealize((), True, Block((), (), (), "root", whole))  # the blocks of a function are in one
    return PackedFunction(last.func.replace(body=whole).with_attr(IS_SCHEDULED, True), last.packings)


def _body_for(variant: PackedFunction, last: PackedFunction) -> Stmt | None:
    """Return a variant's body with the parameters of the last one; None if these, packings or attributes differ."""
    if dict(variant.packings) != dict(last.packings) or _kept_attributes(variant) != _kept_attributes(last):
        return None
    own, other = variant.func, last.func
    if own.params == other.params and all(own.buffer_map[p] is b for p, b in other.buffer_map.items()):
        return own.body if structural_equal(own.preconditions, other.preconditions) else None
    empty = Evaluate(0)
    if not structural_equal(own.replace(body=empty, attrs={}), other.replace(body=empty, attrs={})):
        return None
    mapping: dict[Any, Any] = dict(zip(own.params, other.params, strict=True))
    for param, counterpart in zip(own.params, other.params, strict=True):
        buffer, target = own.buffer_map.get(param), other.buffer_map.get(counterpart)
        if buffer is not None and target is not None:
            mapping[buffer], mapping[buffer.data] = target, target.data
            mapping.update(zip(shape_vars_bound_by(buffer), shape_vars_bound_by(target), strict=True))
    return substitute(own.body, mapping)


def _kept_attributes(variant: PackedFunction) -> dict[str, Any]:
    return {name: value for name, value in variant.func.attrs.items() if name not in (SCHEDULE, IS_SCHEDULED)}


# -------------------------------------------------------------------------------------- parameters of records


def attribute_of(rule: str, parameters: Mapping[str, Any], func: PrimFunc) -> Any:
    """Return the value of ``relax.schedule`` that asks for a rule and parameters as tuning records hold them.

    Those of `VARIANTS` are described at `variants_in`. Raises ValueError for others, and for a size that the function
    lacks.
    """
    if rule != VARIANTS:
        return {"rule": rule, "parameters": dict(parameters)}
    size, pairs = variants_in(parameters)
    sizes = size_vars(func)
    if size >= len(sizes):
        raise ValueError(f"the function has {len(sizes)} sizes, not {size + 1}")
    name = _var_named(sizes[size].name, func, [bound for bound, _ in pairs if bound is not None]).name
    return [choice if bound is None else {"at_most": {name: bound}, **choice} for bound, choice in pairs]


def choices_of(attribute: Any) -> list[dict[str, Any]]:
    """Return the choices of rules in an attribute's value that `attribute_of` returned, without bounds."""
    if isinstance(attribute, Mapping):
        return [dict(cast("Mapping[str, Any]", attribute))]
    choices = ({n: v for n, v in entry.items() if n != "at_most"} for entry in cast("list[dict[str, Any]]", attribute))
    return [choice for choice in choices if choice]


def variants_in(parameters: Mapping[str, Any]) -> tuple[int, list[tuple[Bound, dict[str, Any]]]]:
    """Return the position of the size among a function's sizes, and bound and choice of each variant.

    `parameters` are ``{"size": 0, "name": "n", "variants": [{"at_most": 16, "rule": …, "parameters": …}, {…}]}``:
    records do not depend on names, `name` is for people. Raises ValueError for parameters of another form.
    """
    size, entries, name = parameters.get("size"), parameters.get("variants"), parameters.get("name", "")
    if type(size) is not int or size < 0 or not isinstance(entries, (list, tuple)) or not isinstance(name, str):
        raise ValueError(f"{VARIANTS} has the parameters `size`, a position, and `variants`, a list")
    named: list[object] = []
    for entry in cast("Sequence[object]", entries):
        table = dict(cast("Mapping[str, Any]", entry)) if isinstance(entry, Mapping) else {"rule": None}
        rule: object = table.get("rule", "")
        own: object = table.get("parameters", table)
        if (
            not isinstance(rule, str)
            or not isinstance(own, Mapping)
            or table.keys() - {"at_most", "rule", "parameters"}
        ):
            raise ValueError("expected a dict with `at_most`, `rule` and `parameters`")
        named.append({**table, "at_most": {"size": table["at_most"]}} if "at_most" in table else table)
    return size, _entries(named)[1]


def ranges_of(parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the sizes of each variant in words ("n up to 16", "n 17 to 90", "n above 90"), and its choice.

    Raises ValueError as `variants_in` does.
    """
    ranges: list[tuple[str, dict[str, Any]]] = []
    least, subject = 0, f"{parameters['name']} " if parameters.get("name") else ""
    for bound, choice in variants_in(parameters)[1]:
        if bound is None:
            words = f"above {least - 1}"
        else:
            words = f"{least} to {bound}" if ranges else f"up to {bound}"
            least = bound + 1
        ranges.append((subject + words, choice))
    return ranges
