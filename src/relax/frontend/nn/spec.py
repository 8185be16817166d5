"""Specs: what the methods of a module take, so that `Module.export_tvm` can make functions of them.

    {
        "forward": {
            "x": spec.Tensor(["batch", 4], "float32"),      a tensor; strings are shape variables
            "length": int,                                  a size, passed as a shape of one dimension
            "pair": (spec.Tensor([1], "int32"), int),       a tuple
            "cache": spec.Object(PagedKVCache),             any other value
            "$": {"param_mode": "packed", "effect_mode": "none"},
        },
    }

Modes say how a function takes the module's parameters (`param_mode`) and effects (`effect_mode`): "plain" one by one,
"packed" in a tuple, "none" not at all. By default both are "plain".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .tensor import Object as ObjectValue

MODES: Final = ("plain", "packed", "none")


class Int:
    """A size: in the method an expression, in the function a shape of one dimension."""

    def __repr__(self) -> str:
        return "int"


class Tensor:
    """A tensor. Equal strings in the shapes of one method are one size."""

    def __init__(self, shape: Sequence[Any], dtype: str) -> None:
        self.shape = [*shape]
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(map(str, self.shape))}], '{self.dtype}')"


class Object:
    """Any other value, as an instance of `object_type`, a subclass of nn.Object."""

    def __init__(self, object_type: type[ObjectValue] = ObjectValue) -> None:
        self.object_type = object_type

    def __repr__(self) -> str:
        return self.object_type.__name__


class Tuple:
    """A tuple of values; the method gets a list or a tuple, as `elements` is one."""

    def __init__(self, name: str, elements: Sequence[Any]) -> None:
        self.name = name
        converted = [_converted(element, f"{name}_{index}") for index, element in enumerate(elements)]
        self.elements: list[Arg] | tuple[Arg, ...] = converted if isinstance(elements, list) else tuple(converted)

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.elements))})"


Arg: TypeAlias = "Int | Tensor | Object | Tuple"
"""Spec of an argument."""


class MethodSpec:
    """Parameters of one method, and its modes.

    `method` is the bound method, `arg_names` and `arg_specs` its parameters in order. Raises ValueError for modes other
    than "plain", "packed", "none".
    """

    def __init__(
        self,
        method: Callable[..., Any],
        arg_names: Sequence[str],
        arg_specs: Sequence[Arg],
        param_mode: str = "plain",
        effect_mode: str = "plain",
    ) -> None:
        for name, mode in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            if mode not in MODES:
                raise ValueError(f'{name} must be one of "plain", "packed", "none", found {mode!r}')
        self.method = method
        self.arg_names, self.arg_specs = [*arg_names], [*arg_specs]
        self.param_mode, self.effect_mode = param_mode, effect_mode

    def __repr__(self) -> str:
        return self._repr("MethodSpec")

    def _repr(self, name: str) -> str:
        pairs = zip(self.arg_names, self.arg_specs, strict=True)
        return f"{name}({', '.join(f'{arg}: {spec!r}' for arg, spec in pairs)})"

    @staticmethod
    def from_raw(spec: MethodSpec | Mapping[str, Any], method: Callable[..., Any]) -> MethodSpec:
        """Return the spec of a method from a mapping of its parameters; a MethodSpec is returned unchanged.

        Raises ValueError if the mapping has other names than the method's parameters, or unknown modes, TypeError for
        a value that specifies nothing.
        """
        if isinstance(spec, MethodSpec):
            return spec
        given = dict(spec)
        config: Mapping[str, Any] = given.pop("$", {})
        for key in config:
            if key not in ("param_mode", "effect_mode"):
                raise ValueError(f'"$" has "param_mode" and "effect_mode", found {key!r}')
        name = getattr(method, "__name__", "the method")
        parameters = inspect.signature(method).parameters
        for key in given:
            if key not in parameters:
                raise ValueError(f"{name} has no parameter {key!r}; it has {', '.join(parameters) or 'none'}")
        missing = [key for key, p in parameters.items() if key not in given and p.default is p.empty]
        missing = [key for key in missing if parameters[key].kind not in (_STAR, _STARS)]
        if missing:
            raise ValueError(f"the spec of {name} lacks its parameters {', '.join(missing)}")
        names = [key for key in parameters if key in given]
        specs = [_converted(given[key], key) for key in names]
        return MethodSpec(method, names, specs, config.get("param_mode", "plain"), config.get("effect_mode", "plain"))

    @staticmethod
    def from_torch(args: Sequence[Any], method: Callable[..., Any]) -> MethodSpec:
        """Return the spec of a method that is called with these arguments: torch tensors, arrays, ints, tuples."""
        names = [*inspect.signature(method).parameters][: len(args)]
        if len(names) < len(args):
            raise ValueError(f"the method takes {len(names)} arguments, found {len(args)}")
        return MethodSpec(method, names, [_spec_of(arg, name) for arg, name in zip(args, names, strict=True)])


_STAR, _STARS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class ModuleSpec:
    """Specs of the methods of a module that become functions, in order."""

    def __init__(self, module: Any, method_names: Sequence[str], method_specs: Sequence[MethodSpec]) -> None:
        self.module = module
        self.method_names, self.method_specs = [*method_names], [*method_specs]

    @staticmethod
    def from_raw(spec: ModuleSpec | Mapping[str, Any], module: Any) -> ModuleSpec:
        """Return the spec of a module from a mapping of its methods; a ModuleSpec is returned unchanged.

        Raises ValueError if the module has no such method, and as `MethodSpec.from_raw` does.
        """
        if isinstance(spec, ModuleSpec):
            return spec
        methods: list[MethodSpec] = []
        for name, method_spec in spec.items():
            method = getattr(module, name, None)
            if not callable(method):
                raise ValueError(f"{type(module).__name__} has no method {name!r}")
            methods.append(MethodSpec.from_raw(method_spec, method))
        return ModuleSpec(module, [*spec], methods)

    def __repr__(self) -> str:
        lines = [
            f"  {spec._repr(name)}"  # pyright: ignore[reportPrivateUsage]
            for name, spec in zip(self.method_names, self.method_specs, strict=True)
        ]
        return "\n".join(["ModuleSpec:", *lines])


def _converted(value: Any, name: str) -> Arg:
    """Return the spec that a user wrote, with `int`, lists and tuples converted. Raises TypeError for others."""
    match value:
        case Int() | Tensor() | Object() | Tuple():
            return value
        case list() | tuple():
            return Tuple(name, value)  # pyright: ignore[reportUnknownArgumentType]
        case type() if value is int:
            return Int()
        case type() if issubclass(value, ObjectValue):
            return Object(value)
        case _:
            raise TypeError(
                f"{name}: expected int, spec.Tensor(shape, dtype), spec.Object(type), or a tuple of them, "
                f"found {value!r}"
            )


def _spec_of(arg: Any, name: str) -> Arg:
    if isinstance(arg, int):
        return Int()
    if isinstance(arg, (list, tuple)):
        specs = [_spec_of(item, name) for item in arg]  # pyright: ignore[reportUnknownVariableType]
        return Tuple(name, specs if isinstance(arg, list) else tuple(specs))
    if hasattr(arg, "shape") and hasattr(arg, "dtype"):
        return Tensor([int(size) for size in arg.shape], str(arg.dtype).removeprefix("torch."))
    raise TypeError(f"{name}: expected a tensor, an int, or a tuple of them, found {type(arg).__name__}")
