"""Module: parameters, other modules and methods, from which a program is exported; and containers of modules.

    class MLP(nn.Module):
        def __init__(self):
            self.up = nn.Linear(784, 128)
            self.down = nn.Linear(128, 10, bias=False)

        def forward(self, x: nn.Tensor):
            return self.down(op.relu(self.up(x)))

    mod, params = MLP().export_tvm({"forward": {"x": spec.Tensor(["n", 784], "float32")}})

Parameters are found as attributes of modules, and their names are the paths to them: "up.weight". A list or dictionary
of modules must be a ModuleList or ModuleDict to be looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, overload

from ...ir import IRModule
from ...runtime.collection import rarely_collected
from ...runtime.devices import Device
from ...runtime.rooms import ModuleWhenUsed
from .effect import Effect
from .exporter import Exporter, ExternCode
from .parameter import Data, Parameter
from .spec import ModuleSpec
from .subroutine import SubroutineMixin
from .tensor import Object, Tensor, get_default_dtype, set_default_dtype, wrap_nested

if TYPE_CHECKING:
    from . import jitted
else:  # builds need the rooms of the compiler, which exports do without
    jitted = ModuleWhenUsed("relax.frontend.nn.jitted")

__all__ = [
    "Effect", "Module", "ModuleDict", "ModuleList", "Object", "Parameter", "ParameterDict", "ParameterList", "Tensor",
    "get_default_dtype", "set_default_dtype", "wrap_nested",
]  # fmt: skip

NamedParameters: TypeAlias = "list[tuple[str, Parameter]]"
ItemT = TypeVar("ItemT", "Module", Parameter)


class Module(SubroutineMixin):
    """Base class of models and their parts.

    A subclass sets parameters and modules as attributes in `__init__`, and has methods that compute with nn.Tensors;
    calling the module calls `forward`.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `forward` returns. Raises NotImplementedError if the class has none."""
        forward = getattr(self, "forward", None)
        if forward is None:
            raise NotImplementedError(f"{type(self).__name__} has no method forward, which calling the module calls")
        return forward(*args, **kwargs)

    # ------------------------------------------------------------------------------ parameters

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Iterate over (name, parameter), in the order in which attributes were set; a shared parameter comes once."""
        yield from _once(_found(self, prefix, Parameter))

    def parameters(self) -> Iterator[Parameter]:
        """Iterate over the parameters, in the order of `named_parameters`."""
        for _, param in self.named_parameters():
            yield param

    def named_effects(self, prefix: str = "") -> Iterator[tuple[str, Effect]]:
        """Iterate over (name, effect), each effect once."""
        yield from _once(_found(self, prefix, Effect))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Iterate over (name, module): this one, then all inside of it, each once."""
        yield prefix, self
        yield from _once(_found(self, prefix, Module))

    def state_dict(self, *, prefix: str = "", destination: dict[str, Parameter] | None = None) -> dict[str, Parameter]:
        """Return the parameters by name, added to `destination` if it is given; shared ones under all their names."""
        result: dict[str, Parameter] = {} if destination is None else destination
        result.update(_found(self, prefix, Parameter))
        return result

    def load_state_dict(
        self, state_dict: Mapping[str, Parameter | Data], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Set the data of the parameters by name, and return (missing names, unexpected names).

        Values are parameters, whose data is taken, arrays, or functions that return one, which are called when the
        data is first read. A shared parameter may have any of its names.

        Raises KeyError for missing or unexpected names if `strict`, ValueError and TypeError for data that does not
        fit its parameter.
        """
        own = self.state_dict()
        given = {id(own[name]) for name in state_dict if name in own}
        missing = [name for name, param in own.items() if id(param) not in given]
        unexpected = [name for name in state_dict if name not in own]
        if strict and (missing or unexpected):
            parts = [
                f"{kind}: {', '.join(map(repr, names))}"
                for kind, names in (("missing", missing), ("unexpected", unexpected))
                if names
            ]
            raise KeyError(f"the state does not fit {type(self).__name__}; {'; '.join(parts)}")
        for name, value in state_dict.items():
            if name in own:
                try:
                    own[name].data = value.data if isinstance(value, Parameter) else value
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{name}: {error}") from None
        return missing, unexpected

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of all parameters and effects, and the attributes `dtype` of modules.

        Raises ValueError if one of the parameters has data.
        """
        for item in vars(self).values():
            if isinstance(item, (Module, Parameter, Effect)):
                item.to(dtype)
        if dtype is not None and isinstance(vars(self).get("dtype"), str):
            self.dtype = dtype

    # ------------------------------------------------------------------------------ programs

    @overload
    def export_tvm(
        self, spec: ModuleSpec | Mapping[str, Any], debug: bool = False, allow_extern: Literal[False] = False
    ) -> tuple[IRModule, NamedParameters]: ...
    @overload
    def export_tvm(
        self, spec: ModuleSpec | Mapping[str, Any], debug: bool = False, *, allow_extern: Literal[True]
    ) -> tuple[IRModule, NamedParameters, list[ExternCode]]: ...
    def export_tvm(self, spec: ModuleSpec | Mapping[str, Any], debug: bool = False, allow_extern: bool = False) -> Any:
        """Return the program of the methods in `spec`, and the named parameters, in the order of its functions'.

        Parameters
        ----------
        spec
            What each method takes: `relax.frontend.nn.spec`.
        debug
            True lets methods print (`op.print_`, `op.debug_func`): functions take and return an object that orders
            output.
        allow_extern
            True returns also the modules of other code that the program calls.

        Returns
        -------
        tuple[IRModule, list[tuple[str, Parameter]]]
            The program and its parameters; with `allow_extern`, a list of `ExternModule` behind them.

        Raises
        ------
        DiagnosticError
            At the line of a method whose operands do not fit.
        ValueError
            For a spec that does not fit the module, and external modules without `allow_extern`.
        """
        mod, params, extern_mods = self._exported(spec, debug)
        if allow_extern:
            return mod, params, extern_mods
        if extern_mods:
            raise ValueError(
                "the program calls functions of external modules; allow_extern=True returns them, to be attached "
                "with relax.frontend.nn.attach_extern_modules"
            )
        return mod, params

    def jit(
        self,
        spec: ModuleSpec | Mapping[str, Any],
        device: str | Device = "cpu",
        pipeline: Any = None,
        out_format: str = "torch",
        debug: bool = False,
        constants: bool = True,
        **build: Any,
    ) -> jitted.JitModule:
        """Compile the methods in `spec`, and return an object with compiled methods: ``compiled["forward"](x)``.

        Parameters
        ----------
        spec
            What each method takes; parameters and effects are passed by the object.
        device
            Device to run on: "cpu", or a Device.
        pipeline
            Passes, or the name of a pipeline, as `relax.build` takes them; its own by default.
        out_format
            Form of tensors in arguments and results: "torch", "numpy", or "relax" for NDArrays.
        debug
            True lets methods print.
        constants
            True makes the parameters constants of the program, which the compiler packs for the machine: products are
            several times as fast. False passes them in each call, so that the program and the parameters share memory;
            so does an argument that has the name of a parameter.
        build
            Further arguments of `relax.build`.

        Raises
        ------
        ValueError
            For another `out_format`, and if a parameter has no data.
        """
        module_spec = ModuleSpec.from_raw(spec, self)
        taken = {name for method in module_spec.method_specs for name in method.arg_names}
        constants = constants and taken.isdisjoint(name for name, _ in self.named_parameters())
        if constants:
            module_spec = jitted.with_constants(module_spec)
        mod, params, extern_mods = self._exported(module_spec, debug)
        return jitted.compiled(mod, params, extern_mods, module_spec, device, pipeline, out_format, constants, build)

    def _exported(
        self, spec: ModuleSpec | Mapping[str, Any], debug: bool
    ) -> tuple[IRModule, list[tuple[str, Parameter]], list[ExternCode]]:
        module_spec = ModuleSpec.from_raw(spec, self)
        with rarely_collected():
            return Exporter(debug).build(module_spec, [*self.named_parameters()], [*self.named_effects()])


class _List(Module, Generic[ItemT]):
    """List of modules or parameters, named by their positions."""

    def __init__(self, items: Iterable[ItemT]) -> None:
        self._items: list[ItemT] = [*items]

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items)

    def __getitem__(self, idx: int) -> ItemT:
        return self._items[idx]

    def __setitem__(self, idx: int, item: ItemT) -> None:
        self._items[idx] = item

    def __len__(self) -> int:
        return len(self._items)

    def append(self, item: ItemT) -> None:
        """Add an item at the end."""
        self._items.append(item)

    def extend(self, items: Iterable[ItemT]) -> None:
        """Add items at the end."""
        self._items.extend(items)

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of all items."""
        for item in self._items:
            item.to(dtype)


