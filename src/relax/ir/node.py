"""Nodes: a decorator turns a class of declared fields into an IR node.

    @node
    class For(Stmt):
        var: Var = binder()
        min: PrimExpr
        body: Stmt

The declaration of a field defines its role:

* a plain annotation, or ``child(...)``: part of the node's value (nodes, tuples, dicts, scalars, arrays);
* ``binder(...)``: a definition: variables in it (also in the annotation of a variable) are bound in the
  fields that follow, so structural equality matches them by position;
* ``label(...)``: for display only (names, spans), ignored by structural equality and hash.

The fields determine the constructor (with converters), `fields_of`, `children_of`, `replace`, and, in
their own modules, structural equality, hash, difference, JSON and pickling. Nodes are frozen,
slotted and compared by identity. The constructor sets slots through their descriptors, which is twice as fast as
`object.__setattr__`. A class may define its own ``__init__``, which takes every field by name, and ends by
passing them to `__fields_init__`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from typing_extensions import Self, dataclass_transform

from ..runtime.records import WhenUsed, compiled
from ..runtime.rooms import load_whole
from . import printing
from .span import Span

T = TypeVar("T")
NodeT = TypeVar("NodeT", bound="Node")

# Deep expressions are walked recursively; the default limit of 1000 frames is met by a sum of 300 terms.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))

_KIND = "relax.kind"
_CONVERTER = "relax.converter"
_ALIAS = "relax.alias"


def child(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    converter: Callable[[Any], Any] | None = None,
    kw_only: bool = False,
) -> Any:
    """Field that is part of the node's value."""
    return _field("child", default, default_factory, converter, kw_only)


def binder(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    converter: Callable[[Any], Any] | None = None,
    kw_only: bool = False,
) -> Any:
    """Field that defines the variables in it."""
    return _field("binder", default, default_factory, converter, kw_only)


def label(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    converter: Callable[[Any], Any] | None = None,
    kw_only: bool = False,
    alias: str | None = None,
) -> Any:
    """Field for display only, ignored by equality. `alias`: another name for the constructor's parameter."""
    return _field("label", default, default_factory, converter, kw_only, alias)


def _field(kind: str, default: Any, factory: Any, converter: Any, kw_only: bool, alias: str | None = None) -> Any:
    metadata = {_KIND: kind, _CONVERTER: converter, _ALIAS: alias}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata, kw_only=kw_only)
    if default is not dataclasses.MISSING:
        return dataclasses.field(default=default, metadata=metadata, kw_only=kw_only)
    return dataclasses.field(metadata=metadata, kw_only=kw_only)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSpec:
    """Declaration of a field of a node class."""

    name: str
    kind: str
    parameter: str
    """Name of the constructor's parameter: the field's name or its alias."""


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(child, binder, label, dataclasses.field))
def _has_fields(cls: type[T]) -> type[T]:
    """Mark a base class for the type checker: subclasses inherit the fields declared in `cls`."""
    return cls


