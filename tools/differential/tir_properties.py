"""What must hold of every PrimFunc: `tir(text, cases)` raises Failure where something differs from the oracle.

interprets   tir.interpret gives what the oracle gives: values, or the same sort of error
compiles     compiled code does, and writes nothing outside of its buffers
steps_keep   the interpreter does too after Simplify and after each step of lowering
passes_keep  it does after some passes of tir.transform, each alone and all in a row, before lowering and after it; a pass
             makes what is well-formed, and is done the first time, unless its work is bounded
prints       printing and parsing is the identity, before lowering and after it
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relax import codegen, tir
from relax.ir import DiagnosticError, IRModule, Node, assert_structural_equal, structural_equal
from relax.ir.transform import Pass, PassContext
from relax.script import from_source
from relax.tir import transform
from relax.tir.transform import Simplify
from relax.tir.transform.lower import lowering_steps
from relax.tir.well_formed import verify_well_formed

from . import harness
from .generator import HEADER
from .properties import Case, Failure
from .rounding import FORMATS
from .tir_numbers import Undefined
from .tir_oracle import FAULTS, Oracle

PARTS = ("interprets", "compiles", "steps_keep", "passes_keep", "prints")
PASSES: dict[str, Callable[[], Pass]] = {
    "CommonSubexprElimTIR": transform.CommonSubexprElimTIR,
    "CompactBufferAllocation": transform.CompactBufferAllocation,
    "ConvertForLoopsToSerial": transform.ConvertForLoopsToSerial,
    "ConvertSSA": transform.ConvertSSA,
    "FlattenBuffer": transform.FlattenBuffer,
    "HoistExpression": transform.HoistExpression,
    "HoistIfThenElse": transform.HoistIfThenElse,
    "InterchangeReduction": transform.InterchangeReduction,
    "LoopPartition": transform.LoopPartition,
    "NarrowDataType(16)": lambda: transform.NarrowDataType(16),
    "NarrowDataType(32)": lambda: transform.NarrowDataType(32),
    "RemoveNoOp": transform.RemoveNoOp,
    "RenormalizeSplitPattern": transform.RenormalizeSplitPattern,
    "Simplify": transform.Simplify,
    "StorageRewrite": transform.StorageRewrite,
    "UnrollLoop": transform.UnrollLoop,
    "VectorizeLoop": transform.VectorizeLoop,
}
REPEATED = frozenset({"CommonSubexprElimTIR", "Simplify"})
"""Passes whose work is bounded: what they make may leave some for the second time."""
TRIED = 4
"""The number of passes that are tried on a function."""
CONFIG = {"tir.LoopPartition": {"partition_const_loop": True}}
MARGIN = 256
"""So many bytes on both sides of a buffer are watched."""
CANARY = 0xA5

Outcome = list[np.ndarray[Any, Any]] | type[BaseException]


def function(text: str) -> tir.PrimFunc:
    """The function main of a module's text."""
    with harness.quiet():
        module = from_source(HEADER + text)
    assert isinstance(module, IRModule)
    main = module["main"]
    assert isinstance(main, tir.PrimFunc)
    return main


# ------------------------------------------------------------------------------------------- outcomes


def expected(text: str, cases: Sequence[Case]) -> list[tuple[Case, Outcome]]:
    """What the oracle says of each case that the language defines."""
    try:
        oracle = Oracle(text)
    except (Undefined, AssertionError, ValueError, SyntaxError):
        return []
    found: list[tuple[Case, Outcome]] = []
    for case in cases:
        try:
            found.append((case, outcome(oracle.run, case)))
        except Undefined:
            continue
    return found


def outcome(run: Callable[[Sequence[Any]], Any], case: Case) -> Outcome:
    """The arrays after a run, or the sort of error it ends with."""
    try:
        return run(case)
    except Failure:
        raise  # it is an AssertionError of its own sort
    except FAULTS as error:
        return next(kind for kind in FAULTS if isinstance(error, kind))


