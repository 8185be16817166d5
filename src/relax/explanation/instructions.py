"""Effects of machine instructions that matter to the speed of a loop."""

from __future__ import annotations

from ..target.isa import Effect, isa_of
from .assembly import Instruction


def effect_of(instruction: Instruction, triple: str) -> Effect:
    """Effect of an instruction. Raises ValueError for an architecture whose instructions are not classified."""
    isa = isa_of(triple)
    if isa.effect is None:
        raise ValueError(f"the instructions of {isa.name} are not told apart")
    return isa.effect(instruction.mnemonic, split(instruction.operands))


def split(operands: str) -> list[str]:
    """Split operands at commas outside of brackets."""
    out = [""]
    depth = 0
    for char in operands:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            out.append("")
        else:
            out[-1] += char
    return [text.strip() for text in out if text.strip()]


__all__ = ["Effect", "effect_of", "split"]
