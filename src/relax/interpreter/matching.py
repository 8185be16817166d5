"""Match values against struct info by performing the checks of `relax.analysis.matching` in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..analysis.matching import Subject, checks
from ..expr import Var
from ..info.runtime import InfoMaker, runtime_device
from ..ir import RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr, free_vars
from ..prim import Var as ShapeVar
from ..runtime import match as builtins
from ..runtime.heap import Heap, ShapeHeap
from ..runtime.info import FuncInfo
from ..runtime.match import STORE, STORE_SIZE
from ..struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from .scope import Environment, Number


def enter(params: Sequence[Var], args: Sequence[Any], scope: Environment) -> None:
    """Match the arguments of a function, and bind its parameters and shape variables in `scope`.

    The annotation of a parameter may name another one that holds its shape.
    """
    values: dict[Subject, Any] = {}
    for param, value in zip(params, args, strict=True):
        scope.define(param, value)
        name = param.name_hint
        values[Subject(param.struct_info, f"{scope.function}: parameter {name}", name)] = value
    _match_together(values, scope)


def match(value: Any, info: StructInfo, scope: Environment, description: str, name: str) -> None:
    """Match one value; messages call it `description`, and name the variables that it binds after `name`."""
    _match_together({Subject(info, f"{scope.function}: {description}", name): value}, scope)


def _match_together(values: Mapping[Subject, Any], scope: Environment) -> None:
    slots = _ScopeSlots(scope)
    for check in checks(values, scope.knows, _Met(values)):
        info, context, kind = check.subject.info, check.subject.context, check.subject.kind()
        # The shape heap of a lowered program is the tensor of its slots.
        value = _value_of(check.subject, values)
        value = value.tensor if isinstance(value, ShapeHeap) else value
        if kind is not None:
            required, size, dtype = kind
            if isinstance(info, TensorStructInfo) and info.vdevice is not None:
                required = runtime_device(info.vdevice)
            codes: list[Any] = []
            for axis, (code, operand) in enumerate(check.codes):
                codes += code, (operand, check.origin(axis)) if code in (STORE, STORE_SIZE) else operand
            builtins.match(value, slots, required, size, dtype, len(check.codes), *codes, context)
        if isinstance(info, TensorStructInfo) and isinstance(info.shape, Var):
            builtins.match_shape_value(value, scope[info.shape], context)
        if isinstance(info, FuncStructInfo):
            expected = InfoMaker(lambda dim: _value(dim, scope)).func(info)
            builtins.check_function(value, expected, context)


class _Met:
    """Tuples that were met with the same struct info: one that holds another twice has it checked once.

    The fields of what is no tuple, or not of the right length, count as met: the check of that fails before theirs.
    """

    def __init__(self, values: Mapping[Subject, Any]) -> None:
        self.values = values
        self.found: dict[tuple[int, int], tuple[StructInfo, Any]] = {}
        """Struct infos and tuples by their ids, which are theirs as long as they are kept here."""
        self.held: dict[Subject, Any] = {}

    def __call__(self, subject: Subject) -> bool:
        whole, info = subject.whole, subject.info
        if whole is not None and whole not in self.held:
            return True
        if not isinstance(info, TupleStructInfo):
            return False
        value = self.values[subject] if whole is None else self.held[whole][subject.index]
        if isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) == len(info.fields):
            self.held[subject] = value
        key = id(info), id(cast("Any", value))
        if key in self.found:
            return True
        self.found[key] = info, value
        return False


def _value_of(subject: Subject, values: Mapping[Subject, Any]) -> Any:
    if subject.whole is None:
        return values[subject]
    return _value_of(subject.whole, values)[subject.index]


class _ScopeSlots(Heap):
    """The shape variables of a scope as slots: an expression to read, a variable and its origin to fill."""

    __slots__ = ("scope",)

    def __init__(self, scope: Environment) -> None:
        self.scope = scope

    def load(self, slot: PrimExpr, is_float: bool) -> Number:
        return self.scope.evaluate(slot)

    def store(self, slot: tuple[ShapeVar, str], value: Number) -> None:
        self.scope.define_size(slot[0], value, slot[1])

    def expected(self, slot: PrimExpr) -> str:
        return self.scope.explain(slot)


# -------------------------------------------------------------------------------------------- functions


def function_info(info: FuncStructInfo, scope: Environment) -> FuncInfo:
    """The run-time struct info of a function made here: shape variables of the scope have their values.

    A dimension that has none (a division by zero) is left as it is written: nobody has asked for it yet.
    """

    def resolve(dim: PrimExpr) -> int | None:
        try:
            return _value(dim, scope)
        except ArithmeticError:
            return None

    return InfoMaker(resolve).func(info)


def _value(dim: PrimExpr, scope: Environment) -> int | None:
    if isinstance(dim, IntImm) or not all(map(scope.knows, free_vars(dim))):
        return None
    return cast(int, scope.evaluate(dim))


def name_of(value: RelaxExpr) -> str:
    """The name of a value in messages: that of its variable, if it has one."""
    return getattr(value, "name_hint", "a value")
