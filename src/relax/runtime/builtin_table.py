"""The table of the machine's builtin functions. Each is registered beside its code, with all that others ask about it.

    @builtin("vm.builtin.reshape", Effects(reads=(), aliases=(0,)))
    def reshape(tensor, shape): ...

The machine, the interpreter, the lowering passes and the analysis of aliases read this table; none of them knows a
builtin by its name. See docs/add-a-builtin.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypeVar

from .records import dataclass

Arguments: TypeAlias = "tuple[int, ...] | Literal['all']"
"""Positions of arguments."""

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(frozen=True)
class Effects:
    """Effects of a call on the tensors in its arguments, by position. The default: it reads them, and no more."""

    reads: Arguments = "all"
    """Arguments whose elements the call reads. Passing on a reference or reading the shape does not count."""
    writes: Arguments = ()
    """Arguments whose elements the call may write."""
    keeps: Arguments = ()
    """Arguments that escape: something besides the caller and the result may refer to them after the call."""
    aliases: Arguments = ()
    """Arguments that the result may alias or contain."""

    def only_reads(self, position: int) -> bool:
        """True if the call neither writes an argument nor lets it escape or alias the result."""
        return not (self.writes or self.keeps or self.aliases) or not any(
            selects(selector, position) for selector in (self.writes, self.keeps, self.aliases)
        )

    def after(self, count: int) -> Effects:
        """Return these effects with all positions shifted by `count` preceding arguments."""

        def shifted(positions: Arguments) -> Arguments:
            return positions if positions == "all" else tuple(count + position for position in positions)

        return Effects(*map(shifted, (self.reads, self.writes, self.keeps, self.aliases)))


VIEW: Final = Effects(reads=(), aliases=(0,))
"""The effects of a function whose result is, or shares memory with, its first argument."""
PACKED: Final = Effects(keeps="all", aliases="all")
"""Effects of an unknown pure function: its result may alias an argument, or a value it retained."""
UNKNOWN: Final = Effects("all", "all", "all", "all")
"""Effects of an unknown function."""


def selects(positions: Arguments, position: int) -> bool:
    """True if an argument is among the positions."""
    return positions == "all" or position in positions


@dataclass(frozen=True)
class Builtin:
    """A builtin function of the machine."""

    name: str
    function: Callable[..., Any]
    effects: Effects
    pure: bool
    """True if a call only computes its result: no writes, no output, no checks."""
    trusted: bool
    """True if the result always matches the call's declared struct info; False if it comes from foreign code."""
    device: int | None
    """Position of the argument that may be the number of a device. The machine puts the device itself in its place."""
    first_device: bool
    """True if a call without that argument is given the machine's first device."""
    pooled: bool
    """True if the VM passes its allocator as the keyword `allocator`."""
    enters: bool
    """True if the builtin calls its first argument, a function value, with the other arguments."""
    program_errors: bool
    """True if the messages of its errors are the program's, so that the machine puts no name before them."""
    closures: bool
    """True if an argument or the result exists in bytecode only: a function value, or a shape heap."""
    internal: bool
    """True if no variable of the program holds the result: a shape, a size or memory of the VM."""
    compiled: Callable[[], Any] | None
    """Makes the packed function by which the compiled functions of a program call the builtin, if it has its own."""


BUILTINS: Final[dict[str, Builtin]] = {}
"""The builtins, by name."""


def builtin(
    name: str,
    effects: Effects | None = None,
    *,
    pure: bool = True,
    trusted: bool = True,
    device: int | None = None,
    first_device: bool = False,
    pooled: bool = False,
    enters: bool = False,
    program_errors: bool = False,
    closures: bool = False,
    internal: bool = False,
    compiled: Callable[[], Any] | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """Register a function as a builtin. The fields are those of `Builtin`; the default is a pure function that reads
    its arguments and returns something fresh.

    Raises ValueError if the name is taken, or if a pure function is said to change or keep an argument.
    """
    declared = effects or Effects()
    if pure and (declared.writes or declared.keeps):
        raise ValueError(f"the builtin {name} is not pure if it changes or keeps an argument")

    def register(function: FunctionT) -> FunctionT:
        if name in BUILTINS:
            raise ValueError(f"there is a builtin {name} already")
        BUILTINS[name] = Builtin(
            name=name,
            function=function,
            effects=declared,
            pure=pure,
            trusted=trusted,
            device=device,
            first_device=first_device,
            pooled=pooled,
            enters=enters,
            program_errors=program_errors,
            closures=closures,
            internal=internal,
            compiled=compiled,
        )
        return function

    return register
