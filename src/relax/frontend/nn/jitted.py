"""Compiled modules: what `Module.jit` returns.

compiled = model.jit(spec, out_format="numpy")
y = compiled["forward"](x)          parameters and effects are passed by `compiled`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from ...extern_modules import with_extern_modules
from ...ir import IRModule
from ...runtime import nd
from ...runtime.devices import Device
from ...runtime.devices import device as device_of
from ...runtime.modules import required
from ...runtime.nd import NDArray
from ...runtime.sizes import shape_value
from ...runtime.vm import VirtualMachine
from ...vm.driver import build
from . import spec as specs
from .exporter import ExternCode
from .parameter import Parameter

FORMATS: Final = ("torch", "numpy", "relax")
"""Forms of tensors in arguments and results."""


class JitModule:
    """Compiled methods of a module, by name, with its parameters and the state of its effects.

    The state changes with each call of a method that has effects. `reset` begins again.
    """

    def __init__(
        self, spec: specs.ModuleSpec, vm: VirtualMachine, params: Sequence[NDArray], out_format: str = "torch"
    ) -> None:
        self.spec, self.vm, self.params, self.out_format = spec, vm, [*params], out_format
        self._has_effects = "_initialize_effect" in vm.executable.entry_points
        self.effects: tuple[Any, ...] = ()
        self.reset()

    def reset(self) -> None:
        """Let the effects begin again."""
        self.effects = tuple(self.vm["_initialize_effect"]()) if self._has_effects else ()

    def __getitem__(self, method_name: str) -> Callable[..., Any]:
        """Return a compiled method. Raises KeyError for a name that the spec does not have."""
        if method_name not in self.spec.method_names:
            raise KeyError(f"no method {method_name!r} was compiled; there is {', '.join(self.spec.method_names)}")
        spec = self.spec.method_specs[self.spec.method_names.index(method_name)]

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(method_name, spec, args, kwargs)

        call.__name__ = method_name
        return call

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "spec" not in vars(self) or name not in self.spec.method_names:
            raise AttributeError(f"the compiled module has no method {name!r}")
        return self[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the method `forward` returns."""
        return self["forward"](*args, **kwargs)

    def _call(self, name: str, spec: specs.MethodSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(spec.arg_names, args, strict=False))
        unknown = [key for key in kwargs if key not in spec.arg_names or key in given]
        missing = [key for key in spec.arg_names if key not in given and key not in kwargs]
        if unknown or missing or len(args) > len(spec.arg_names):
            raise TypeError(f"{spec._repr(name)} takes these arguments, each once")  # pyright: ignore[reportPrivateUsage]
        given.update(kwargs)
        values = [_passed(given[key], arg, key) for key, arg in zip(spec.arg_names, spec.arg_specs, strict=True)]
        effects = self.effects if spec.effect_mode != "none" else ()
        if effects:
            values += [effects] if spec.effect_mode == "packed" else effects
        if spec.param_mode == "packed":
            values.append(tuple(self.params))
        elif spec.param_mode == "plain":
            values += self.params  # none, if they are constants of the program
        result = self.vm[name](*values)
        if effects:
            result, self.effects = result[0], tuple(result[1])
        return _returned(result, self.out_format)


def compiled(
    mod: IRModule,
    params: Sequence[tuple[str, Parameter]],
    extern_mods: Sequence[ExternCode],
    spec: specs.ModuleSpec,
    device: str | Device,
    pipeline: Any,
    out_format: str,
    constants: bool,
    options: Mapping[str, Any],
) -> JitModule:
    """Build an exported program, and return its methods. Raises ValueError as `Module.jit` does."""
    if out_format not in FORMATS:
        raise ValueError(f"out_format must be one of {', '.join(map(repr, FORMATS))}, found {out_format!r}")
    used = params if any(method.param_mode != "none" for method in spec.method_specs) else ()
    lacking = [name for name, param in used if not param.has_data]
    if lacking:
        raise ValueError(f"these parameters have no data: {', '.join(lacking)}")
    values = {name: _data_of(name, param) for name, param in used}
    whole = with_extern_modules(mod, [module.load() for module in extern_mods])
    arguments = {**options, **({} if pipeline is None else {"pipeline": pipeline})}
    if constants and values:
        arguments["params"] = {**values, **arguments.get("params", {})}
    vm = VirtualMachine(build(whole, **arguments), device_of(device) if isinstance(device, str) else device)
    return JitModule(spec, vm, () if constants else [*values.values()], out_format)


def with_constants(spec: specs.ModuleSpec) -> specs.ModuleSpec:
    """Return a spec whose functions take parameters one by one, so that they can be bound by name."""
    methods = [
        specs.MethodSpec(
            method.method, method.arg_names, method.arg_specs,
            "none" if method.param_mode == "none" else "plain", method.effect_mode,
        )
        for method in spec.method_specs
    ]  # fmt: skip
    return specs.ModuleSpec(spec.module, spec.method_names, methods)


def _data_of(name: str, param: Parameter) -> NDArray:
    """Return the data of a parameter; what is wrong with it is said under its name."""
    try:
        data = param.data
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    assert data is not None
    return data


def _passed(value: Any, spec: specs.Arg, name: str) -> Any:
    """Return an argument as the program takes it. Raises TypeError for one that its spec does not describe."""
    match spec:
        case specs.Int():
            if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
                return shape_value((int(cast(int, value)),))
            raise TypeError(f"{name}: expected an int, found {type(value).__name__}")
        case specs.Tensor():
            if isinstance(value, (NDArray, np.ndarray)):
                return value  # pyright: ignore[reportUnknownVariableType]
            if hasattr(value, "__dlpack__"):
                return nd.from_dlpack(value.detach() if hasattr(value, "detach") else value)
            raise TypeError(f"{name}: expected a tensor, found {type(value).__name__}")
        case specs.Tuple(elements=elements):
            if not isinstance(value, (list, tuple)) or len(cast("Sequence[Any]", value)) != len(elements):
                raise TypeError(f"{name}: expected {len(elements)} values, found {value!r}")
            pairs = zip(cast("Sequence[Any]", value), elements, strict=True)
            return tuple(_passed(item, element, f"{name}[{index}]") for index, (item, element) in enumerate(pairs))
        case specs.Object():
            return value


def _returned(value: Any, out_format: str) -> Any:
    """Return a result with its tensors in the form asked for."""
    if isinstance(value, NDArray):
        if out_format == "relax":
            return value
        if out_format == "numpy":
            return value.numpy()
        return required("torch", "torch").from_dlpack(value)
    if isinstance(value, (list, tuple)):
        return tuple(_returned(item, out_format) for item in cast("Sequence[Any]", value))
    return value
