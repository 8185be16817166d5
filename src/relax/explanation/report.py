"""Reports on loops: what machine code does for one iteration of each innermost loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..target.isa import isa_of
from ..tir import For, While
from .assembly import MachineLoop
from .instructions import Effect, effect_of


@dataclass(frozen=True)
class Core:
    """Limits of a core for each cycle: typical numbers of large cores, no measured ones."""

    instructions: int = 4
    computations: int = 2
    loads: int = 2
    stores: int = 1
    division_cycles: int = 4


CORE: Final = Core()


@dataclass(frozen=True)
class MachineCode:
    """The counts for one iteration of a loop of machine code; None where the instructions are not told apart."""

    instructions: int
    spills: int
    """Registers written to the stack since there were not enough of them."""
    reloads: int
    """Registers read back from there."""
    exits: int
    """Branches out of the loop, beside the one at its end."""
    assembly: str
    loads: int | None = None
    stores: int | None = None
    flops: int | None = None
    """Floating-point operations on elements; a fused multiply-add is two of them."""
    fmas: int | None = None
    gathers: int | None = None
    scatters: int | None = None
    shuffles: int | None = None
    calls: tuple[str, ...] | None = None
    """The functions it calls."""
    vector_bits: int | None = None
    """The width of its vectors; 0 if it computes element by element."""
    scalar_floats: int | None = None
    """Floating-point instructions on single elements."""
    cycles: float | None = None
    """A lower bound of the cycles of an iteration on a typical core (`CORE`), all data in the nearest cache; None with
    calls. Waiting for results is not counted."""

    @property
    def is_vectorised(self) -> bool | None:
        """True if most of its work is on vectors; None if the instructions are not told apart."""
        return None if self.vector_bits is None else self.vector_bits > 0


def machine_code(loop: MachineLoop, triple: str) -> MachineCode:
    """The counts of a loop."""
    instructions = loop.instructions
    comments = [instruction.comment for instruction in instructions]
    text = "\n".join(instruction.text for instruction in instructions)
    spills = sum("Spill" in comment for comment in comments)
    reloads = sum("Reload" in comment for comment in comments)
    if isa_of(triple).effect is None:
        return MachineCode(len(instructions), spills, reloads, 0, text)
    effects = [effect_of(instruction, triple) for instruction in instructions]
    calls = tuple(Counter(effect.callee for effect in effects if effect.callee))
    return MachineCode(
        instructions=len(instructions),
        spills=spills,
        reloads=reloads,
        exits=_exits(loop, effects),
        assembly=text,
        loads=sum(effect.loads for effect in effects),
        stores=sum(effect.stores for effect in effects),
        flops=sum(effect.flops for effect in effects),
        fmas=sum(effect.fmas for effect in effects),
        gathers=sum(effect.is_gather for effect in effects),
        scatters=sum(effect.is_scatter for effect in effects),
        shuffles=sum(effect.is_shuffle for effect in effects),
        calls=calls,
        vector_bits=_vector_bits(effects),
        scalar_floats=sum(effect.is_scalar_float for effect in effects),
        cycles=None if calls else _cycles(effects),
    )


def _exits(loop: MachineLoop, effects: Sequence[Effect]) -> int:
    """The branches out of a loop. One of them is its end, unless its end is to go on behind a branch back."""
    outside = {effect.target for effect in effects if effect.target} - loop.labels
    falls_through = any(effect.target == loop.header and effect.is_conditional for effect in effects)
    return len(outside) - (not falls_through and bool(outside))


def _vector_bits(effects: Sequence[Effect]) -> int:
    """The greatest width of vectors; 0 if there is more work on single elements."""
    vectors = [effect.vector_bits for effect in effects if effect.vector_bits]
    return max(vectors) if len(vectors) > sum(effect.is_scalar_float for effect in effects) else 0


def _cycles(effects: Sequence[Effect]) -> float:
    computations = sum(
        bool(effect.flops or (effect.vector_bits and not effect.loads and not effect.stores))
        for effect in effects
    )
    divisions = sum(effect.divisions for effect in effects)
    loads = sum(max(effect.loads, effect.lanes_apart * effect.is_gather) for effect in effects)
    stores = sum(max(effect.stores, effect.lanes_apart * effect.is_scatter) for effect in effects)
    return max(
        len(effects) / CORE.instructions,
        computations / CORE.computations + divisions * CORE.division_cycles,
        loads / CORE.loads,
        stores / CORE.stores,
    )


@dataclass(frozen=True)
class LoopReport:
    """An innermost loop of a kernel, and the machine code that was made of it."""

    function: str
    path: tuple[str, ...]
    """The names of the loops around, outermost first, and its own."""
    loop: For | While
    number: int
    """The loop's number in the kernel's text, in which loops are numbered from 0."""
    main: MachineCode | None
    """The loop that does most of the work; None if no loop is left."""
    others: tuple[MachineCode, ...]
    """Further loops made of it, such as the one for the elements that fill no vector."""
    copies: int
    """The number of copies of the main loop: an unrolled loop around it repeats it."""
    lanes: int
    """The elements in a vector, if it was LLVM that vectorised the loop; 0 otherwise."""
    interleaved: int
    """The vectors of one iteration, if it was LLVM that vectorised the loop; 0 otherwise."""
    reason: str
    """The reason why it is not vectorised, or what became of it if it is gone."""

    @property
    def name(self) -> str:
        """The function and the loops, as ``gemm: jo > io > k``."""
        return f"{self.function}: {' > '.join(self.path)}"

    @property
    def is_vectorised(self) -> bool | None:
        """True if the main loop works on vectors; None if that is not known, or there is no loop."""
        return None if self.main is None else self.main.is_vectorised

    @property
    def loads_per_flop(self) -> float | None:
        """Instructions that read memory per floating-point operation."""
        return _ratio(self.main.loads, self.main.flops) if self.main is not None else None

    @property
    def stores_per_flop(self) -> float | None:
        """Instructions that write memory per floating-point operation."""
        return _ratio(self.main.stores, self.main.flops) if self.main is not None else None


def _ratio(count: int | None, flops: int | None) -> float | None:
    return None if count is None or not flops else count / flops
