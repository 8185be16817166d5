"""Instructions: applied primitives with their arguments, results and decisions.

    l3, l4 = sch.split(loop=l1, factors=[None, v2])

is an Instruction of the kind `split`: its arguments are {loop: l1, factors: [None, v2], …}, its inputs l1 and v2, its
attributes all other arguments, its outputs l3 and l4. Random variables belong to the schedule that recorded it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, cast

from ...prim import PrimExpr, Var, free_vars
from ...runtime.records import dataclass
from .argument_types import ArgumentType, argument_type
from .error import TRACE, ScheduleError
from .rv import BlockRV, LoopRV

_SPELLINGS: Final = {"reindex": "ReIndex", "rfactor": "RFactor", "unsafe_set_dtype": "UnsafeSetDType"}
"""TVM's names of instruction kinds that `camel_case` does not derive."""


@dataclass(frozen=True)
class InstructionKind:
    """A primitive: its function and the function's signature."""

    function: Callable[..., Any]
    signature: inspect.Signature
    is_pure: bool = False
    """True if only random numbers change: the instruction is needed only if its outputs are used."""

    @property
    def method(self) -> str:
        """The name of the method of `Schedule`."""
        return self.function.__name__

    @property
    def name(self) -> str:
        """TVM's name: ``SamplePerfectTile`` for ``sample_perfect_tile``."""
        return camel_case(self.method)

    @functools.cached_property
    def argument_types(self) -> dict[str, ArgumentType]:
        """Types of the arguments by name."""
        parameters = list(self.signature.parameters.values())[1:]
        return {p.name: argument_type("Any" if p.annotation is p.empty else p.annotation) for p in parameters}

    @property
    def usage(self) -> str:
        """The parameters as declared: ``(loop, n, max_innermost_factor=16)``."""
        parameters = [p.replace(annotation=p.empty) for p in list(self.signature.parameters.values())[1:]]
        return str(inspect.Signature(parameters))

    @property
    def is_postproc(self) -> bool:
        """True for the instruction after which post-processing begins."""
        return self.method == "enter_postproc"

    @property
    def samples(self) -> bool:
        """True if the primitive takes a decision."""
        return "decision" in self.signature.parameters

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, without the schedule and the decision."""
        return [name for name in list(self.signature.parameters)[1:] if name != "decision"]

    @property
    def by_position(self) -> list[str]:
        """Names of the parameters that must be given by position: those up to ``*loops``."""
        parameters = list(self.signature.parameters.values())[1:]
        for position, parameter in enumerate(parameters):
            if parameter.kind is parameter.VAR_POSITIONAL:
                return [item.name for item in parameters[: position + 1]]
        return []

    @staticmethod
    def get(name: str) -> InstructionKind:
        """Return the kind with a name, TVM's or the method's. Raises ScheduleError if there is none."""
        importlib.import_module(f"{__package__}.schedule")  # which imports all primitives
        for kind in PRIMITIVES.values():
            if name in (kind.method, kind.name):
                return kind
        raise ScheduleError(TRACE, f"there is no primitive {name!r}")


PRIMITIVES: Final[dict[str, InstructionKind]] = {}
"""All primitives by method name, complete once `schedule` is imported: `relax.tir.schedule.PRIMITIVES`."""


def camel_case(method: str) -> str:
    """Return TVM's name of a kind of instructions."""
    spelt = _SPELLINGS.get(method)
    return spelt if spelt is not None else "".join(word.capitalize() for word in method.split("_"))


@dataclass(frozen=True, eq=False)
class Instruction:
    """An applied primitive: its kind, its arguments by name, and its outputs."""

    kind: InstructionKind
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: tuple[Any, ...] = ()
    returns_list: bool = False
    """True if the primitive returns a list, even of a single random variable."""

    @property
    def inputs(self) -> list[Any]:
        """The arguments that are random variables, or contain random integers, in order."""
        return [
            leaf
            for value in self.arguments.values()
            for leaf in leaves(value)
            if isinstance(leaf, (BlockRV, LoopRV)) or (isinstance(leaf, PrimExpr) and free_vars(leaf))
        ]

    @property
    def attrs(self) -> list[Any]:
        """The arguments without random variables, in order."""
        return [
            value
            for value in self.arguments.values()
            if not any(isinstance(leaf, (BlockRV, LoopRV, PrimExpr)) for leaf in leaves(value))
        ]

    def used(self) -> Iterator[Any]:
        """The random variables in the arguments: blocks, loops, and variables of integers."""
        for item in self.inputs:
            if isinstance(item, PrimExpr):
                yield from free_vars(item)
            else:
                yield item

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"Instruction({self.kind.name}: {arguments})"


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values in lists, tuples and dicts of any depth."""
    if isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from leaves(item)
    else:
        yield value


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to the values in lists, tuples and dicts of any depth."""
    if isinstance(value, (list, tuple)):
        items = [map_leaves(item, change) for item in cast("list[Any]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        return {key: map_leaves(item, change) for key, item in table.items()}
    return change(value)


class Numbering:
    """Names of a trace's random variables in order of appearance: b0, l1, l2, v3."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._by_key: dict[Any, str] = {}
        self._count = 0
        self._kept: list[Any] = []

    def name_output(self, value: Any) -> str:
        """Create a name for an output of an instruction."""
        letter = "b" if isinstance(value, BlockRV) else "l" if isinstance(value, LoopRV) else "v"
        name = f"{letter}{self._count}"
        self._count += 1
        self._kept.append(value)  # so that no other object gets its id
        self._names[id(value)] = self._by_key[_key(value)] = name
        return name

    def name_of(self, value: Any) -> str | None:
        """Return the name of a random variable, or of another one for the same block or loop; None if there is none."""
        name = self._names.get(id(value))
        return name if name is not None else self._by_key.get(_key(value))


def _key(value: Any) -> Any:
    if isinstance(value, BlockRV):
        return value.function, value.name
    return value.var if isinstance(value, LoopRV) else value


def variable_names(expr: PrimExpr, numbering: Numbering, size_name: Callable[[Var], str]) -> dict[Var, str]:
    """Return the names of an expression's variables: numbered for random integers, `size_name` for sizes."""
    names = {var: numbering.name_of(var) for var in free_vars(expr)}
    return {var: size_name(var) if name is None else name for var, name in names.items()}