class ModuleList(_List[Module]):
    """List of modules, named by their positions: "layers.0.weight". Calling it calls one after the other."""

    def __init__(self, modules: Iterable[Module]) -> None:
        super().__init__(modules)

    @property
    def modules(self) -> list[Module]:
        """Mutable list of the modules; changing it changes this ModuleList."""
        return self._items

    def forward(self, x: Any) -> Any:
        """Return `x` after each module in turn."""
        for module in self:
            x = module(x)
        return x


class ParameterList(_List[Parameter]):
    """List of parameters, named by their positions."""

    def __init__(self, params: Iterable[Parameter] | None = None) -> None:
        super().__init__(params or ())

    @property
    def params(self) -> list[Parameter]:
        """The parameters, in the list itself."""
        return self._items


class _Dict(Module, Generic[ItemT]):
    """Dictionary of modules or parameters, named by their keys."""

    def __init__(self, items: Mapping[str, ItemT] | None) -> None:
        self._items: dict[str, ItemT] = dict(items or {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __getitem__(self, key: str) -> ItemT:
        return self._items[key]

    def __setitem__(self, key: str, item: ItemT) -> None:
        self._items[key] = item

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def keys(self) -> Iterable[str]:
        """Return the keys."""
        return self._items.keys()

    def values(self) -> Iterable[ItemT]:
        """Return the items."""
        return self._items.values()

    def items(self) -> Iterable[tuple[str, ItemT]]:
        """Return pairs of key and item."""
        return self._items.items()

    def get(self, key: str, default: ItemT | None = None) -> ItemT | None:
        """Return the item of a key, or `default`."""
        return self._items.get(key, default)

    def update(self, items: Mapping[str, ItemT]) -> None:
        """Add or replace items."""
        self._items.update(items)

    def pop(self, key: str) -> ItemT:
        """Remove an item, and return it. Raises KeyError for an unknown key."""
        return self._items.pop(key)

    def clear(self) -> None:
        """Remove all items."""
        self._items.clear()

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of all items."""
        for item in self._items.values():
            item.to(dtype)


class ModuleDict(_Dict[Module]):
    """Dictionary of modules, named by their keys: "experts.first.weight"."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__(modules)

    @property
    def modules(self) -> dict[str, Module]:
        """The modules, in the dictionary itself."""
        return self._items


class ParameterDict(_Dict[Parameter]):
    """Dictionary of parameters, named by their keys."""

    def __init__(self, params: Mapping[str, Parameter] | None = None) -> None:
        super().__init__(params)

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters, in the dictionary itself."""
        return self._items


FoundT = TypeVar("FoundT", Parameter, Effect, Module)


def members(module: Module) -> Iterable[tuple[str, Any]]:
    """Return what a module holds, by name: attributes, or the items of a list or dictionary."""
    match module:
        case ModuleList() | ParameterList():
            items: Sequence[Any] = [*module]
            return [(str(index), item) for index, item in enumerate(items)]
        case ModuleDict() | ParameterDict():
            return [*module.items()]
        case _:
            return [*vars(module).items()]


def _found(module: Module, prefix: str, kind: type[FoundT]) -> Iterator[tuple[str, FoundT]]:
    """Iterate over the objects of a kind inside of a module, by the path to each, depth first."""
    for name, item in members(module):
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(item, kind):
            yield path, item
        if isinstance(item, Module):
            yield from _found(item, path, kind)


def _once(items: Iterable[tuple[str, FoundT]]) -> Iterator[tuple[str, FoundT]]:
    seen: set[int] = set()
    for name, item in items:
        if id(item) not in seen:
            seen.add(id(item))
            yield name, item
