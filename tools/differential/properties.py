"""What must hold of every program: each property is a function of a module's text and arguments that raises Failure.

    agrees(text, cases)             every execution mode does what the interpreter does
    passes_keep(text, cases)        each pass, alone, keeps what a program does, well-formedness, and is idempotent
    orders_keep(text, cases)        so do passes in random orders that make sense
    prints_and_parses(text, cases)  printing and parsing is the identity, before and after each pass
    saves_and_loads(text, cases)    a saved executable is the executable, a saved module the module
    runs_elsewhere(text, cases)     a saved executable does the same in a process without the compiler
    binds(text, cases)              sizes and parameters bound to the values they have change nothing
    derives_truly(text, cases)      every value is as its variable's struct info says
    aliases_are_known(text, cases)  what shares memory, or is changed, when it runs, analysis.alias says may be
    rejects(text, cases)            a program in which one rule is broken is rejected, and the rule is named

A case is a list of arguments of main. `exact` says that results are compared exactly (`generator.Program.exact`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

import relax
from relax import optimize, transform
from relax.analysis import assert_well_formed
from relax.info.mapping import bound_in
from relax.interpreter import Interpreter, matching
from relax.ir import DiagnosticError, IRModule, assert_structural_equal, structural_equal
from relax.ir.transform import Pass, PassContext, VerifyInstrument
from relax.optimize.pipeline import DEFAULT
from relax.struct_info import FuncStructInfo, ObjectStructInfo, TupleStructInfo

from . import harness
from .aliasing import AliasingChecker
from .generator import HEADER, PROVED
from .harness import Outcome

Case = Sequence[Any]


class Failure(AssertionError):
    """A property does not hold.

    `kind` is the sort of failure, without what is particular to the program; `options` are arguments of the property
    that make it look for this failure only.
    """

    def __init__(self, kind: str, message: str, **options: Any) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.options = options


@contextlib.contextmanager
def narrowed(**options: Any) -> Iterator[None]:
    """Failures within are found again with these options."""
    try:
        yield
    except Failure as failure:
        failure.options = {**failure.options, **options}
        raise


def parse(text: str) -> IRModule:
    """A module, from text without imports."""
    with harness.quiet():
        mod = relax.script.from_source(HEADER + text)
    assert isinstance(mod, IRModule)
    return mod


# -------------------------------------------------------------------------------------------- running


TARGET = "llvm"
"""The target of the programs; one of a lower level builds them faster."""


def interpreted(mod: IRModule, cases: Iterable[Case]) -> list[Outcome]:
    """What the interpreter does."""
    return [harness.run(Interpreter(mod)["main"], case) for case in cases]


def machine(executable: relax.Executable) -> Callable[..., Any]:
    """The main of an executable, on two devices of the host."""
    return relax.VirtualMachine(executable, [relax.cpu(0), relax.cpu(1)])["main"]


def _machine(mod: IRModule, mode: str, pipeline: str = "default") -> Callable[..., Any]:
    with harness.quiet(), PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        return machine(relax.build(mod, TARGET, pipeline=pipeline, exec_mode=mode))


MODES: dict[str, Callable[[IRModule], Callable[..., Any]]] = {
    "bytecode": lambda mod: _machine(mod, "bytecode"),
    "unfused": lambda mod: _machine(mod, "bytecode", "unfused"),
    "compiled": lambda mod: _machine(mod, "compiled"),
    "compiled and unfused": lambda mod: _machine(mod, "compiled", "unfused"),
}
"""The execution modes: for each, how a module's main is made callable."""


def attempt(kind: str, action: Callable[[], Any]) -> Any:
    """What an action gives; that it fails is a failure."""
    try:
        return action()
    except Failure:
        raise
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        raise Failure(f"{kind} {type(error).__name__}", f"{first}\n{error}") from error


def compare(
    kind: str, expected: Iterable[Outcome], found: Iterable[Outcome], exact: str, cases: Sequence[Case]
) -> None:
    for wanted, got, case in zip(expected, found, cases, strict=True):
        text = harness.difference(wanted, got, exact)
        if text is not None:
            raise Failure(f"{kind}: {_sort(text)}", f"{text}\nfor arguments {list(case)}")


