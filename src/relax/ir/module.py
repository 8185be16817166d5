"""IRModule: the functions of a program by their global names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

from typing_extensions import Self

from .expr import BaseFunc, GlobalVar, VDevice
from .node import Node, child, node

_IMMUTABLE = (
    "an IRModule is immutable: write `mod = mod.with_function(name, func)`, "
    "or `mod.with_functions({**mod.functions, ...})` for several"
)


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


@final
@node
class IRModule(Node):
    """{GlobalVar: function}, attributes and global infos, immutable: an update returns a new module.

    `functions` keeps insertion order; a key may be given as a string. Two functions of one name raise ValueError.
    """

    functions: dict[GlobalVar, BaseFunc] = child(default=None, converter=_functions)
    attrs: dict[str, Any] = child(default=None, converter=_dict)
    global_infos: dict[str, tuple[VDevice, ...]] = child(default=None, converter=_infos)

    def get_global_var(self, name: str) -> GlobalVar:
        """The GlobalVar of this name. Raises KeyError naming the functions there are."""
        for global_var in self.functions:
            if global_var.name_hint == name:
                return global_var
        known = ", ".join(repr(g.name_hint) for g in self.functions) or "none"
        raise KeyError(f"the module has no function {name!r} (it has: {known})")

    def get_global_vars(self) -> list[GlobalVar]:
        return list(self.functions)

    def __getitem__(self, key: str | GlobalVar) -> BaseFunc:
        if isinstance(key, GlobalVar) and key in self.functions:
            return self.functions[key]
        return self.functions[self.get_global_var(key if isinstance(key, str) else key.name_hint)]

    def get(self, key: str | GlobalVar) -> BaseFunc | None:
        """The function of this name, None if there is none."""
        return self[key] if key in self else None  # noqa: SIM401  (this is what `get` is made of)

    def __contains__(self, key: object) -> bool:
        name = key.name_hint if isinstance(key, GlobalVar) else key
        return any(global_var.name_hint == name for global_var in self.functions)

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
        """The module itself: nothing can change it."""
        return self

    def __setitem__(self, key: str | GlobalVar, function: BaseFunc) -> None:
        raise TypeError(_IMMUTABLE)

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Not possible: see `with_function`. Raises TypeError."""
        raise TypeError(_IMMUTABLE)

    def update(self, other: Any) -> None:
        """Not possible: see `with_functions`. Raises TypeError."""
        raise TypeError(_IMMUTABLE)

    @staticmethod
    def from_expr(function: BaseFunc) -> IRModule:
        """A module of one function, named by its global_symbol, or main."""
        return IRModule({function.attrs.get("global_symbol", "main"): function})
