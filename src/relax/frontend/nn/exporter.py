"""Exporter: the program of a module's methods, as `Module.export_tvm` returns it.

    @R.function
    def forward(x: …, cache: R.Object, fc_weight: …, fc_bias: …):      inputs, effects, parameters
        R.func_attr({"num_input": 2})                                   inputs and effects
        with R.dataflow():
            …                                                           emitted by the method itself
        return gv                                                       result, or (result, effects)

A method runs once, on Tensors that are parameters of the function under construction.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

from ...analysis import free_vars
from ...block_builder import BlockBuilder
from ...derive.substitution import copy_with_new_vars
from ...expr import Function, Tuple, TupleGetItem, Var
from ...info.mapping import bound_in
from ...ir import GlobalVar, IRModule, RelaxExpr
from ...prim import PrimExpr, substitute
from ...prim import free_vars as free_vars_of
from ...prim.expr import Var as PrimVar
from ...runtime.modules import Module
from ...struct_info import ObjectStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from . import spec as specs
from .effect import Effect, IOEffect, ObjectEffect
from .parameter import Parameter
from .tensor import Dim, Tensor, dims_of, returned, wrap_nested

Named: TypeAlias = "Sequence[tuple[str, Parameter]]"


class ExternCode(Protocol):
    """Code whose functions a program calls: an `ExternModule`."""

    def load(self) -> Module: ...


class Exporter:
    """Program under construction. `with exporter:` makes it the current one, which `op.print_` and others need."""

    _stack: ClassVar[threading.local] = threading.local()

    def __init__(self, debug: bool = False) -> None:
        self.builder = BlockBuilder()
        self.io_effect: IOEffect | None = IOEffect() if debug else None
        self.extern_mods: list[ExternCode] = []
        self._methods: frozenset[str] = frozenset()
        self._bound: set[PrimVar] = set()
        """Shape variables of the functions so far."""

    @staticmethod
    def active() -> Exporter | None:
        """Return the innermost open exporter of this thread, or None."""
        exporters: list[Exporter] = getattr(Exporter._stack, "exporters", [])
        return exporters[-1] if exporters else None

    @staticmethod
    def current() -> Exporter:
        """Return the innermost open exporter. Raises RuntimeError outside of `Module.export_tvm`."""
        exporter = Exporter.active()
        if exporter is None:
            raise RuntimeError("no module is being exported; this is for methods that export_tvm or jit is given")
        return exporter

    def __enter__(self) -> Exporter:
        Exporter._stack.exporters = [*getattr(Exporter._stack, "exporters", []), self]
        return self

    def __exit__(self, *exception: object) -> None:
        Exporter._stack.exporters = Exporter._stack.exporters[:-1]

    @staticmethod
    def private_name(name: str) -> str:
        """Return the name for a kernel or subroutine, changed if a method of the module being exported has it."""
        exporter = Exporter.active()
        return f"{name}_" if exporter is not None and name in exporter._methods else name

    def add_external_module(self, mod: ExternCode) -> None:
        """Add a module of other code, whose functions the program calls; once only."""
        if mod not in self.extern_mods:
            self.extern_mods.append(mod)

    def build(
        self, spec: specs.ModuleSpec, params: Named, effects: Sequence[tuple[str, Effect]]
    ) -> tuple[IRModule, list[tuple[str, Parameter]], list[ExternCode]]:
        """Return the program of the methods in `spec`, the parameters, and the modules of other code.

        Raises DiagnosticError at a line of a method whose operands do not fit, and ValueError if a method uses a
        parameter that its function does not have.
        """
        if self.io_effect is not None:
            effects = [("", self.io_effect), *effects]
        kept = [(param, param._expr) for _, param in params]  # pyright: ignore[reportPrivateUsage]
        self._methods = frozenset(("_initialize_effect", *spec.method_names))
        with self:
            try:
                if effects:
                    self._emit_initial(effects)
                for name, method in zip(spec.method_names, spec.method_specs, strict=True):
                    self._emit_method(name, method, params, effects)
            finally:
                for param, expr in kept:
                    param._expr = expr  # pyright: ignore[reportPrivateUsage]
                for _, effect in effects:
                    if isinstance(effect, ObjectEffect):
                        effect.state = None
        return self.builder.finalize(), [*params], self.extern_mods

    def _emit_initial(self, effects: Sequence[tuple[str, Effect]]) -> None:
        """Emit the function that returns the state of all effects at the beginning."""
        builder = self.builder
        with builder.function("_initialize_effect", []):
            with builder.dataflow():
                states = [state for name, effect in effects for state in effect.emit_init(name, builder)]
                result = builder.emit_output(builder.emit(Tuple(states)))
            builder.emit_func_output(result)

    def _emit_method(
        self, name: str, spec: specs.MethodSpec, params: Named, effects: Sequence[tuple[str, Effect]]
    ) -> None:
        """Emit the function of one method."""
        builder, sizes = self.builder, dict[str, PrimVar]()
        effects = [] if spec.effect_mode == "none" else effects
        inputs = [
            _input_var(arg, arg_spec, sizes) for arg, arg_spec in zip(spec.arg_names, spec.arg_specs, strict=True)
        ]
        states = [effect.create(hint or "_io") for hint, effect in effects]
        flat = [state for group in states for state in group]
        packed_states = _packed("packed_effects", flat, spec.effect_mode)
        weights = [_param_var(hint, param, sizes) for hint, param in params]
        packed_weights = _packed("packed_params", weights, spec.param_mode)
        given = [*inputs, *(packed_states if flat else ())]
        signature = [*given, *packed_weights]
        with builder.function(name, signature, attrs={"num_input": len(given)}):
            with builder.dataflow():
                if spec.effect_mode == "packed" and flat:
                    _unpack(builder, packed_states[0], states, effects)
                _bind(builder, spec.param_mode, weights, packed_weights, params)
                values = [_argument(builder, var, arg) for var, arg in zip(inputs, spec.arg_specs, strict=True)]
                result = returned(_called(spec, values))
                after = [state for _, effect in effects for state in effect.finalize()]
                output = builder.emit_output(Tuple((result, Tuple(after))) if after else result)
            function = builder.emit_func_output(output)
        self._check_bound(name, function, spec, params)
        self._own_sizes(function, inputs)

    def _own_sizes(self, function: GlobalVar, inputs: Sequence[Var]) -> None:
        """Give a function new shape variables where its spec has those of an earlier function."""
        bound = bound_in(*(var.struct_info for var in inputs))
        body = self.builder.functions[function.name_hint]
        if not self._bound.isdisjoint(bound) and isinstance(body, Function):
            self.builder.update_func(function, copy_with_new_vars(body))
        self._bound.update(bound)

    def _check_bound(self, name: str, function: GlobalVar, spec: specs.MethodSpec, params: Named) -> None:
        """Raise ValueError if a function uses variables that it does not bind."""
        body = self.builder.functions[function.name_hint]
        unbound = free_vars(body) if isinstance(body, Function) else ()
        for var in unbound:
            owned = next((hint for hint, param in params if param._expr is var), None)  # pyright: ignore[reportPrivateUsage]
            if owned is not None:
                raise ValueError(
                    f"{name} uses the parameter {owned}, and its spec says {spec.param_mode!r} for param_mode"
                )
            raise ValueError(
                f"{name} uses {var.name_hint!r}, of {var.struct_info}, which is neither an input nor a parameter of "
                "the module: parameters and modules are found as attributes, and in nn.ModuleList and nn.ModuleDict"
            )


def add_extern(mod: ExternCode) -> None:
    """Add a module of other code to the program being exported. Raises RuntimeError outside of an export."""
    Exporter.current().add_external_module(mod)


# ------------------------------------------------------------------------------------ variables of a function


def _input_var(name: str, spec: specs.Arg, sizes: dict[str, PrimVar]) -> Var:
    return Var(name, _info_of(name, spec, sizes))


def _info_of(name: str, spec: specs.Arg, sizes: dict[str, PrimVar]) -> Any:
    match spec:
        case specs.Tensor(shape=shape, dtype=dtype):
            return TensorStructInfo(dims_of(shape, sizes), dtype)
        case specs.Int():
            return ShapeStructInfo(dims_of([name], sizes))
        case specs.Object():
            return ObjectStructInfo()
        case specs.Tuple(elements=elements):
            return TupleStructInfo([_info_of(f"{name}_{index}", e, sizes) for index, e in enumerate(elements)])


def _argument(builder: BlockBuilder, expr: RelaxExpr, spec: specs.Arg, name: str = "") -> Any:
    """Return what the method is called with for a parameter of the function, or a field of one."""
    name = name or (expr.name_hint if isinstance(expr, Var) else "")
    match spec:
        case specs.Tensor():
            return Tensor(_expr=expr) if isinstance(expr, Var) else wrap_nested(expr, name)
        case specs.Int():
            return _size_of(builder, expr)
        case specs.Object(object_type=object_type):
            return object_type(_expr=expr, _name=name)
        case specs.Tuple(elements=elements):
            values = [
                _argument(builder, builder.emit(TupleGetItem(expr, index), f"{name}_{index}"), element)
                for index, element in enumerate(elements)
            ]
            return values if isinstance(elements, list) else tuple(values)


def _size_of(builder: BlockBuilder, expr: RelaxExpr) -> PrimExpr:
    info = builder.normalize(expr).struct_info
    assert isinstance(info, ShapeStructInfo)
    assert info.values is not None
    return info.values[0]


def _param_var(name: str, param: Parameter, sizes: dict[str, PrimVar]) -> Var:
    """Return a variable for a parameter, whose shape variables are those of their names in the function."""

    def own(dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        return substitute(
            dim, {var: sizes.setdefault(var.name, PrimVar(var.name, "int64")) for var in free_vars_of(dim)}
        )

    return Var(name, TensorStructInfo([own(dim) for dim in param.shape], param.dtype))


def _packed(name: str, parts: Sequence[Var], mode: str) -> list[Var]:
    """Return the parameters of a function for these variables in a mode."""
    if mode == "packed":
        return [Var(name, TupleStructInfo([part.struct_info for part in parts]))]
    return [*parts] if mode == "plain" else []


def _unpack(
    builder: BlockBuilder, whole: Var, states: Sequence[Sequence[Var]], effects: Iterable[tuple[str, Effect]]
) -> None:
    """Emit the fields of packed effects, and let them be the effects' states."""
    index = 0
    for (_, effect), group in zip(effects, states, strict=True):
        fields: list[RelaxExpr] = []
        for state in group:
            fields.append(builder.emit(TupleGetItem(whole, index), state.name_hint))
            index += 1
        effect.set_state(fields)


def _bind(builder: BlockBuilder, mode: str, weights: Sequence[Var], packed: Sequence[Var], params: Named) -> None:
    """Let the parameters be the variables of the function, or the fields of its packed parameter."""
    for index, (var, (name, param)) in enumerate(zip(weights, params, strict=True)):
        field = builder.emit(TupleGetItem(packed[0], index), name) if mode == "packed" else var
        param._expr = field  # pyright: ignore[reportPrivateUsage]


def _called(spec: specs.MethodSpec, values: Sequence[Any]) -> Any:
    """Return what the method returns, called by its parameters' names where they are those of the spec."""
    parameters = inspect.signature(spec.method).parameters
    named = all(
        name in parameters and parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        for name in spec.arg_names
    )
    return spec.method(**dict(zip(spec.arg_names, values, strict=True))) if named else spec.method(*values)