def _sort(text: str) -> str:
    """What stays of a difference when the program shrinks: where it is, and the types of errors."""
    found = re.match(r"error: expected (\w+)(?:: .*)?, found (\w+)", text)
    return f"error {found[1]} {found[2]}" if found else text.split(":")[0].split("[")[0]


# ----------------------------------------------------------------------------------------- properties


def agrees(text: str, cases: Sequence[Case], exact: bool = True, modes: Sequence[str] | None = None) -> None:
    """Every execution mode agrees with the interpreter on values, effects and their order, sharing and errors."""
    mod = parse(text)
    how = harness.precision(text, exact)
    expected = interpreted(mod, cases)
    for mode in MODES if modes is None else modes:
        with narrowed(modes=[mode]):
            main = attempt(f"building for {mode}", lambda: MODES[mode](mod))  # noqa: B023
            compare(mode, expected, [harness.run(main, case) for case in cases], how, cases)


def _maker(name: str) -> Callable[[], Pass]:
    """The maker of a pass of relax.transform or relax.optimize."""
    return getattr(transform, name) if hasattr(transform, name) else getattr(optimize, name)


GRAPH_PASSES: dict[str, Callable[[], Pass]] = {
    name: _maker(name)
    for name in (
        "Normalize",
        "NormalizeGlobalVar",
        "CanonicalizeBindings",
        "ConvertToDataflow",
        "ArithmeticToDequantize",
        "FakeQuantizationToInteger",
        "DequantizeInProducts",
        "SumsOfBytes",
        "CompilePagedAttention",
        "FoldConstant",
        "FuseTransposeMatmul",
        "FoldBatchnormToConv2D",
        "ConvTransposeToConv",
        "OneHotMatmulToTake",
        "DivisionToMultiplication",
        "EliminateCommonSubexpr",
        "DeadCodeElimination",
        "RemoveUnusedFunctions",
        "InlinePrivateFunctions",
        "LambdaLift",
        "LegalizeOps",
        "RewriteDataflowReshape",
        "AnnotateTIROpPattern",
        "FuseAttention",
        "FuseOps",
        "FuseTIR",
        "FuseConvolutions",
        "ChannelsLast",
        "RealizeVDevice",
        "CheckReuse",
        "DataflowUseInplaceCalls",
        "AdjustMatmulOrder",
        "CombineParallelMatmul",
        "DecomposeOpsForInference",
        "ExpandMatmulOfSum",
        "MergeCompositeFunctions",
        "OptimizeLayoutTransform",
        "RemoveRedundantReshape",
        "ReorderPermuteDimsAfterConcat",
        "ReorderTakeAfterMatmul",
        "TopologicalSort",
        "RemoveUnusedParameters",
        "RemoveUnusedOutputs",
        "ExpandTupleArguments",
        "AttachAttrLayoutFreeBuffers",
        "AttachGlobalSymbol",
        "SpecializePrimFuncBasedOnCallSite",
    )
}
GRAPH_PASSES["ConvertLayout"] = lambda: transform.ConvertLayout(
    {"relax.nn.conv2d": ["NHWC", "HWIO"], "relax.nn.max_pool2d": ["NHWC"], "relax.nn.avg_pool2d": ["NHWC"]}
)
"""Passes from program to program, in no particular order."""

LOWERING: dict[str, Callable[[], Pass]] = {
    name: _maker(name)
    for name in (
        "LegalizeOps",
        "AnnotateTIROpPattern",
        "FuseAttention",
        "FuseOps",
        "FuseTIR",
        "FuseConvolutions",
        "ChannelsLast",
        "ToNonDataflow",
        "RemovePurityChecking",
        "CallTIRRewrite",
        "LambdaLift",
        "StaticPlanBlockMemory",
        "LowerAllocTensor",
        "KillAfterLastUse",
        "VMBuiltinLower",
        "VMShapeLower",
    )
}
"""Passes that go down, in this order."""

OF_THE_MACHINE = ("VMBuiltinLower", "VMShapeLower")
"""Passes that only each other come after."""


def _apply(name: str, make: Callable[[], Pass], mod: IRModule) -> IRModule:
    def apply() -> IRModule:
        with harness.quiet():
            after = make()(mod)
        assert_well_formed(after)
        return after

    return attempt(f"after {name}", apply)


