"""Reports on loops: machine code counts for one iteration of each innermost loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ..runtime.records import dataclass
from ..target.isa import isa_of
from ..tir import For, While
from .assembly import MachineLoop
from .instructions import Effect, effect_of


@dataclass(frozen=True)
class Core:
    """Limits of a core per cycle: typical values of large cores, not measured."""

    instructions: int = 4
    computations: int = 2
    loads: int = 2
    stores: int = 1
    division_cycles: int = 4


CORE: Final = Core()


@dataclass(frozen=True)
class MachineCode:
    """Counts for one iteration of a machine loop; None if instructions are not classified."""

    instructions: int
    spills: int
    """Registers spilled to the stack."""
    reloads: int
    """Registers reloaded from the stack."""
    exits: int
    """Branches out of the loop besides the one at its end."""
    assembly: str
    loads: int | None = None
    stores: int | None = None
    flops: int | None = None
    """Floating-point operations on elements; a fused multiply-add counts as two."""
    fmas: int | None = None
    gathers: int | None = None
    scatters: int | None = None
    shuffles: int | None = None
    calls: tuple[str, ...] | None = None
    """Functions called by the loop."""
    vector_bits: int | None = None
    """Vector width in bits; 0 for scalar code."""
    scalar_floats: int | None = None
    """Scalar floating-point instructions."""
    cycles: float | None = None
    """Lower bound of the cycles of an iteration on a typical core (`CORE`), with all data in the L1 cache and without
    latencies; None with calls.
    """

    @property
    def is_vectorised(self) -> bool | None:
        """True if most of the work is on vectors; None if instructions are not classified."""
        return None if self.vector_bits is None else self.vector_bits > 0


def machine_code(loop: MachineLoop, triple: str) -> MachineCode:
    """Counts of a machine loop."""
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
    """Number of branches out of a loop besides its end.

    A loop that ends in a conditional branch to its header has no other end.
    """
    outside = {effect.target for effect in effects if effect.target} - loop.labels
    falls_through = any(effect.target == loop.header and effect.is_conditional for effect in effects)
    return len(outside) - (not falls_through and bool(outside))


def _vector_bits(effects: Sequence[Effect]) -> int:
    """Maximum vector width in bits; 0 if scalar instructions predominate."""
    vectors = [effect.vector_bits for effect in effects if effect.vector_bits]
    return max(vectors) if len(vectors) > sum(effect.is_scalar_float for effect in effects) else 0


def _cycles(effects: Sequence[Effect]) -> float:
    computations = sum(
        bool(effect.flops or (effect.vector_bits and not effect.loads and not effect.stores)) for effect in effects
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
    """An innermost loop of a kernel, and its machine code."""

    function: str
    path: tuple[str, ...]
    """Names of the enclosing loops, outermost first, and of the loop."""
    loop: For | While
    number: int
    """Number of the loop in the kernel's text, counting from 0."""
    main: MachineCode | None
    """Machine loop with most of the work; None if no loop is left."""
    others: tuple[MachineCode, ...]
    """Other machine loops of this loop, such as the remainder loop."""
    copies: int
    """Number of copies of the main loop, made by unrolling an outer loop."""
    lanes: int
    """Number of lanes if LLVM vectorised the loop; otherwise 0."""
    interleaved: int
    """Number of vectors per iteration if LLVM vectorised the loop; otherwise 0."""
    reason: str
    """Reason why the loop is not vectorised, or what replaced it."""

    @property
    def name(self) -> str:
        """Function and loops, such as ``gemm: jo > io > k``."""
        return f"{self.function}: {' > '.join(self.path)}"

    @property
    def is_vectorised(self) -> bool | None:
        """True if the main loop is vectorised; None if that is unknown, or there is no loop."""
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