def interpreted(func: tir.PrimFunc, case: Case, module: IRModule | None = None) -> list[np.ndarray[Any, Any]]:
    """The arrays after the interpreter ran; `module` holds the functions it calls."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in case]
    tir.interpret(func, *copies, module=module)
    return [arg for arg in copies if isinstance(arg, np.ndarray)]


def run_guarded(call: Callable[..., None], case: Case) -> list[np.ndarray[Any, Any]]:
    """The arrays after compiled code ran, in memory with margins that it must leave alone."""
    memories: list[np.ndarray[Any, Any]] = []
    given: list[Any] = []
    for arg in case:
        if not isinstance(arg, np.ndarray):
            given.append(arg)
            continue
        memory = np.full(arg.nbytes + 3 * MARGIN, CANARY, np.uint8)
        start = MARGIN + (-memory.ctypes.data) % 64
        place = memory[start : start + arg.nbytes].view(arg.dtype).reshape(arg.shape)
        place[...] = arg
        given.append(place)
        memories += [memory[:start], memory[start + arg.nbytes :]]
    try:
        call(*given)
    finally:
        if any((memory != CANARY).any() for memory in memories):
            raise Failure("compiles writes outside", "memory beside a buffer was changed")
    return [arg for arg in given if isinstance(arg, np.ndarray)]


def difference(wanted: Outcome, found: Outcome) -> str | None:
    """How two outcomes differ; None if they do not. NaN is NaN, whatever its bits."""
    if isinstance(wanted, type) or isinstance(found, type):
        if wanted is found:
            return None
        return f"expected {_error_name(wanted)}, found {_error_name(found)}"
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        same = _same(a, b)
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return f"array {number}{list(at)}: expected {a[at]!r}, found {b[at]!r}"
    return None


def _error_name(found: Outcome) -> str:
    return found.__name__ if isinstance(found, type) else "no error"


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if a.dtype.name not in FORMATS:
        return np.asarray(a == b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return np.asarray(((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y)))


def _sort(wanted: Outcome, found: Outcome) -> str:
    if isinstance(wanted, type) or isinstance(found, type):
        return f"{_error_name(wanted)} {_error_name(found)}"
    return "values"


# ------------------------------------------------------------------------------------------- the parts


def _compare(part: str, known: list[tuple[Case, Outcome]], run: Callable[[Case], Any]) -> None:
    for case, wanted in known:
        found = outcome(run, case)
        text = difference(wanted, found)
        if text is not None:
            raise Failure(f"{part}: {_sort(wanted, found)}", text)


def interprets(func: tir.PrimFunc, known: list[tuple[Case, Outcome]]) -> None:
    """The interpreter does what the oracle says."""
    _compare("interprets", known, lambda case: interpreted(func, case))


def compiles(func: tir.PrimFunc, known: list[tuple[Case, Outcome]], call: Callable[..., None] | None = None) -> None:
    """Compiled code does; `call` is the function if it is compiled already."""
    made = codegen.build_module({"main": func})["main"] if call is None else call
    _compare("compiles", known, lambda case: run_guarded(made, case))


def steps_keep(func: tir.PrimFunc, known: list[tuple[Case, Outcome]]) -> None:
    """Simplify keeps what the function does, and every step of lowering, one after the other."""
    before = IRModule({"main": func})
    _compare_module("Simplify", known, Simplify()(before))
    for number, step in enumerate(lowering_steps()):
        made = step.make()
        after = made(before)
        if after is not before:
            _compare_module(f"{made.info.name} ({number})", known, after)
        before = after


def passes_keep(func: tir.PrimFunc, known: list[tuple[Case, Outcome]], passes: Sequence[str]) -> None:
    """Each of some passes keeps what the function does, and so do all of them, one after the other."""
    with PassContext(config=CONFIG):
        for form, start in (("", IRModule({"main": func})), (" lowered", IRModule({"main": tir.lower(func)}))):
            row = start
            for name in passes:
                made = PASSES[name]()
                after = _after_pass(f"{name}{form}", made, start)
                if after is not start:
                    _compare_module(f"{name}{form}", known, after)
                row = _after_pass(f"{name}{form} in a row", made, row)
            _compare_module(f"{', '.join(passes)}{form}", known, row)


def _after_pass(part: str, made: Pass, before: IRModule) -> IRModule:
    """The module after a pass, which must be well-formed, and stay as it is the second time."""
    after = made(before)
    if after is before:
        return before
    main = after["main"]
    assert isinstance(main, tir.PrimFunc)
    try:
        verify_well_formed(main)
    except DiagnosticError as error:
        raise Failure(f"{part}: ill-formed", str(error)) from error
    again = after if made.info.name in REPEATED else made(after)
    if not structural_equal(again, after):
        raise Failure(f"{part}: changes twice", f"{after.script()}\n{again.script()}")
    return after


def _compare_module(part: str, known: list[tuple[Case, Outcome]], module: IRModule) -> None:
    main = module["main"]
    assert isinstance(main, tir.PrimFunc)
    _compare(part, known, lambda case: interpreted(main, case, module))


def prints(func: tir.PrimFunc) -> None:
    """The printed text is the function again, before and after lowering."""
    forms: dict[str, Node] = {"": func, " lowered": tir.lower(func), " outlined": tir.lower(IRModule({"main": func}))}
    for name, form in forms.items():
        text = form.script(show_meta=True)
        try:
            with harness.quiet():
                again = from_source(text)
            assert_structural_equal(again, form)
        except Exception as error:
            raise Failure(f"prints{name} {type(error).__name__}", f"{error}\n{text}") from error


def tir_agrees(
    text: str,
    cases: Sequence[Case],
    exact: bool = True,
    parts: Sequence[str] = PARTS,
    call: Callable[..., None] | None = None,
) -> None:
    """All of it; `parts` are those to look at. Cases of which the language says nothing are passed over."""
    known = expected(text, cases)
    if not known:
        return
    func = function(text)
    checks: dict[str, Callable[[], None]] = {
        "interprets": lambda: interprets(func, known),
        "compiles": lambda: compiles(func, known, call),
        "steps_keep": lambda: steps_keep(func, known),
        "passes_keep": lambda: passes_keep(func, known, random.Random(text).sample(list(PASSES), TRIED)),
        "prints": lambda: prints(func),
    }
    for part in parts:
        try:
            checks[part]()
        except Failure as failure:
            failure.options = {**failure.options, "parts": [part]}
            raise


def compiled_together(texts: Sequence[str]) -> list[Callable[..., None] | None]:
    """The compiled main of each text, of one module, which is faster; None for each if one cannot be compiled."""
    try:
        funcs = {f"main{i}": function(text) for i, text in enumerate(texts)}
        module = codegen.build_module(funcs)
    except Exception:  # noqa: BLE001 (which one it is comes out when each is compiled alone)
        return [None] * len(texts)
    return [module[name] for name in funcs]
