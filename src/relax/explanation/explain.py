"""Explanations of kernels: from PrimFuncs to reports on the innermost loops of their machine code.

Kernels are compiled as usual, with the instructions of each loop marked (`lines`). LLVM runs in another process
(`worker.emit_notes`), since its remarks are a process-wide option. The marks appear in the assembly as line numbers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from ..codegen.module import kernel_texts
from ..farm import worker
from ..farm.host import resolve
from ..farm.kernel_text import KernelText, MarkedLoop
from ..farm.objects import machine_of
from ..farm.worker import LLVMTarget
from ..farm.worker_processes import START
from ..ir import BaseFunc, Diagnostic, DiagnosticError, IRModule
from ..target import Target
from ..target.isa import ISAS
from ..tir import For, PrimFunc, lower
from ..tir.transform import PARALLEL_BODY
from .assembly import MachineLoop, machine_loops
from .lines import loop_at, with_lines
from .remarks import Remarks, read_remarks, reason_of
from .report import LoopReport, MachineCode, machine_code
from .rules import rule_report
from .shown import Explanation


def explain(
    func: PrimFunc | IRModule, target: Target | str | None = None, *, constants: Sequence[int] = ()
) -> Explanation:
    """Report on the schedule rule and each innermost loop in the machine code of a PrimFunc, or those of a module.

    A report on a loop says whether it is vectorised, and why not, and counts the instructions of an iteration. A report
    on rules says which one `relax.build` takes for the function, and why not those before it; `constants` are the
    positions of parameters with constant arguments. The machine code is that of the loops as written: to see that of
    the rule, schedule the function first. ``explain(func).show()``, ``.save("kernel.html")``, ``.loops``, ``.rules``.

    Instructions are classified for x86-64 and AArch64; loops are found for RISC-V as well. Raises DiagnosticError for
    code that cannot be compiled, or is not a PrimFunc; ValueError for other architectures.
    """
    chosen = resolve(target)
    if chosen.isa.comment is None:
        readable = ", ".join(isa.name for isa in ISAS if isa.comment is not None)
        raise ValueError(f"target {chosen}: its machine code is not read; that of {readable} is")
    mod = _prim_funcs(func)
    lowered = lower(mod, chosen)
    written, funcs = (
        {g.name_hint: f for g, f in m.functions.items() if isinstance(f, PrimFunc)} for m in (mod, lowered)
    )
    rules = [rule_report(name, f, chosen, constants) for name, f in written.items()]
    kernels = kernel_texts(funcs, chosen, mark_loops=True)
    titles = {name: str(f.attrs.get(PARALLEL_BODY, name)) for name, f in funcs.items()}
    reports: list[LoopReport] = []
    for kernel, (assembly, remarks) in zip(kernels, _compiled(kernels, machine_of(chosen)), strict=True):
        loops = machine_loops(assembly, chosen.triple)
        reports += _Kernel(kernel.loops, titles, chosen).reports(loops, read_remarks(remarks))
    return Explanation(lowered, chosen, tuple(reports), tuple(rules))


def _prim_funcs(func: object) -> IRModule:
    """Module of the PrimFuncs. Raises DiagnosticError if there is none."""
    if isinstance(func, PrimFunc):
        return IRModule.from_expr(func)
    if isinstance(func, IRModule):
        chosen: dict[str, BaseFunc] = {g.name_hint: f for g, f in func.functions.items() if isinstance(f, PrimFunc)}
        if chosen:
            return IRModule(chosen)
        message = "the module has no PrimFunc whose machine code could be explained"
        raise DiagnosticError(Diagnostic("E5908", message, hint="run LegalizeOps first"))
    message = f"explain takes a PrimFunc or a module of PrimFuncs, found {type(func).__name__}"
    raise DiagnosticError(Diagnostic("E5908", message))


def _compiled(kernels: Sequence[KernelText], machine: LLVMTarget) -> list[tuple[str, str]]:
    """Commented assembly and LLVM's remarks of each kernel."""
    if not kernels:
        return []
    messages = [json.dumps(machine), *(with_lines(kernel.text) for kernel in kernels)]
    sent = b"".join(worker.packed(message.encode()) for message in messages)
    command = [sys.executable, "-I", "-S", "-c", START, json.dumps([*map(str, sys.path)]), worker.__file__, "note"]
    done = subprocess.run(command, input=sent, capture_output=True, check=False)
    texts = worker.unpacked(done.stdout)
    complaints = done.stderr.decode(errors="replace")
    remarks = complaints.split("\0")
    if len(texts) != len(kernels):
        message = f"LLVM does not accept the code that was generated: {remarks[-1].strip()[-300:]}"
        raise DiagnosticError(Diagnostic("E5909", message, hint="this is an error of relax"))
    return [(text.decode(), remark) for text, remark in zip(texts, remarks, strict=False)]


