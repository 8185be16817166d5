"""SubroutineMixin: modules whose `forward` becomes a function of its own, which equal modules share.

    class Block(nn.Module):
        define_subroutine = True

A program with many such modules has one function for all that compute the same. It takes the module's parameters, and
is named after the class, in snake case.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

from ...expr import Call, ShapeExpr, Tuple, TupleGetItem, Var
from ...info.mapping import bound_in, substitute_struct_info, used_in
from ...ir import RelaxExpr, StructInfo
from ...op.known import known_struct_info
from ...prim import PrimExpr
from ...prim.expr import Var as PrimVar
from ...struct_info import ShapeStructInfo
from .effect import Effect
from .exporter import Exporter
from .parameter import Parameter
from .tensor import Object, Tensor, current_builder, returned, wrap_nested


class SubroutineMixin:
    """Base class of modules that can be functions of their own: those whose `define_subroutine` is True.

    `define_subroutine` may be set on the class or on an instance.
    """

    define_subroutine: ClassVar[bool] | bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        forward = cls.__dict__.get("forward")
        if forward is not None:
            cls.forward = _dispatching(forward)  # pyright: ignore[reportAttributeAccessIssue]


def _dispatching(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `forward` that calls the module's function where it defines one."""

    @functools.wraps(forward)
    def dispatch(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.define_subroutine or self.__dict__.get("_inside_subroutine", False):
            return forward(self, *args, **kwargs)
        return _Subroutine(self).call(functools.partial(forward, self), args, kwargs)

    return dispatch


class _Subroutine:
    """One call of a module's function: the function is traced, and an equal one that exists is used."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.params: list[tuple[str, Parameter]] = [*module.named_parameters()]
        exporter = Exporter.active()
        effects: list[Effect | None] = [effect for _, effect in module.named_effects()]
        effects.append(None if exporter is None else exporter.io_effect)
        self.effects = [effect for effect in effects if effect is not None and effect.in_function]
        self.inputs: list[RelaxExpr] = []
        """The caller's values, one for each parameter of the function."""
        self.names: list[str] = []

    def call(self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Emit the call, and return its result in the form in which `forward` returns it."""
        builder = current_builder()
        self._add_values((args, kwargs), "")
        states = [effect.finalize() for effect in self.effects]
        for state in (state for group in states for state in group):
            self._add(state, "state")
        kept = [(param, param._expr) for _, param in self.params]  # pyright: ignore[reportPrivateUsage] (TVM's name)
        for (name, _), (_, expr) in zip(self.params, kept, strict=True):
            self._add(expr, name)
        variables = self._signature()
        name = Exporter.private_name(_snake_case(type(self.module).__name__))
        self.module._inside_subroutine = True
        try:
            with builder.function(name, variables, private=True):
                with builder.dataflow():
                    new = iter(variables)
                    inner_args, inner_kwargs = _replaced((args, kwargs), new)
                    for effect, group in zip(self.effects, states, strict=True):
                        effect.set_state([next(new) for _ in group])
                    for param, _ in kept:
                        param._expr = next(new)  # pyright: ignore[reportPrivateUsage]
                    outcome = forward(*inner_args, **inner_kwargs)
                    after = [state for effect in self.effects for state in effect.finalize()]
                    result = returned(outcome)
                    output = builder.emit_output(Tuple((result, Tuple(after))) if states else result)
                function = builder.emit_func_output(output)
        finally:
            del self.module._inside_subroutine
            for param, expr in kept:
                param._expr = expr  # pyright: ignore[reportPrivateUsage]
        called = builder.emit(Call(function, self.inputs), f"{name}_output")
        if not states:
            return _in_form(outcome, called, f"{name}_output")
        fields = builder.emit(TupleGetItem(called, 1))
        index = 0
        for effect, group in zip(self.effects, states, strict=True):
            effect.set_state([builder.emit(TupleGetItem(fields, index + part), "_io") for part in range(len(group))])
            index += len(group)
        return _in_form(outcome, builder.emit(TupleGetItem(called, 0)), f"{name}_output")

    def _add_values(self, value: Any, name: str) -> None:
        """Add the Tensors, Objects and sizes in an argument to the inputs; other values are part of the function."""
        match value:
            case Tensor() | Object():
                expr = value._expr  # pyright: ignore[reportPrivateUsage]
                self._add(expr, name or getattr(expr, "name_hint", "x"))
            case PrimExpr():
                self._add(ShapeExpr([value]), name or "size")
            case list() | tuple():
                for item in cast("Sequence[Any]", value):
                    self._add_values(item, name)
            case dict():
                for key, item in cast("dict[str, Any]", value).items():
                    self._add_values(item, key)
            case _:
                pass

    def _add(self, expr: RelaxExpr, name: str) -> None:
        self.inputs.append(expr)
        self.names.append(name)

    def _signature(self) -> list[Var]:
        """Return the parameters of the function, over shape variables of its own.

        A variable that no parameter binds is passed in a shape behind the others.
        """
        infos = [cast(StructInfo, known_struct_info(expr)) for expr in self.inputs]
        used, bound = used_in(*infos), bound_in(*infos)
        passed = [var for var in used if var not in bound]
        if passed:
            self._add(ShapeExpr(passed), "sizes")
            infos.append(ShapeStructInfo(passed))
        sizes = {var: PrimVar(var.name, "int64") for var in used}
        own = [substitute_struct_info(info, cast("dict[PrimVar, PrimExpr]", sizes)) for info in infos]
        return [Var(name, info) for name, info in zip(self.names, own, strict=True)]


def _replaced(value: Any, new: Iterator[Var]) -> Any:
    """Return an argument with the function's variables in place of the caller's, in the order of `_add_values`."""
    match value:
        case Tensor():
            return Tensor(_expr=next(new))
        case Object():
            return type(value)(_expr=next(new), _name="object")
        case PrimExpr():
            return cast(Any, next(new).struct_info).values[0]
        case list() | tuple():
            items = [_replaced(item, new) for item in cast("Sequence[Any]", value)]
            return items if isinstance(value, list) else tuple(items)
        case dict():
            return {key: _replaced(item, new) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _in_form(form: Any, value: RelaxExpr, name: str) -> Any:
    """Return the values of a call in the form in which the function's body has them."""
    match form:
        case Tensor():
            return wrap_nested(value, name)
        case Object():
            return type(form)(_expr=value, _name=name)
        case list() | tuple():
            builder = current_builder()
            items = [
                _in_form(item, builder.emit(TupleGetItem(value, index), f"{name}_{index}"), f"{name}_{index}")
                for index, item in enumerate(cast("Sequence[Any]", form))
            ]
            return items if isinstance(form, list) else tuple(items)
        case _:
            return wrap_nested(value, name)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
