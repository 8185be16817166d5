"""Dataclasses whose methods are compiled when they are first used.

The decorator of the standard library compiles up to six methods of a class when the class is declared, each with a call
of `exec`. This was a third of the time in which the compiler's modules are imported, and most of the classes are never
instantiated. Here a declaration only reads the fields:

    from ..runtime.records import dataclass

    @dataclass(frozen=True)
    class Register:
        name: str
        bits: int = 64

`Register("x0")` compiles `__init__`; the first comparison compiles `__eq__`, the first hash `__hash__`.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

_MISSING: Any = dataclasses.MISSING


class _Factory:
    """Default of a parameter whose field has a factory, as signatures show it."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


class WhenUsed:
    """Method of a class that is made when it is first looked up, and then replaces this descriptor in the class."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, owner: type[Any], name: str, make: Callable[[type[Any]], Any]) -> None:
        self._owner, self._name, self._make = owner, name, make

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        method = self._make(self._owner)
        if vars(self._owner).get(self._name) is self:
            setattr(self._owner, self._name, method)
        return method.__get__(instance, owner)


@functools.lru_cache(maxsize=1024)
def _code(text: str) -> types.CodeType:
    """Compile statements; classes with the same fields have the same ones."""
    return compile(text, "<string>", "exec")


def compiled(cls: type[Any], name: str, parameters: str, body: Iterable[str], namespace: dict[str, Any]) -> Any:
    """Compile a method of `cls` from its parameters and the lines of its body, which read names of `namespace`."""
    lines = "\n".join(f"    {line}" for line in body)
    exec(_code(f"def {name}({parameters}):\n{lines}"), namespace)
    method = namespace[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method


if TYPE_CHECKING:  # type checkers know the library's decorator
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, repr=True, slots=False):
        """Make a class a dataclass, as `dataclasses.dataclass` does with the same options.

        Raises TypeError if a field without a default follows one with a default, or if a frozen class defines
        ``__setattr__`` or ``__delattr__``. Unlike the library, allows a frozen class to inherit from one that is not.
        """

        def declare(declared):
            return _declared(declared, eq, frozen, repr, slots)

        return declare if cls is None else declare(cls)


def _declared(cls: type[Any], eq: bool, frozen: bool, shown: bool, slots: bool) -> type[Any]:
    """Make `cls` a dataclass: `eq` adds `__eq__` and (if frozen) `__hash__`, `shown` adds `__repr__`."""
    written = vars(cls)
    hashed = "__hash__" in written and not (written["__hash__"] is None and "__eq__" in written)  # by its own method
    documented = cls.__doc__
    cls.__doc__ = documented or cls.__name__  # otherwise the library writes one, of a signature that it inspects
    params: list[Any] = [getattr(base, "__dataclass_params__", None) for base in cls.__mro__[1:]]
    inherits = any(one is not None and one.frozen for one in params)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, frozen=frozen and inherits)(cls)
    made.__dataclass_params__.frozen = frozen  # which the library asks of the bases of its own classes
    made.__doc__ = documented
    _check_order(made)
    if "__init__" not in written:
        made.__init__ = WhenUsed(made, "__init__", _init_frozen if frozen else _init)
    if shown and "__repr__" not in written:
        made.__repr__ = _repr
    if eq:
        if "__eq__" not in written:
            made.__eq__ = WhenUsed(made, "__eq__", _eq)
        if not hashed:
            made.__hash__ = WhenUsed(made, "__hash__", _hash) if frozen else None
    if frozen and not inherits:
        _freeze(made, slots)
    return made


def _check_order(cls: type[Any]) -> None:
    """Raise TypeError if a positional field without a default follows one with a default."""
    optional = ""
    for field in dataclasses.fields(cls):
        if not field.init or field.kw_only:
            continue
        if field.default is not _MISSING or field.default_factory is not _MISSING:
            optional = field.name
        elif optional:
            raise TypeError(f"{cls.__name__}: the field {field.name!r} without a default follows {optional!r} with one")


def _init(cls: type[Any]) -> Any:
    return _initialiser(cls, frozen=False)


def _init_frozen(cls: type[Any]) -> Any:
    return _initialiser(cls, frozen=True)


def _initialiser(cls: type[Any], frozen: bool) -> Any:
    """``__init__`` of a dataclass: a parameter for each field, in order, those for keywords only at the end."""
    namespace: dict[str, Any] = {"__name__": cls.__module__, "_factory": _FACTORY, "_set": object.__setattr__}
    positional, keywords, body = ["self"], list[str](), list[str]()
    annotations: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        name, value, parameter = field.name, field.name, field.name
        if field.default_factory is not _MISSING:
            namespace[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if field.init else f"_make_{name}()"
        elif field.default is not _MISSING:
            namespace[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue
        if field.init:
            (keywords if field.kw_only else positional).append(parameter)
            annotations[name] = field.type
        body.append(_assignment(cls, name, value, frozen, namespace))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    method = compiled(cls, "__init__", parameters, body or ["pass"], namespace)
    method.__annotations__ = {**annotations, "return": None}
    return method


def _assignment(cls: type[Any], name: str, value: str, frozen: bool, namespace: dict[str, Any]) -> str:
    """Statement that sets a field of ``self``: through the descriptor of its slot, which is faster, if it has one."""
    if not frozen:
        return f"self.{name} = {value}"
    slot = getattr(getattr(cls, name, None), "__set__", None)
    if slot is None or not hasattr(getattr(cls, name), "__objclass__"):
        return f"_set(self, {name!r}, {value})"
    namespace[f"_set_{name}"] = slot
    return f"_set_{name}(self, {value})"


def _eq(cls: type[Any]) -> Any:
    """``__eq__`` of a dataclass: True for an object of the same class with equal fields."""
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    body = ["if other.__class__ is not self.__class__:", "    return NotImplemented"]
    return compiled(
        cls, "__eq__", "self, other", [*body, f"return {_items('self', names)} == {_items('other', names)}"], {}
    )


def _hash(cls: type[Any]) -> Any:
    """``__hash__`` of a dataclass: of the fields that are compared, unless a field says otherwise."""
    fields = dataclasses.fields(cls)
    names = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    return compiled(cls, "__hash__", "self", [f"return hash({_items('self', names)})"], {})


def _items(value: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{value}.{name}, ' for name in names)})"


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _freeze(cls: type[Any], slots: bool) -> None:
    """Reject assignments to fields of `cls`, and let its objects be pickled without."""
    names: frozenset[str] = frozenset(field.name for field in dataclasses.fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    methods: dict[str, Any] = {"__setattr__": __setattr__, "__delattr__": __delattr__}
    for name, method in methods.items():
        if name in vars(cls):
            raise TypeError(f"{cls.__name__}: a frozen class cannot define {name}")
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
    if slots and "__getstate__" not in vars(cls):
        setattr(cls, "__getstate__", _state)  # noqa: B010 (a name that type checkers know with another type)
        setattr(cls, "__setstate__", _set_state)  # noqa: B010


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
