"""Converters: a function for each ONNX operator, found by domain, name and opset.

    @converter("Softmax", since=13)
    def softmax(g: Emitter, x: Tensor, *, axis: int = -1) -> Tensor:
        return op.nn.softmax(x, axis)

The first parameter is the `Emitter`. Inputs are the other positional parameters, in ONNX's order; the annotation says
in which form one is passed (`Tensor`, `Dims`, `Signed`, `Ints`, `Array`, `Value`), ``| None`` that it may be left out,
``*xs`` that any number follow. Attributes are keyword parameters with their defaults; one without a default is
required. What was an attribute in an old opset and is an input in a newer one is an input parameter: a node's attribute
of that name is passed there. Several converters of one operator differ by `since`, the opset from which each holds.

A converter gives one expression (a call that returns a tuple stands for several results), or a tuple of values, or
NotImplemented for a form that the function body of the standard serves better.

Custom domains: ``converter("MyOp", domain="my.domain")``.

An operator that takes tensors of strings, sequences or optional values besides tensors has a converter of its own for
them: ``converter("Identity", objects=True)``, asked before the other where an input is one. It returns
NotImplemented to have the other one asked.

The families of this package (`operators`) are listed in a table, ``_converters.py``, that tools/make_homes.py writes. A
family is imported when one of its operators is first looked up.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ...runtime.records import dataclass
from ._converters import CONVERTERS

Kind: TypeAlias = Literal["Tensor", "Dims", "Signed", "Ints", "Array", "Value"]
KINDS: tuple[Kind, ...] = ("Tensor", "Dims", "Signed", "Ints", "Array", "Value")

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Input:
    """An input of an operator: a positional parameter of its converter."""

    name: str
    kind: Kind
    optional: bool
    variadic: bool = False


@dataclass(frozen=True)
class Converter:
    """A converter, as its signature declares it."""

    name: str
    domain: str
    since: int
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    attributes: dict[str, Any]
    """Defaults by name; `inspect.Parameter.empty` for a required one."""
    annotations: dict[str, str]
    """Annotations of attributes by name, without ``| None``."""
    takes_all: bool
    """True if the converter has ``**attributes``."""
    positional: frozenset[str]
    """Names of its positional parameters, which no attribute of another kind has."""
    pure: bool = True
    """False if what it emits has an effect, or depends on more than its inputs."""


_CONVERTERS: dict[tuple[str, str], list[Converter]] = {}
_FOR_OBJECTS: dict[tuple[str, str], list[Converter]] = {}

_FAMILIES: Final = f"{__package__}.operators"


def _families() -> dict[tuple[str, str], list[str]]:
    """Modules with converters of each operator, (domain, name), that has some in this package."""
    found: dict[tuple[str, str], list[str]] = {}
    for module, words in CONVERTERS.items():
        for word in words.split():
            domain, _, name = word.rpartition("/")
            found.setdefault((domain, name), []).append(module)
    return found


_NOT_LOADED = _families()
"""Families of the operators that were not looked up yet."""

ALIASES = {"ai.onnx": ""}
"""Other names of domains."""


def converter(
    *names: str, since: int = 1, domain: str = "", pure: bool = True, objects: bool = False
) -> Callable[[Function], Function]:
    """Declare a converter for the operators of these names; see the module's docstring.

    A converter that is not `pure` emits calls with effects, or random ones.

    Raises TypeError for a signature that is not as described.
    """

    def declare(function: Function) -> Function:
        for name in names:
            register(name, function, since, domain, pure, objects)
        return function

    return declare


def register(
    name: str, function: Callable[..., Any], since: int = 1, domain: str = "", pure: bool = True, objects: bool = False
) -> None:
    """Make a converter known, in the place of one for the same operator and opset."""
    if function.__module__.rpartition(".")[0] != _FAMILIES:
        _load(domain, name)  # so that a converter of this package does not replace this one later
    inputs, attributes, annotations, takes_all = _signature(function)
    first = next(iter(inspect.signature(function).parameters))
    positional = frozenset([first, *(item.name for item in inputs)])
    entry = Converter(name, domain, since, function, inputs, attributes, annotations, takes_all, positional, pure)
    versions = (_FOR_OBJECTS if objects else _CONVERTERS).setdefault((domain, name), [])
    versions[:] = sorted([v for v in versions if v.since != since] + [entry], key=lambda v: -v.since)


def find(domain: str, name: str, opset: int, objects: bool = False) -> Converter | None:
    """The converter that holds for an opset, None if there is none."""
    _load(domain, name)
    table = _FOR_OBJECTS if objects else _CONVERTERS
    return next((v for v in table.get((domain, name), ()) if v.since <= opset), None)


def names_in(domain: str) -> list[str]:
    """The operators of a domain that have a converter, sorted."""
    for other, name in list(_NOT_LOADED):
        if other == domain:
            _load(domain, name)
    return sorted(name for d, name in _CONVERTERS if d == domain)


def declared() -> dict[str, str]:
    """Names of the operators that each loaded family has converters for, as the table of the families has them."""
    found: dict[str, set[str]] = {}
    for table in (_CONVERTERS, _FOR_OBJECTS):
        for (domain, name), versions in table.items():
            for version in versions:
                package, _, family = version.function.__module__.rpartition(".")
                if package == _FAMILIES:
                    found.setdefault(f".{family}", set()).add(f"{domain}/{name}" if domain else name)
    return {family: " ".join(sorted(names)) for family, names in found.items()}


def _load(domain: str, name: str) -> None:
    """Import the families that have converters of an operator."""
    for family in _NOT_LOADED.pop((domain, name), ()):
        importlib.import_module(family, _FAMILIES)


def _signature(function: Callable[..., Any]) -> tuple[tuple[Input, ...], dict[str, Any], dict[str, str], bool]:
    inputs: list[Input] = []
    attributes: dict[str, Any] = {}
    annotations: dict[str, str] = {}
    takes_all = False
    _, *parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            attributes[parameter.name] = parameter.default
            written = parameter.annotation
            text = written if isinstance(written, str) else getattr(written, "__name__", "")
            annotations[parameter.name] = text.partition("|")[0].strip()
        elif parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        else:
            inputs.append(_input(function, parameter))
    return tuple(inputs), attributes, annotations, takes_all


def _input(function: Callable[..., Any], parameter: inspect.Parameter) -> Input:
    written = str(parameter.annotation).strip("'\"")
    kind, _, rest = written.partition("|")
    optional = rest.strip() == "None"
    if kind.strip() not in KINDS or (rest and not optional):
        where = f"{function.__qualname__}: {parameter.name}"
        hint = "" if isinstance(parameter.annotation, str) else " (write annotations as text)"
        raise TypeError(f"{where} must be annotated with one of {', '.join(KINDS)}, found {written!r}{hint}")
    variadic = parameter.kind is parameter.VAR_POSITIONAL
    return Input(parameter.name, kind.strip(), optional or variadic, variadic)  # type: ignore[arg-type]
