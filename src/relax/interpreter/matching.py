"""Matching values against struct info: the steps of `relax.info.matching`, each made when it is its turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import getitem
from typing import Any, cast

from ..expr import Var
from ..info.matching import Act, Step, Subject, steps
from ..info.runtime import InfoMaker, runtime_device
from ..ir import RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr, free_vars
from ..prim import Var as ShapeVar
from ..runtime.builtin_table import BUILTINS
from ..runtime.heap import ShapeHeap
from ..runtime.info import FuncInfo
from ..runtime.match import check_function, check_size, match_shape_value, same_scalar
from ..runtime.messages import IS
from ..struct_info import FuncStructInfo, ShapeStructInfo, TensorStructInfo
from .scope import Environment, Number


def enter(params: Sequence[Var], args: Sequence[Any], scope: Environment) -> None:
    """Match the arguments of a function, and bind its parameters and shape variables in `scope`.

    The annotation of a parameter may name another one that holds its shape.
    """
    subjects: list[Subject[Any]] = []
    for param, value in zip(params, args, strict=True):
        scope.define(param, value)
        name = param.name_hint
        subjects.append(Subject(value, param.struct_info, f"{scope.function}: parameter {name}", name))
    _make_steps(subjects, scope)


def match(value: Any, info: StructInfo, scope: Environment, what: str, name: str) -> None:
    """Match one value: `what` says which one in messages; `name` is what bound a variable."""
    _make_steps([Subject(value, info, f"{scope.function}: {what}", name)], scope)


def _make_steps(subjects: Iterable[Subject[Any]], scope: Environment) -> None:
    for step in steps(subjects, scope.knows, getitem):
        subject = step.subject
        # The shape heap of a lowered program is the tensor of its slots.
        value = subject.value.tensor if isinstance(subject.value, ShapeHeap) else subject.value
        if step.first:
            _look_at(value, subject, scope)
        if any(act is not Act.SKIP for act, _ in step.dims):
            _match_dims(value, step, scope)


def _look_at(value: Any, subject: Subject[Any], scope: Environment) -> None:
    """Check all but dimensions that are written out."""
    info, context = subject.info, subject.context
    device: list[Any] = []
    if isinstance(info, TensorStructInfo) and info.vdevice is not None:
        device.append(runtime_device(info.vdevice))
    check = subject.kind_check()
    if check is not None:
        name, args = check
        BUILTINS[name].function(value, *args, context, *device)
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, Var):
        match_shape_value(value, scope[info.shape], context)
    if isinstance(info, FuncStructInfo):
        check_function(value, InfoMaker(lambda dim: _value(dim, scope)).func(info), context)


def _match_dims(value: Any, step: Step[Any], scope: Environment) -> None:
    subject = step.subject
    match subject.info:
        case TensorStructInfo():
            sizes: Sequence[Number] = value.shape
        case ShapeStructInfo():
            sizes = tuple(value)
        case _:
            sizes = (value,)
    for axis, ((act, dim), found) in enumerate(zip(step.dims, sizes, strict=True)):
        if act is Act.BIND_SIZE:
            check_size(cast(int, found), subject.context)
        if act in (Act.BIND, Act.BIND_SIZE):
            scope.define_size(cast(ShapeVar, dim), found, subject.origin(axis))
        elif act is Act.COMPARE and not same_scalar(found, scope.evaluate(dim)):
            expected = str(dim.value) if isinstance(dim, IntImm) else scope.explain(dim)
            raise IS(context=subject.context, place=subject.place(axis), found=found, expected=expected)


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
