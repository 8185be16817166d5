"""IRModule: the functions of a program by their global names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, final, overload

from typing_extensions import Self

from . import printing
from .expr import BaseFunc, GlobalVar, RelaxExpr, VDevice
from .node import Node, child, node, set_slot


def _functions(value: Mapping[Any, BaseFunc] | None) -> dict[GlobalVar, BaseFunc]:
    table: dict[GlobalVar, BaseFunc] = {}
    seen: set[str] = set()
    for key, function in (value or {}).items():
        global_var = GlobalVar(key) if isinstance(key, str) else key
        if global_var.name_hint in seen:
            raise ValueError(f"IRModule: two functions are named {global_var.name_hint!r}")
        seen.add(global_var.name_hint)
        table[global_var] = function
    return table


def _dict(value: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(value or {})


def _infos(value: Mapping[str, Any] | None) -> dict[str, tuple[VDevice, ...]]:
    return {key: tuple(items) for key, items in (value or {}).items()}


def _definitions(value: Mapping[Any, Node] | None) -> dict[Node, Node]:
    table = dict(value or {})
    seen: set[str] = set()
    for key in table:
        if name_of(key) in seen:
            raise ValueError(f"IRModule: two types are named {name_of(key)!r}")
        seen.add(name_of(key))
    return table


def name_of(key: Any) -> str:
    """Name of a GlobalVar or a GlobalTypeVar."""
    return key.name_hint


class _ByName(Node):
    """Base class with a slot for the table of names, built on the first look-up."""

    __slots__ = ("_names",)

    _names: tuple[dict[GlobalVar, BaseFunc], dict[str, GlobalVar]]


@final
@node
class IRModule(_ByName):
    """Functions by GlobalVar, attributes, global infos, and type definitions by GlobalTypeVar.

    `functions` keeps insertion order; a key may be given as a string. Duplicate names raise ValueError. ``mod["f"] =
    function`` and `update` modify the module in place, as in TVM; `with_function` and similar methods return a new one.
    Passes never modify their input module. Relay's modules also have type definitions (`relay.TypeData`).
    """

    functions: dict[GlobalVar, BaseFunc] = child(default=None, converter=_functions)
    attrs: dict[str, Any] = child(default=None, converter=_dict)
    global_infos: dict[str, tuple[VDevice, ...]] = child(default=None, converter=_infos)
    type_definitions: dict[Node, Node] = child(default=None, converter=_definitions)

    def astext(self, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None) -> str:
        """Return the text of the module, which its parser reads: TVMScript (`relax.script.from_source`) or Relay
        (`relay.fromtext`).

        Constants are stored in a section of metadata; without `show_meta_data` it is omitted, and the text cannot be
        parsed again. `annotate` returns the text of a comment for each expression.
        """
        return printing.astext(self, show_meta_data, annotate)

    def get_global_var(self, name: str) -> GlobalVar:
        """GlobalVar of a name. Raises KeyError listing the module's functions."""
        global_var = self.global_vars_by_name.get(name)
        if global_var is not None:
            return global_var
        names = ", ".join(repr(g.name_hint) for g in self.functions) or "none"
        raise KeyError(f"the module has no function {name!r} (it has: {names})")

    @property
    def global_vars_by_name(self) -> Mapping[str, GlobalVar]:
        """GlobalVars by name, in a shared table."""
        cached = getattr(self, "_names", None)
        if cached is None or cached[0] is not self.functions:
            cached = self.functions, {global_var.name_hint: global_var for global_var in self.functions}
            set_slot(self, "_names", cached)
        return cached[1]

    def get_global_vars(self) -> list[GlobalVar]:
        return list(self.functions)

    @overload
    def __getitem__(self, key: str) -> Any: ...

    @overload
    def __getitem__(self, key: GlobalVar) -> BaseFunc: ...

    def __getitem__(self, key: str | GlobalVar) -> BaseFunc:
        """Function of a name or GlobalVar. For a name, type checkers infer the function class from the context."""
        if isinstance(key, GlobalVar) and key in self.functions:
            return self.functions[key]
        return self.functions[self.get_global_var(key if isinstance(key, str) else key.name_hint)]

    def get(self, key: str | GlobalVar) -> BaseFunc | None:
        """Function of a name; None if there is none."""
        return self[key] if key in self else None  # noqa: SIM401  (this is what `get` is made of)

    def __contains__(self, key: object) -> bool:
        name = key.name_hint if isinstance(key, GlobalVar) else key
        return name in self.global_vars_by_name

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """Pairs in insertion order."""
        return list(self.functions.items())

    def with_functions(self, functions: Mapping[Any, BaseFunc]) -> Self:
        """Module with exactly these functions; the module itself if they are the same objects in the same order."""
        same = len(functions) == len(self.functions) and all(
            a is b and f is g for (a, f), (b, g) in zip(functions.items(), self.functions.items(), strict=True)
        )
        return self if same else self.replace(functions=functions)

    def with_function(self, key: GlobalVar | str, function: BaseFunc) -> Self:
        """Module with one function added or replaced."""
        name = key if isinstance(key, str) else key.name_hint
        if name in self:
            target = self.get_global_var(name)
            return self.with_functions({g: function if g is target else f for g, f in self.functions.items()})
        added = GlobalVar(key) if isinstance(key, str) else key
        return self.with_functions({**self.functions, added: function})

    def without(self, names: Iterable[str]) -> Self:
        """Module without the functions of these names."""
        dropped = set(names)
        return self.with_functions({g: f for g, f in self.functions.items() if g.name_hint not in dropped})

    def with_attr(self, key: str, value: Any) -> Self:
        return self.replace(attrs={**self.attrs, key: value})

    def with_attrs(self, attrs: Mapping[str, Any]) -> Self:
        """Module with attributes added or replaced."""
        return self.replace(attrs={**self.attrs, **attrs})

    def without_attr(self, key: str) -> Self:
        """Module without an attribute."""
        return self.replace(attrs={k: v for k, v in self.attrs.items() if k != key})

    def get_attr(self, key: str, default: Any = None) -> Any:
        """Attribute of a name, or `default`."""
        return self.attrs.get(key, default)

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """Pairs in insertion order."""
        return self.items()

    def clone(self) -> Self:
        """Copy of the module that can be modified independently; functions are shared."""
        return type(self)(self.functions, self.attrs, self.global_infos, self.type_definitions, span=self.span)

    def __setitem__(self, key: str | GlobalVar, function: BaseFunc) -> None:
        """Add a function, or replace the one of the same name."""
        self.update({key: function})

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Add a function, or replace the one named by `var`."""
        self[var] = func

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        """Add or replace the functions and types of another module, or the functions of a dict by name or GlobalVar.

        Raises TypeError if the dict holds another value; the module is then unchanged.
        """
        if isinstance(other, IRModule):
            for key, definition in other.type_definitions.items():
                self.update_type_definition(key, definition)
        # A new table: what was found out about the functions is kept by the identity of the table.
        functions = dict(self.functions)
        by_name = dict(self.global_vars_by_name)
        for key, function in (other.functions if isinstance(other, IRModule) else other).items():
            if not isinstance(function, BaseFunc):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"a module holds functions, found {type(function).__name__}")
            given = GlobalVar(key) if isinstance(key, str) else key
            functions[by_name.setdefault(given.name_hint, given)] = function
        set_slot(self, "functions", functions)

    def update_global_info(self, name: str, global_info: Iterable[VDevice]) -> None:
        """Set the global infos under a name: ``mod.update_global_info("vdevice", [relax.ir.VDevice("llvm")])``."""
        self.global_infos[name] = tuple(global_info)

    def get_global_type_var(self, name: str) -> Any:
        """GlobalTypeVar of a name. Raises KeyError listing the module's types."""
        for key in self.type_definitions:
            if name_of(key) == name:
                return key
        names = ", ".join(repr(name_of(key)) for key in self.type_definitions) or "none"
        raise KeyError(f"the module has no type {name!r} (it has: {names})")

    def get_global_type_vars(self) -> list[Any]:
        return list(self.type_definitions)

    def get_type(self, name: str) -> tuple[Any, ...]:
        """GlobalTypeVar of a name, followed by the constructors of its definition in order."""
        key = self.get_global_type_var(name)
        definition: Any = self.type_definitions[key]
        return key, *definition.constructors

    def update_type_definition(self, key: Node, definition: Node) -> None:
        """Add a type definition, or replace the one of the same name."""
        table = dict(self.type_definitions)
        same = next((other for other in table if name_of(other) == name_of(key)), key)
        table[same] = definition
        set_slot(self, "type_definitions", table)

    @staticmethod
    def from_expr(expr: RelaxExpr) -> IRModule:
        """Module of one function, named by its global_symbol, or main.

        Another expression of Relay becomes the body of a function of its free variables. Raises TypeError for other
        nodes.
        """
        close = next((close for kind, close in _closings if isinstance(expr, kind)), None)
        function = expr if isinstance(expr, BaseFunc) or close is None else close(expr)
        if not isinstance(function, BaseFunc):
            raise TypeError(
                f"IRModule.from_expr takes a function, found {type(expr).__name__}"
                " (a BlockBuilder makes a function of expressions of Relax)"
            )
        return IRModule({function.attrs.get("global_symbol", "main"): function})


_closings: list[tuple[type, Callable[[Any], BaseFunc]]] = []


def register_closing(kind: type, close: Callable[[Any], BaseFunc]) -> None:
    """Make `IRModule.from_expr` close expressions of class `kind` over their free variables by `close`."""
    _closings.append((kind, close))
