"""IRModule: the functions of a program by their global names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final, overload

from typing_extensions import Self

from .expr import BaseFunc, GlobalVar, VDevice
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
    """The name that a GlobalVar or a GlobalTypeVar stands for."""
    return key.name_hint


class _ByName(Node):
    """A slot for the names of a module's functions, written when the first is looked up."""

    __slots__ = ("_names",)

    _names: tuple[dict[GlobalVar, BaseFunc], dict[str, GlobalVar]]


@final
@node
class IRModule(_ByName):
    """{GlobalVar: function}, attributes, global infos, and {GlobalTypeVar: type definition}.

    `functions` keeps insertion order; a key may be given as a string. Two functions of one name raise ValueError.
    ``mod["f"] = function`` and `update` change the module itself, as in TVM; `with_function` and its kin return a
    new one, which is what passes do: a pass never changes the module it is given. Relay's
    modules have type definitions (`relay.TypeData`) too.
    """

    functions: dict[GlobalVar, BaseFunc] = child(default=None, converter=_functions)
    attrs: dict[str, Any] = child(default=None, converter=_dict)
    global_infos: dict[str, tuple[VDevice, ...]] = child(default=None, converter=_infos)
    type_definitions: dict[Node, Node] = child(default=None, converter=_definitions)

    def get_global_var(self, name: str) -> GlobalVar:
        """The GlobalVar of this name. Raises KeyError naming the functions there are."""
        global_var = self.global_vars_by_name.get(name)
        if global_var is not None:
            return global_var
        known = ", ".join(repr(g.name_hint) for g in self.functions) or "none"
        raise KeyError(f"the module has no function {name!r} (it has: {known})")

    @property
    def global_vars_by_name(self) -> Mapping[str, GlobalVar]:
        """The GlobalVars by their names; one table for all who ask."""
        known = getattr(self, "_names", None)
        if known is None or known[0] is not self.functions:
            known = self.functions, {global_var.name_hint: global_var for global_var in self.functions}
            set_slot(self, "_names", known)
        return known[1]

    def get_global_vars(self) -> list[GlobalVar]:
        return list(self.functions)

    @overload
    def __getitem__(self, key: str) -> Any: ...

    @overload
    def __getitem__(self, key: GlobalVar) -> BaseFunc: ...

    def __getitem__(self, key: str | GlobalVar) -> BaseFunc:
        """A function. Of a name, type checkers take the result for the kind of function that the caller expects."""
        if isinstance(key, GlobalVar) and key in self.functions:
            return self.functions[key]
        return self.functions[self.get_global_var(key if isinstance(key, str) else key.name_hint)]

    def get(self, key: str | GlobalVar) -> BaseFunc | None:
        """The function of this name, None if there is none."""
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
        """The module holding exactly these functions; itself if they are the same objects in the same order."""
        same = len(functions) == len(self.functions) and all(
            a is b and f is g
            for (a, f), (b, g) in zip(functions.items(), self.functions.items(), strict=True)
        )
        return self if same else self.replace(functions=functions)

    def with_function(self, key: GlobalVar | str, function: BaseFunc) -> Self:
        """The module with one function added, or replaced in its place."""
        name = key if isinstance(key, str) else key.name_hint
        if name in self:
            target = self.get_global_var(name)
            return self.with_functions({g: function if g is target else f for g, f in self.functions.items()})
        added = GlobalVar(key) if isinstance(key, str) else key
        return self.with_functions({**self.functions, added: function})

    def without(self, names: Iterable[str]) -> Self:
        """The module without the functions of these names."""
        dropped = set(names)
        return self.with_functions({g: f for g, f in self.functions.items() if g.name_hint not in dropped})

    def with_attr(self, key: str, value: Any) -> Self:
        return self.replace(attrs={**self.attrs, key: value})

    def with_attrs(self, attrs: Mapping[str, Any]) -> Self:
        """The module with these attributes added or replaced."""
        return self.replace(attrs={**self.attrs, **attrs})

    def without_attr(self, key: str) -> Self:
        """The module without the attribute."""
        return self.replace(attrs={k: v for k, v in self.attrs.items() if k != key})

    def get_attr(self, key: str, default: Any = None) -> Any:
        """The attribute, or `default`."""
        return self.attrs.get(key, default)

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """Pairs in insertion order."""
        return self.items()

    def clone(self) -> Self:
        """A module of the same functions, which can be changed without changing this one."""
        return type(self)(
            self.functions, self.attrs, self.global_infos, self.type_definitions, span=self.span
        )

    def __setitem__(self, key: str | GlobalVar, function: BaseFunc) -> None:
        """Put a function in the place of the one of this name, or add it."""
        self.update({key: function})

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Put a function in the place of the one `var` names, or add it."""
        self[var] = func

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        """Put in all functions and types of another module, or all functions of a table by name or GlobalVar.

        Raises TypeError if the table holds something else; then no function of it is put in.
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
        """Set the global infos of a name: ``mod.update_global_info("vdevice", [relax.ir.VDevice("llvm")])``."""
        self.global_infos[name] = tuple(global_info)

    def get_global_type_var(self, name: str) -> Any:
        """The GlobalTypeVar of this name. Raises KeyError naming the types there are."""
        for key in self.type_definitions:
            if name_of(key) == name:
                return key
        names = ", ".join(repr(name_of(key)) for key in self.type_definitions) or "none"
        raise KeyError(f"the module has no type {name!r} (it has: {names})")

    def get_global_type_vars(self) -> list[Any]:
        return list(self.type_definitions)

    def get_type(self, name: str) -> tuple[Any, ...]:
        """The GlobalTypeVar of this name and the constructors of its definition, in order."""
        key = self.get_global_type_var(name)
        definition: Any = self.type_definitions[key]
        return key, *definition.constructors

    def update_type_definition(self, key: Node, definition: Node) -> None:
        """Put a type definition in the place of the one of this name, or add it."""
        table = dict(self.type_definitions)
        same = next((other for other in table if name_of(other) == name_of(key)), key)
        table[same] = definition
        set_slot(self, "type_definitions", table)

    @staticmethod
    def from_expr(function: BaseFunc) -> IRModule:
        """A module of one function, named by its global_symbol, or main."""
        return IRModule({function.attrs.get("global_symbol", "main"): function})