@_has_fields
class Node:
    """Base class of all IR nodes."""

    __slots__ = ("__weakref__", "span")

    if TYPE_CHECKING:  # every node's constructor takes ``span=``; `_make_init` provides it
        span: Span | None = label(default=None, kw_only=True)

        def __fields_init__(self, *values: Any, span: Span | None = None) -> None: ...

    __node_fields__: ClassVar[tuple[FieldSpec, ...]] = ()
    __child_names__: ClassVar[tuple[str, ...]] = ()
    """Names of all fields except labels."""
    __part_names__: ClassVar[tuple[str, ...]] = ()
    """Names of those fields that can contain nodes according to their annotations."""
    __parameters__: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(Parameter, field) names of the constructor."""
    __is_variable__: ClassVar[bool] = False
    """True for variables, which are equal if bound at corresponding positions, whatever their fields."""
    __content__: ClassVar[Callable[[Any, str], Any]] = getattr
    """Getter of a field for program digests: constants stored in files are not loaded."""
    __is_scope__: ClassVar[bool] = False
    """True for functions: variables bound inside have no meaning outside."""

    def __children__(self) -> list[Node]:
        """Direct child nodes; see `children_of`. `node` generates this method for each class."""
        return []

    def __mapped__(self, function: Callable[[Node], Node]) -> Node:
        """The node with its parts mapped: see `map_children`. `node` generates the method of each class."""
        return self

    def script(self, **options: Any) -> str:
        """Text of this node as TVMScript."""
        return printing.script(self, **options)

    def show(self, **options: Any) -> None:
        """Print this node as TVMScript, highlighted on a terminal."""
        printing.show(self, **options)

    def __repr__(self) -> str:
        return printing.represent(self)

    def __str__(self) -> str:
        return printing.represent(self)

    def same_as(self, other: object) -> bool:
        """True if both are the same object."""
        return self is other

    def replace(self, **changes: Any) -> Self:
        """Copy with some fields changed; the node itself if nothing differs.

        Slots outside the declared fields (derived struct info) are not copied.
        """
        if all(getattr(self, name) is value for name, value in changes.items()):
            return self
        span = changes.pop("span", self.span)
        values: dict[str, Any] = {}
        for parameter, name in self.__parameters__:
            values[parameter] = changes.pop(name) if name in changes else getattr(self, name)
        values.update(changes)
        return type(self)(**values, span=span)

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, spec.name) for spec in self.__node_fields__)
        return _restore, (type(self), values, self.span), self.__extra_state__()

    def __extra_state__(self) -> Any:
        """State outside the declared fields that copies must keep."""
        return None

    def __setstate__(self, state: Any) -> None:
        if state is not None:
            raise NotImplementedError(type(self).__name__)


def _restore(cls: type[Node], values: tuple[Any, ...], span: Span | None) -> Node:
    names = (spec.parameter for spec in cls.__node_fields__)
    return cls(**dict(zip(names, values, strict=True)), span=span)  # type: ignore[call-arg]


NODE_CLASSES: dict[str, type[Node]] = {}
"""All loaded node classes by key; `node_class` loads others."""


def node_class(key: str) -> type[Node]:
    """Node class of a key, for reading JSON. Raises KeyError if there is none.

    Imports the modules of the key's package if the class is not loaded.
    """
    room = key.partition(".")[0]
    if key not in NODE_CLASSES and room in _ROOMS_OF_NODES:
        load_whole(f"relax.{room}")
    return NODE_CLASSES[key]


_ROOMS_OF_NODES: Final = frozenset({"arith", "expr", "ir", "op", "prim", "relay", "struct_info", "te", "tir"})
"""Packages that declare node classes. Reading a saved program, which may be untrusted, imports no others."""


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(child, binder, label, dataclasses.field))
def node(cls: type[T]) -> type[T]:
    """Make a class of declared fields a node. See the module's docstring."""
    declared = dataclasses.dataclass(eq=False, repr=False, init=False, slots=True)(cls)
    fields = dataclasses.fields(cast(Any, declared))
    raw: Any = declared
    raw.__node_fields__ = tuple(
        FieldSpec(f.name, f.metadata.get(_KIND, "child"), f.metadata.get(_ALIAS) or f.name) for f in fields
    )
    raw.__child_names__ = tuple(spec.name for spec in raw.__node_fields__ if spec.kind != "label")
    raw.__part_names__ = tuple(f.name for f in fields if f.name in raw.__child_names__ and not _is_scalar(f.type))
    raw.__parameters__ = tuple((spec.parameter, spec.name) for spec in raw.__node_fields__)
    raw.__children__ = WhenUsed(raw, "__children__", _make_children)
    raw.__mapped__ = WhenUsed(raw, "__mapped__", _make_mapped) if raw.__part_names__ else Node.__mapped__
    raw.__fields_init__ = WhenUsed(raw, "__fields_init__", _make_init)
    if "__init__" not in cls.__dict__:
        raw.__init__ = WhenUsed(raw, "__init__", operator.attrgetter("__fields_init__"))
    raw.__setattr__ = _frozen
    raw.__delattr__ = _frozen
    raw.__match_args__ = tuple(f.name for f in fields if not f.kw_only)
    key = node_key(raw)
    registered = NODE_CLASSES.setdefault(key, raw)
    if registered.__module__ != raw.__module__:
        raise TypeError(f"two node classes are called {key}: in {registered.__module__} and in {raw.__module__}")
    NODE_CLASSES[key] = raw
    return declared


_SCALARS = frozenset({"int", "float", "bool", "str", "DataType", "ConstantData", "None"})


def _is_scalar(annotation: Any) -> bool:
    """True if the annotation of a field, as text, excludes nodes."""
    if not isinstance(annotation, str):
        return False
    inner = annotation.removesuffix(" | None")
    if inner.startswith("tuple[") and inner.endswith(", ...]"):
        inner = inner[len("tuple[") : -len(", ...]")]
    return all(word in _SCALARS for word in inner.split(" | "))


@functools.cache
def node_key(cls: type[Node]) -> str:
    """Stable key of a node class: package and class, such as ``tir.For``; outside of relax, module and class."""
    package, _, path = cls.__module__.partition(".")
    room = path.split(".")[0] if package == "relax" else cls.__module__
    return f"{room}.{cls.__name__}"


def _frozen(self: Node, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"{type(self).__name__}.{name}: nodes are immutable")


