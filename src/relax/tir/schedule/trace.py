"""Traces: the primitives that a schedule has applied, as a program that can be printed, saved, replayed and mutated.

    from relax import tir


    def apply_trace(sch: tir.Schedule) -> None:
        b0 = sch.get_block(name="C")
        l1, l2, l3 = sch.get_loops(block=b0)
        v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[8, 16])
        l6, l7 = sch.split(loop=l1, factors=[v4, v5])
        sch.parallel(loop=l6)

A trace holds the random variables of the schedule that recorded it. Replaying maps each to a counterpart in the other
schedule, so a trace applies to every program that contains the named blocks and where its primitives are legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from ...ir.printing import show_text
from ...prim import PrimExpr, Var, free_vars, substitute
from .error import TRACE, ScheduleError
from .instruction import Instruction, InstructionKind, map_leaves
from .rv import BlockRV, LoopRV
from .trace_json import read_json, write_json
from .trace_python import write_python

DecisionProvider: TypeAlias = Callable[[Instruction, "list[Any]", "list[Any]", Any], Any]
"""Map (instruction, inputs, attributes, recorded decision) to a decision; None requests a new one."""


class Replayer(Protocol):
    """A schedule to which the instructions of a trace are applied."""

    def replay(self, kind: InstructionKind, arguments: dict[str, Any]) -> Any: ...

    def get_size(self, name: str, func_name: str | None = None) -> Var: ...


_Step: TypeAlias = "tuple[Instruction, Any]"


class Trace:
    """The instructions of a schedule, oldest first, and the decisions of sampling instructions. Copies share them."""

    def __init__(self, insts: Iterable[Instruction] = (), decisions: Mapping[Instruction, Any] | None = None) -> None:
        table = decisions or {}
        self._steps: list[_Step] = [(inst, table.get(inst)) for inst in insts]
        self._length = len(self._steps)

    # ------------------------------------------------------------------ as a list

    @property
    def insts(self) -> list[Instruction]:
        """The instructions, oldest first."""
        return [inst for inst, _ in self._own()]

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """The decisions of sampling instructions."""
        return {inst: decision for inst, decision in self._own() if decision is not None}

    def get_decision(self, inst: Instruction) -> Any:
        """Return the decision of an instruction; None if it does not sample, or is not in this trace."""
        return next((decision for item, decision in self._own() if item is inst), None)

    def _own(self) -> list[_Step]:
        return self._steps[: self._length]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.insts)

    def __len__(self) -> int:
        return self._length

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Append an instruction."""
        if len(self._steps) != self._length:  # a copy has gone on with the list that both share
            self._steps = self._own()
        self._steps.append((inst, decision))
        self._length += 1

    def pop(self) -> Instruction | None:
        """Remove and return the last instruction; None if there is none."""
        if self._length == 0:
            return None
        self._length -= 1
        return self._steps[self._length][0]

    def copy(self) -> Trace:
        """Return an independent copy in constant time."""
        other = Trace()
        other._steps, other._length = self._steps, self._length
        return other

    # ------------------------------------------------------------------ as text, and back

    def as_python(self) -> list[str]:
        """Return the lines of the function body that `str` prints."""
        return write_python(self._own())

    def __str__(self) -> str:
        lines = self.as_python()
        body = "".join(f"    {line}\n" for line in lines) or "    pass\n"
        imports = "from relax import ir, tir\n" if "ir.load_json(" in body else "from relax import tir\n"
        if "T." in body:
            imports += "from relax.script import tir as T\n"
        return f"{imports}\n\ndef apply_trace(sch: tir.Schedule) -> None:\n{body}"

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} instructions>"

    def show(self, style: str | None = None, **options: Any) -> None:
        """Print the trace as Python, highlighted when the output is a terminal."""
        del options  # of TVM's formatter, which there is none of
        show_text(str(self).rstrip("\n"), style)

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """Return the trace as JSON values: ``[[[kind, arguments, outputs], …], [[index, decision], …]]``."""
        return write_json(self._until_postproc(remove_postproc))

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Replayer) -> None:
        """Apply a saved trace to a schedule. Raises ScheduleError if it is malformed or not applicable."""
        for kind, arguments, outputs in read_json(json_obj, sch.get_size):
            result = sch.replay(kind, arguments())
            outputs(_as_tuple(result))

    # ------------------------------------------------------------------ replay

    def apply_to_schedule(
        self, sch: Replayer, remove_postproc: bool = False, decision_provider: DecisionProvider | None = None
    ) -> None:
        """Apply the instructions to another schedule. Raises ScheduleError where one does not fit.

        Parameters
        ----------
        remove_postproc : stop before `enter_postproc`.
        decision_provider : called for each sampling instruction; returns the decision to take.
        """
        counterparts: dict[int, Any] = {}
        integers: dict[Var, PrimExpr] = {}

        def counterpart(value: Any) -> Any:
            if isinstance(value, (BlockRV, LoopRV)):
                if id(value) not in counterparts:
                    raise ScheduleError(TRACE, f"{value!r} is not an output of any instruction of the trace")
                return counterparts[id(value)]
            if isinstance(value, PrimExpr) and free_vars(value):
                sizes = {var: sch.get_size(var.name) for var in free_vars(value) if var not in integers}
                return substitute(value, {**integers, **sizes})
            return value

        for inst, recorded in self._until_postproc(remove_postproc):
            options = {name: map_leaves(value, counterpart) for name, value in inst.arguments.items()}
            if inst.kind.samples:
                decision = recorded
                if decision_provider is not None:
                    decision = decision_provider(inst, inst.inputs, inst.attrs, recorded)
                options["decision"] = decision
            results = _as_tuple(sch.replay(inst.kind, options))
            if len(results) != len(inst.outputs):
                raise _other_number(inst.kind, len(inst.outputs), len(results))
            for old, new in zip(inst.outputs, results, strict=True):
                counterparts[id(old)] = new
                if isinstance(old, Var):
                    integers[old] = new

    def _until_postproc(self, remove_postproc: bool) -> list[_Step]:
        steps = self._own()
        if remove_postproc:
            for number, (inst, _) in enumerate(steps):
                if inst.kind.is_postproc:
                    return steps[:number]
        return steps

    # ------------------------------------------------------------------ other traces

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool = False) -> Trace:
        """Return a copy with another decision for one instruction.

        Raises ScheduleError if the instruction is not of this trace, or does not sample.
        """
        steps = self._until_postproc(remove_postproc)
        if not inst.kind.samples or not any(item is inst for item, _ in steps):
            reason = "is not of this trace" if inst.kind.samples else "takes no decision"
            raise ScheduleError(TRACE, f"the instruction {inst.kind.name} {reason}")
        return _trace_of([(item, decision if item is inst else old) for item, old in steps])

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Return the trace without instructions that change nothing and whose outputs are unused."""
        used: set[Any] = set()
        kept: list[_Step] = []
        for inst, decision in reversed(self._until_postproc(remove_postproc)):
            if inst.kind.is_pure and used.isdisjoint(inst.outputs):
                continue
            used.difference_update(inst.outputs)
            used.update(inst.used())
            kept.append((inst, decision))
        return _trace_of(kept[::-1])


def _trace_of(steps: Iterable[_Step]) -> Trace:
    trace = Trace()
    for inst, decision in steps:
        trace.append(inst, decision)
    return trace


def _as_tuple(result: Any) -> tuple[Any, ...]:
    if result is None:
        return ()
    return tuple(result) if isinstance(result, (list, tuple)) else (result,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _other_number(kind: InstructionKind, expected: int, actual: int) -> ScheduleError:
    return ScheduleError(
        TRACE,
        f"{kind.method} gave {actual} results, but the trace goes on with {expected}",
        hint="the trace was recorded on a function with other loops or blocks",
    )