def _idempotent(name: str, make: Callable[[], Pass], mod: IRModule) -> None:
    again = _apply(f"{name} twice", make, mod)
    if again is not mod and not structural_equal(again, mod):
        raise Failure(f"{name} is not idempotent", f"once\n{mod.script()}\ntwice\n{again.script()}")


def passes_keep(text: str, cases: Sequence[Case], exact: bool = True, names: Sequence[str] | None = None) -> None:
    """Each pass alone keeps what a program does; the lowering ones come after those they need."""
    mod = parse(text)
    how = harness.precision(text, exact)
    expected = interpreted(mod, cases)
    for name, make in GRAPH_PASSES.items():
        if names is None or name in names:
            with narrowed(names=[name]):
                after = _apply(name, make, mod)
                if after is not mod:
                    found = interpreted(after, cases)
                    compare(f"after {name}", _as_after([name], expected, found), found, how, cases)
                _idempotent(name, make, after)
    lowered = mod
    for name, make in LOWERING.items():
        with narrowed(names=[name]):
            before, lowered = lowered, _apply(name, make, lowered)
            if lowered is not before and (names is None or name in names):
                found = interpreted(lowered, cases)
                compare(f"after lowering to {name}", _as_after([name], expected, found), found, how, cases)
                _idempotent(name, make, lowered)


def orders_keep(text: str, cases: Sequence[Case], exact: bool = True, order: Sequence[str] | None = None) -> None:
    """Passes in a random order that makes sense: graph passes anywhere, the lowering ones in theirs."""
    mod = parse(text)
    how = harness.precision(text, exact)
    names = _random_order(random.Random(text)) if order is None else order
    expected = interpreted(mod, cases)
    made = {**GRAPH_PASSES, **LOWERING}
    for done, name in enumerate(names, 1):
        with narrowed(order=list(names[:done])):
            before, mod = mod, _apply(name, made[name], mod)
            if mod is before:
                continue
            found = interpreted(mod, cases)
            compare(f"after {name}", _as_after(names[:done], expected, found), found, how, cases)
            if name in ("ConvertToDataflow", "InlinePrivateFunctions"):
                expected = found  # errors of what stands in a block now may vanish; they name other functions


WITH_STORAGE = frozenset(list(LOWERING)[list(LOWERING).index("StaticPlanBlockMemory") :])
"""From these passes on a program has storages, whose sizes are told in bytes."""
NEGATIVE = re.compile(r"a shape cannot have a negative dimension, as in \(-\d+,\)$")
NO_DIMENSION = re.compile(
    r"a shape cannot have a (?:negative dimension|dimension of 2\*\*48 or more), as in \(-?\d+,\)$"
)
NOT_A_SIZE = re.compile(r"^\w+: parameter \w+: the value is -?\d+, expected a size, at least 0 and less than 2\*\*48$")


def _as_after(names: Sequence[str], expected: list[Outcome], found: list[Outcome]) -> list[Outcome]:
    """The outcomes that are expected after passes, of which the last one was just made.

    An error of a function that was inlined is one of the function around it.
    """
    result = expected
    if names[-1] == "InlinePrivateFunctions":
        result = [_of_function(wanted, got) for wanted, got in zip(result, found, strict=True)]
    if not WITH_STORAGE.isdisjoint(names):
        result = [_of_storage(wanted, got) for wanted, got in zip(result, found, strict=True)]
    if "RemoveUnusedParameters" in names:
        result = [_of_size(wanted, got) for wanted, got in zip(result, found, strict=True)]
    return result


def _of_storage(wanted: Outcome, got: Outcome) -> Outcome:
    """An outcome whose error, if it is of a negative size, tells that of the storage."""
    if wanted.error is None or got.error is None:
        return wanted
    (kind, text), (_, other) = wanted.error, got.error
    told = NEGATIVE.search(other)
    return wanted if told is None else dataclasses.replace(wanted, error=(kind, NEGATIVE.sub(told[0], text)))


def _of_size(wanted: Outcome, got: Outcome) -> Outcome:
    """An outcome whose error is of what is no size: a function that is given it, and not the shape, says so itself."""
    if wanted.error is None or got.error is None or NO_DIMENSION.search(wanted.error[1]) is None:
        return wanted
    return got if wanted.error[0] == got.error[0] and NOT_A_SIZE.match(got.error[1]) else wanted


