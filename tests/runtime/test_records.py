"""Dataclasses of `relax.runtime.records` behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from typing import Any, ClassVar

import pytest

from relax.runtime.records import WhenUsed, dataclass


def declared(decorate: Any, **options: Any) -> tuple[type[Any], type[Any]]:
    """A class of each kind of field, and a class derived from it, made dataclasses by a decorator."""

    @decorate(**options)
    class Base:
        """A class with a text."""

        name: str
        size: int = 4
        kind: ClassVar[str] = "base"

    @decorate(**options)
    class Derived(Base):
        parts: list[int] = field(default_factory=list)
        note: str = field(default="", compare=False)
        hidden: int = field(default=1, repr=False)
        later: int = field(default=5, init=False)
        last: bool = field(default=False, kw_only=True)

    return Base, Derived


OPTIONS = [
    {}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}, {"eq": False},
    {"frozen": True, "eq": False}, {"repr": False},
]  # fmt: skip


def seen(base: type[Any], derived: type[Any]) -> list[Any]:
    """What can be seen of the classes and their objects."""
    a, b, other = derived("x", 2), derived("x", 2, note="b"), derived("y", parts=[1], last=True)
    texts = [str(value) if type(value).__repr__ is not object.__repr__ else "no repr" for value in (a, other)]
    parameters = [str(inspect.signature(cls)) for cls in (base, derived)]
    hashes = [cls.__hash__ is None or cls.__hash__ is object.__hash__ for cls in (base, derived)]
    equal = [a == b, a == other, a != b, base("x") == base("x"), base("x") == derived("x"), base("x") == 1]
    states = [dataclasses.asdict(value) for value in (a, b, other, dataclasses.replace(other, name="z"))]
    return [texts, parameters, hashes, equal, states, base.__doc__, base.__match_args__, derived.__match_args__]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_as_the_standard_library(options):
    assert seen(*declared(dataclass, **options)) == seen(*declared(dataclasses.dataclass, **options))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_errors_as_of_the_standard_library(options):
    def errors(decorate: Any) -> list[str]:
        base, derived = declared(decorate, **options)
        found = []
        for attempt in (
            lambda: base(),
            lambda: base("x", 1, 2),
            lambda: derived("x", nothing=1),
            lambda: hash(derived("x")),
            lambda: setattr(base("x"), "size", 1),
            lambda: setattr(base("x"), "other", 1),
            lambda: delattr(base("x"), "size"),
        ):
            try:
                attempt()
                found.append("none")
            except (TypeError, AttributeError) as error:
                found.append(f"{type(error).__name__}: {error}")
        return found

    ours, theirs = errors(dataclass), errors(dataclasses.dataclass)
    if options.get("slots") and options.get("frozen"):  # the library's `super` is of the class without slots
        ours[5] = theirs[5] = ""
    assert ours == theirs


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    tags: tuple[str, ...] = ()
    whole: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", (self.x, self.tags))


@dataclass
class Bag:
    content: list[Any] = field(default_factory=list)


def test_frozen_objects_with_slots_are_copied_and_pickled():
    point = Point(1, ("a",))
    for other in (pickle.loads(pickle.dumps(point)), copy.copy(point), copy.deepcopy(point)):
        assert other == point
        assert other.whole == (1, ("a",))
        assert hash(other) == hash(point)


def test_a_text_of_an_object_in_itself():
    bag = Bag()
    bag.content.append(bag)
    assert repr(bag) == "Bag(content=[...])"


def test_methods_of_the_class_stay():
    @dataclass(frozen=True)
    class Own:
        x: int

        def __init__(self) -> None:
            object.__setattr__(self, "x", 7)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

        def __repr__(self) -> str:
            return "own"

    own = Own()
    assert (own.x, own == 1, hash(own), repr(own)) == (7, True, 3, "own")


def test_a_field_without_default_behind_one_with_default():
    with pytest.raises(TypeError, match="Wrong: the field 'y' without a default follows 'x' with one"):

        @dataclass
        class Wrong:
            x: int = 1
            y: int


def test_a_frozen_class_with_its_own_assignments():
    with pytest.raises(TypeError, match="Wrong: a frozen class cannot define __setattr__"):

        @dataclass(frozen=True)
        class Wrong:
            def __setattr__(self, name: str, value: Any) -> None: ...


def test_a_method_is_compiled_when_it_is_first_used():
    @dataclass(frozen=True)
    class Size:
        n: int

    assert [type(vars(Size)[name]) for name in ("__init__", "__eq__", "__hash__")] == [WhenUsed] * 3
    size = Size(3)
    assert inspect.isfunction(vars(Size)["__init__"])
    assert isinstance(vars(Size)["__eq__"], WhenUsed)
    assert {size: 1}[Size(3)] == 1
    assert [inspect.isfunction(vars(Size)[name]) for name in ("__init__", "__eq__", "__hash__")] == [True] * 3


@pytest.mark.parametrize("slots", [False, True])
def test_a_class_of_the_standard_library_inherits(slots):
    """Users derive from frozen classes of relax with the library's decorator."""

    @dataclass(frozen=True, slots=slots)
    class Base:
        x: int = 1

    @dataclasses.dataclass(frozen=True, slots=slots)
    class Derived(Base):
        y: int = 2

    assert repr(Derived(3)).endswith("Derived(x=3, y=2)")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        Derived().x = 4
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclass(type("Open", (Base,), {}))