class _Kernel:
    """Loops of a kernel, and reports on those that are innermost in its machine code."""

    def __init__(self, loops: Sequence[MarkedLoop], titles: dict[str, str], target: Target) -> None:
        self.loops = loops
        self.titles = titles
        self.target = target

    def reports(self, loops: Sequence[MachineLoop], remarks: dict[int, Remarks]) -> list[LoopReport]:
        """Reports in program order: on loops with machine code, and on innermost loops without any."""
        codes: dict[int, list[MachineCode]] = {}
        for machine_loop in loops:
            number = self._owner(machine_loop)
            if number is not None:
                codes.setdefault(number, []).append(machine_code(machine_loop, self.target.triple))
        outer = {loop.parent for loop in self.loops}
        return [
            self._report(number, codes.get(number, []), remarks.get(number, Remarks()))
            for number in range(len(self.loops))
            if number in codes or number not in outer
        ]

    def _owner(self, machine_loop: MachineLoop) -> int | None:
        """Innermost program loop around all instructions of known origin; the most frequent origin if none is."""
        numbers = [loop_at(instruction.line) for instruction in machine_loop.instructions]
        origins = [number for number in numbers if number is not None]
        if not origins:
            return None
        around = [self._around(number) for number in set(origins)]
        common = [number for number in around[0] if all(number in path for path in around)]
        return common[0] if common else max(set(origins), key=origins.count)

    def _around(self, number: int) -> list[int]:
        """A loop and its enclosing loops, innermost first."""
        path = [number]
        while (parent := self.loops[path[-1]].parent) is not None:
            path.append(parent)
        return path

    def _report(self, number: int, codes: Sequence[MachineCode], remarks: Remarks) -> LoopReport:
        main = max(codes, key=_work) if codes else None
        copies = [code for code in codes if main is not None and _work(code) == _work(main)]
        others = {_work(code): code for code in codes if code not in copies}
        vectorised = main is not None and main.is_vectorised
        lanes, interleaved = max(remarks.vectorised, default=(0, 0)) if vectorised else (0, 0)
        marked = self.loops[number]
        return LoopReport(
            function=self.titles[marked.function],
            path=tuple(_name(self.loops[i].loop) for i in reversed(self._around(number))),
            loop=marked.loop,
            number=number,
            main=main,
            others=tuple(others.values()),
            copies=len(copies),
            lanes=lanes,
            interleaved=interleaved,
            reason=self._reason(main, remarks),
        )

    def _reason(self, main: MachineCode | None, remarks: Remarks) -> str:
        if main is None:
            return "; ".join(remarks.events) or "no loop is left: its code is part of the code around it"
        if main.is_vectorised is not False:
            return ""
        reasons: list[str] = []
        if self.target.opt_level < 2:
            reasons.append("the target's opt-level is below 2")
        if main.calls:
            reasons.append(f"it calls {', '.join(main.calls)}, element by element")
        refusal = reason_of([text for text in remarks.refusals if not (main.calls and "call" in text)])
        reasons += [refusal] if refusal else []
        if main.exits and "end early" not in refusal:
            reasons.append("it may end early: a check may fail in it")
        return "; ".join(reasons) or "LLVM gives no reason"


def _work(code: MachineCode) -> tuple[int, int, int]:
    """Sort key of the machine loops of one program loop: the main one has the widest vectors and most operations."""
    return code.vector_bits or 0, code.flops or 0, code.instructions


def _name(loop: object) -> str:
    return loop.loop_var.name if isinstance(loop, For) else "while"