def _of_function(wanted: Outcome, got: Outcome) -> Outcome:
    """An outcome whose error names the function that the other's does."""
    if wanted.error is None or got.error is None:
        return wanted
    (kind, text), (_, other) = wanted.error, got.error
    named, others = re.match(r"\w+: ", text), re.match(r"\w+: ", other)
    if named is None or others is None:
        return wanted
    return dataclasses.replace(wanted, error=(kind, others[0] + text[named.end() :]))


def _random_order(chosen: random.Random) -> list[str]:
    order: list[str] = []
    anywhere = list(GRAPH_PASSES)
    steps = list(LOWERING)[: chosen.randrange(len(LOWERING) + 1)]
    for step in steps:
        between = 0 if step in OF_THE_MACHINE else chosen.randrange(3)
        order += [*(chosen.choice(anywhere) for _ in range(between)), step]
        if step == "ToNonDataflow":  # from here on no pass may make dataflow blocks
            anywhere = [name for name in anywhere if name != "ConvertToDataflow"]
    more = 0 if OF_THE_MACHINE[0] in steps else chosen.randrange(1, 4)
    return order + [chosen.choice(anywhere) for _ in range(more)]


def prints_and_parses(text: str, cases: Sequence[Case] = (), exact: bool = True) -> None:
    """The printed module parses to the same module, which prints the same, before and after each pass; but for texts
    in which something is left out, as it would stand in too many places.
    """
    mod = parse(text)
    _round_trip("as written", mod)
    for step in DEFAULT:
        make = step.make
        name = getattr(make, "__name__", str(make))
        mod = _apply(name, make, mod)
        _round_trip(f"after {name}", mod)


def _round_trip(where: str, mod: IRModule) -> None:
    shown = mod.script(show_meta=True)
    if harness.ELISION in shown:
        return

    def again() -> IRModule:
        with harness.quiet():
            found = relax.script.from_source(shown)
        assert isinstance(found, IRModule)
        return found

    parsed = attempt(f"parsing what was printed {where}:", again)
    try:
        assert_structural_equal(parsed, mod)
    except Exception as error:
        raise Failure(f"printed and parsed {where}: another module", f"{error}\n{shown}") from error
    if parsed.script(show_meta=True) != shown:
        raise Failure(f"printed and parsed {where}: printed anew", f"{shown}\n{parsed.script()}")


def saves_and_loads(text: str, cases: Sequence[Case], exact: bool = True) -> None:
    """An executable that was saved and loaded is the same text, and does the same; a module saved as JSON is the same."""
    mod = parse(text)
    how = harness.precision(text, exact)
    json = relax.ir.save_json(mod)
    if not structural_equal(relax.ir.load_json(json), mod):
        raise Failure("a module saved and loaded is another one", mod.script())
    with harness.quiet():
        executable = attempt("building", lambda: relax.build(mod, "llvm"))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "program.rxe")
        executable.save(path)
        loaded = attempt("loading", lambda: relax.load_executable(path))
    if loaded.as_text() != executable.as_text():
        raise Failure("an executable saved and loaded is another text", loaded.as_text())
    before, after = machine(executable), machine(loaded)
    expected = [harness.run(before, case) for case in cases]
    compare("loaded", expected, [harness.run(after, case) for case in cases], how, cases)


ELSEWHERE = """
import pickle, sys
import relax
assert "relax.ir" not in sys.modules
main = relax.VirtualMachine(relax.load_executable(sys.argv[1]), [relax.cpu(0), relax.cpu(1)])["main"]
def plain(value, tuples):
    if hasattr(value, "numpy"):
        return value.dtype, value.numpy()
    if isinstance(value, relax.ShapeTuple):
        return ("shape", *value)
    if isinstance(value, tuple):
        if id(value) not in tuples:
            tuples[id(value)] = tuple(plain(part, tuples) for part in value)
        return tuples[id(value)]
    return value if isinstance(value, (bool, int, float, str)) or value is None else "no plain value"
found = []
for case in pickle.load(open(sys.argv[2], "rb")):
    try:
        result = main(*case)
        found.append(("ok", plain(result, {})))
    except Exception as error:
        found.append(("error", type(error).__name__))
assert "relax.ir" not in sys.modules
pickle.dump(found, open(sys.argv[2], "wb"))
"""
"""What a process without the compiler does."""