def _make_init(cls: type[Any]) -> Any:
    """Generate __init__, which converts each field and stores it through its slot's descriptor."""
    fields = dataclasses.fields(cls)
    namespace: dict[str, Any] = {"_set_span": Node.span.__set__}  # type: ignore[attr-defined]
    positional: list[str] = []
    keyword: list[str] = []
    body: list[str] = []
    for f in fields:
        value = parameter = f.metadata.get(_ALIAS) or f.name
        if f.default is not dataclasses.MISSING:
            namespace[f"_default_{f.name}"] = f.default
            parameter = f"{parameter}=_default_{f.name}"
        elif f.default_factory is not dataclasses.MISSING:
            namespace["_missing"] = dataclasses.MISSING
            namespace[f"_factory_{f.name}"] = f.default_factory
            parameter = f"{f.name}=_missing"
            value = f"_factory_{f.name}() if {f.name} is _missing else {f.name}"
        (keyword if f.kw_only else positional).append(parameter)
        converter = f.metadata.get(_CONVERTER)
        if converter is not None:
            namespace[f"_convert_{f.name}"] = converter
            kept = isinstance(converter, type) and value.isidentifier()  # of that class already, as most are
            value = f"{value} if type({value}) is _convert_{f.name} else " * kept + f"_convert_{f.name}({value})"
        namespace[f"_set_{f.name}"] = (
            cls.__dict__[f.name].__set__ if f.name in cls.__dict__ else (getattr(cls, f.name).__set__)
        )
        body.append(f"_set_{f.name}(self, {value})")
    parameters = ", ".join(["self", *positional, "*", *keyword, "span=None"])
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    return compiled(cls, "__init__", parameters, ["_set_span(self, span)", *body], namespace)


def set_slot(target: Node, name: str, value: Any) -> None:
    """Write a slot of a frozen node: only for `__post_init__` and for derived, write-once slots."""
    object.__setattr__(target, name, value)


def fields_of(value: Node) -> Iterator[tuple[str, Any]]:
    """Pairs (name, value) of a node's fields in declaration order, labels included."""
    for spec in value.__node_fields__:
        yield spec.name, getattr(value, spec.name)


def children_of(value: Node) -> list[Node]:
    """Direct child nodes: fields in order, through tuples and dicts; labels are skipped."""
    return value.__children__()


def _make_children(cls: type[Node]) -> Any:
    """Generate the method that lists the child nodes in the fields; half of each traversal is spent in it."""
    body = [
        f"""part = self.{name}
    if isinstance(part, Node):
        found.append(part)
    elif isinstance(part, (tuple, dict)) and part:
        collect(part, found)"""
        for name in cls.__part_names__
    ]
    namespace: dict[str, Any] = {"Node": Node, "collect": _collect}
    return compiled(cls, "__children__", "self", ["found = []", *body, "return found"], namespace)


_CONTAINERS: Any = (tuple, dict)
"""Collections that can contain nodes. (Untyped: a cast would take as long as the check.)"""


def _collect(values: tuple[Any, ...] | dict[Any, Any], nodes: list[Node]) -> None:
    for value in values if isinstance(values, tuple) else itertools.chain.from_iterable(values.items()):
        if isinstance(value, Node):
            nodes.append(value)
        elif isinstance(value, _CONTAINERS):
            _collect(value, nodes)


def map_children(value: NodeT, function: Callable[[Node], Node]) -> NodeT:
    """Rebuild a node with `function` applied to each node directly below; itself when none changed."""
    return cast(NodeT, value.__mapped__(function))


def _make_mapped(cls: type[Node]) -> Any:
    """Generate the method that rebuilds a node: every rewrite calls it for each node, which seldom changes."""
    names = cls.__part_names__
    body = [
        f"""old_{name} = self.{name}
    if isinstance(old_{name}, Node):
        new_{name} = function(old_{name})
    elif isinstance(old_{name}, (tuple, dict)) and old_{name}:
        new_{name} = map_value(old_{name}, function)
    else:
        new_{name} = old_{name}"""
        for name in names
    ]
    same = " and ".join(f"new_{name} is old_{name}" for name in names)
    values = [
        f"{parameter}=new_{name}" if name in names else f"{parameter}=self.{name}"
        for parameter, name in cls.__parameters__
    ]
    rebuilt = f"type(self)({', '.join(values)}, span=self.span)"
    namespace: dict[str, Any] = {"Node": Node, "map_value": _map_value}
    body.append(f"return self if {same} else {rebuilt}")
    return compiled(cls, "__mapped__", "self, function", body, namespace)


def _map_value(value: Any, function: Callable[[Node], Node]) -> Any:
    if isinstance(value, Node):
        return function(value)
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        same, mapped = True, list[Any]()
        for item in items:
            new = function(item) if isinstance(item, Node) else _map_value(item, function)
            same = same and new is item
            mapped.append(new)
        return items if same else tuple(mapped)
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        pairs = [(_map_value(k, function), _map_value(v, function)) for k, v in table.items()]
        same = all(a is k and b is v for (a, b), (k, v) in zip(pairs, table.items(), strict=True))
        return table if same else dict(pairs)
    return value


def walk(value: Node, pre: Callable[[Node], bool | None], only: tuple[type, ...] = ()) -> None:
    """Call `pre` on a node and its descendants, in preorder; return False from `pre` to skip the children.

    A shared object is visited once, a variable at each occurrence. With `only`, `pre` is called on nodes of these
    classes, which saves most calls.
    """
    stack = [value]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if not item.__is_variable__:
            number = id(item)
            if number in seen:
                continue
            seen.add(number)
        if (only and not isinstance(item, only)) or pre(item) is not False:
            children = item.__children__()
            if len(children) > 1:
                children.reverse()
            stack += children