def runs_elsewhere(text: str, cases: Sequence[Case], exact: bool = True) -> None:
    """A saved executable does the same in another process, which does not load the compiler.

    Programs that call packed functions or deal in values other than tensors, shapes and numbers are passed over: those
    are not known there.
    """
    mod = parse(text)
    plain = [case for case in cases if all(isinstance(arg, (np.ndarray, int)) for arg in case)]
    if "fuzz." in text or not plain:
        return
    with harness.quiet(), tempfile.TemporaryDirectory() as folder:
        executable = relax.build(mod, "llvm")
        program, values = Path(folder) / "program.rxe", Path(folder) / "values"
        executable.save(program)
        values.write_bytes(pickle.dumps(plain))
        command = [sys.executable, "-c", ELSEWHERE, str(program), str(values)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Failure("elsewhere: the process fails", done.stderr)
        found = pickle.loads(values.read_bytes())
    main = machine(executable)
    for case, (kind, value) in zip(plain, found):
        here = harness.run(main, case)
        if (kind == "error") != (here.error is not None):
            raise Failure("elsewhere: error", f"{here.error}, elsewhere {value}\nfor arguments {list(case)}")
        if here.error is None and (text := _elsewhere(here.result, value, set())) is not None:
            raise Failure("elsewhere: the result", f"{text}\nfor arguments {list(case)}")


def _elsewhere(here: Any, value: Any, same: set[tuple[int, int]]) -> str | None:
    """The difference in words, or None. The pairs of tuples in `same` are not compared again."""
    if isinstance(here, harness.Array):
        equal = here.dtype == value[0] and np.array_equal(here.data, value[1], equal_nan=here.data.dtype.kind == "f")
        return None if equal else f"here {here!r}, elsewhere {value}"
    if isinstance(here, tuple) and isinstance(value, tuple) and len(here) == len(value):
        if (id(here), id(value)) in same:
            return None
        same.add((id(here), id(value)))
        return next((text for a, b in zip(here, value) if (text := _elsewhere(a, b, same)) is not None), None)
    return None if here == value or isinstance(here, (str, tuple)) else f"here {here!r}, elsewhere {value!r}"


def binds(text: str, cases: Sequence[Case], exact: bool = True) -> None:
    """Shape variables bound to their sizes change no result.

    What can be proved of sizes may not be provable of variables: where the program does not come, it may be refused then.
    """
    mod = parse(text)
    how = harness.precision(text, exact)
    params = [param.name_hint for param in mod["main"].params]
    for case in cases:
        recorder = _Lines(mod)
        expected = harness.run(recorder["main"], case)
        at = params.index("x") if "x" in params else None
        if expected.error is not None or at is None:
            continue  # messages tell of variables that are gone then
        sizes = dict(zip(("n", "m"), case[at].shape))
        try:
            with harness.quiet():
                bound = transform.BindSymbolicVars(sizes, "main")(mod)
                assert_well_formed(bound)
        except DiagnosticError as error:
            refused = (*PROVED, "E4004", "E2015")  # sizes proved to be negative
            if all(
                d.code.startswith(refused) and d.span is not None and d.span.line not in recorder.lines
                for d in error.diagnostics
            ):
                continue
            raise Failure(f"BindSymbolicVars {error.diagnostics[0].code}", str(error)) from error
        compare("after BindSymbolicVars", [expected], interpreted(bound, [case]), how, [case])


class _Lines(Interpreter):
    """An interpreter that notes the lines of bindings that it evaluates."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.lines: set[int] = set()

    def bound(self, var: Any, value: Any, scope: Any) -> None:
        if var.span is not None:
            self.lines.add(var.span.line)


class _Checking(Interpreter):
    """An interpreter that compares every value with the struct info of its variable."""

    def bound(self, var: Any, value: Any, scope: Any) -> None:
        info = var.struct_info_
        if info is None:
            return
        try:
            check_info(value, info, scope, f"{scope.function}: {var.name_hint}", set())
        except Exception as error:
            raise _Untrue(f"{var.name_hint} in {scope.function}: {info} derived; {error}") from error


class _Untrue(BaseException):
    """A value is not as was derived. (Not an Exception: packed functions would hand it on as one of the program.)"""


def check_info(value: Any, info: Any, scope: Any, where: str, checked: set[tuple[int, int]]) -> None:
    """Compare a value with struct info. Raises what a match_cast would.

    Of functions only that they are some: erasure forgets what their parameters ask for (language.md §6).
    `checked` holds the tuples, with their infos, that were compared already: pairs of pairs share theirs.
    """
    if isinstance(info, TupleStructInfo):
        if (id(value), id(info)) in checked:
            return
        checked.add((id(value), id(info)))
        fields = tuple(ObjectStructInfo() for _ in info.fields)
        matching.match(value, TupleStructInfo(fields), scope, where, where)
        for index, part in enumerate(info.fields):
            check_info(value[index], part, scope, f"{where}[{index}]", checked)
        return
    if isinstance(info, FuncStructInfo):
        if not callable(value):
            raise TypeError(f"{where}: not a function")
        return
    if not all(map(scope.knows, bound_in(info))):
        raise NameError(f"{where}: {info} has a variable without a value")
    matching.match(value, info, scope, where, where)


def derives_truly(text: str, cases: Sequence[Case], exact: bool = True) -> None:
    """At run time every value is as the struct info derived for its variable says, in the program and when lowered."""
    mod = parse(text)
    _derived("as written", mod, cases)
    with harness.quiet():
        lowered = transform.Sequential([transform.LegalizeOps(), transform.LambdaLift()])(mod)
    _derived("after LegalizeOps and LambdaLift", lowered, cases)


def _derived(where: str, mod: IRModule, cases: Sequence[Case]) -> None:
    for case in cases:
        try:
            harness.run(_Checking(mod)["main"], case)
        except _Untrue as error:
            raise Failure(f"untrue struct info {where}", f"{error}\nfor arguments {list(case)}") from error


def aliases_are_known(text: str, cases: Sequence[Case], exact: bool = True) -> None:
    """Values share memory, and are changed, only where `analysis.alias` says that they may: as written, and lowered."""
    mod = parse(text)
    _aliased("as written", mod, cases)
    names = ("LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite")
    with harness.quiet():
        lowered = transform.Sequential([getattr(transform, name)() for name in names])(mod)
        _aliased("after CallTIRRewrite", lowered, cases)
        lifted = transform.Sequential([transform.LambdaLift(), transform.VMBuiltinLower()])(lowered)
        _aliased("after VMBuiltinLower", lifted, cases)


def _aliased(where: str, mod: IRModule, cases: Sequence[Case]) -> None:
    for case in cases:
        checker = AliasingChecker(mod)
        harness.run(lambda *args: checker.run("main", args), case)  # noqa: B023
        if checker.wrong:
            raise Failure(f"unknown alias {where}", f"{checker.wrong[0]}\nfor arguments {list(case)}")


def rejects(text: str, cases: Sequence[Case] = (), exact: bool = True, seed: int | None = None) -> None:
    """A program in which one rule is broken is rejected by a diagnostic that names the rule."""
    from .mutations import MUTATIONS, Unrefused, check

    with harness.quiet():
        mod = transform.Normalize()(parse(text))
    number = random.Random(text).randrange(1 << 30) if seed is None else seed

    @hypothesis.seed(number)
    @hypothesis.settings(max_examples=3, database=None, deadline=None, phases=[hypothesis.Phase.generate])
    @hypothesis.given(st.data())
    def attempt(data: Any) -> None:
        check(mod, data.draw(st.sampled_from(MUTATIONS)), data.draw)

    try:
        attempt()
    except Unrefused as error:
        kind = str(error).split(":")[0]
        raise Failure(f"not rejected {kind}", str(error), seed=number) from error


PROPERTIES: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        agrees,
        passes_keep,
        orders_keep,
        prints_and_parses,
        saves_and_loads,
        runs_elsewhere,
        binds,
        derives_truly,
        aliases_are_known,
        rejects,
    )
}
"""Every property, by name."""

__all__ = ["MODES", "PROPERTIES", "Case", "Failure", "attempt", "compare", "narrowed", *PROPERTIES]
