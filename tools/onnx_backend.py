"""ONNX's own test cases, run through compiled code.

    python tools/onnx_backend.py                      all of them, in two processes; prints passed / total
    python tools/onnx_backend.py --match Softmax      those whose name matches a regular expression
    python tools/onnx_backend.py --failed             names and reasons of those that do not pass
    python tools/onnx_backend.py --export             imported, exported again (`to_onnx`), and run in ONNX Runtime
    python tools/onnx_backend.py --table out.md       the cases that do not pass, by reason, as a Markdown table

A case passes if every output has the dtype, the shape and, within the tolerance that the case states, the values that it
gives. ``unsupported``: the importer says that it does not take the model. ``wrong``: the results differ. ``random``: the
values that it gives are random numbers of NumPy, dtypes and shapes agree. ``rounding``: the results differ by the last
digit of a narrow float, or by the noise of a float32 sum that the case expects in the place of 0. ``error``: anything else.
With ``--export``, ``refused``: `to_onnx` says that ONNX cannot say it; ``runtime``: ONNX Runtime does not run the case's
own model either, or with another result.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing as mp
import re
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
ROUNDING = {"bf16": (2**-6, 1e-3), "fp16": (2**-9, 1e-4), "test_dft_inverse_opset19": (1e-3, 1e-6)}
"""Cases, or dtypes of attention, whose expected values carry roundings of their own: rtol and atol that cover these."""
NARROW = {
    "bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21,
    "int4": 22, "float4_e2m1fn": 23, "float8_e8m0fnu": 24, "uint2": 25, "int2": 26,
}  # fmt: skip
"""ONNX's element types that NumPy lacks, by dtype."""
RANDOM = re.compile("test_bernoulli|test_training_dropout(?!_zero_ratio)")
"""Cases with values drawn by NumPy's generator."""


@dataclass
class Outcome:
    """The result of one case."""

    name: str
    verdict: str
    """pass, unsupported, wrong, or error."""
    reason: str = ""
    seconds: float = 0.0


def load_cases(match: str = "") -> list[Any]:
    """The cases of all kinds that carry their data with them (the models of kind "real" are not shipped)."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    return [case for case in cases if re.search(match, case.name)]


def load_node_cases(modules: Iterable[str]) -> list[Any]:
    """The cases of some modules of ``onnx.backend.test.case.node``: making those of all takes half a minute."""
    node = importlib.import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            importlib.import_module(f"{node.__name__}.{name}")
    return list(node._NodeTestCases)


def model_and_data(case: Any) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """The model of a case, and pairs of inputs and expected outputs."""
    import onnx

    if case.model is not None:
        return case.model, [
            ([_plain(v) for v in inputs], [_plain(v) for v in outputs]) for inputs, outputs in case.data_sets
        ]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    initialized = {tensor.name for tensor in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in initialized]
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        sets.append(
            (
                [_read(data / f"input_{i}.pb", v.type) for i, v in enumerate(inputs)],
                [_read(data / f"output_{i}.pb", v.type) for i, v in enumerate(model.graph.output)],
            )
        )
    return model, sets


def _plain(value: Any) -> Any:
    """A value of a case as NumPy has it: some are given as protobuf messages."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _read(path: Path, kind: Any) -> Any:
    from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper

    text = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(SequenceProto.FromString(text))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(OptionalProto.FromString(text))
    return numpy_helper.to_array(TensorProto.FromString(text))


def run(case: Any) -> Outcome:
    """Import, compile and run one case."""
    start = time.perf_counter()
    try:
        verdict, reason = _run(case)
    except Exception as error:  # noqa: BLE001
        last = traceback.extract_tb(error.__traceback__)[-1]
        verdict, reason = (
            "error",
            f"{type(error).__name__}: {str(error).strip()[:400]} ({Path(last.filename).name}:{last.lineno})",
        )
    return Outcome(case.name, verdict, reason, time.perf_counter() - start)


def _run(case: Any) -> tuple[str, str]:
    import relax
    from relax.frontend.onnx import from_onnx

    model, data_sets = model_and_data(case)
    try:
        mod = from_onnx(model)
    except relax.DiagnosticError as error:
        verdict = "unsupported" if all(d.code == "E6001" for d in error.diagnostics) else "error"
        return verdict, str(error).strip().split("\n")[0]
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    for inputs, expected in data_sets:
        result = vm["main"](*(to_runtime(value) for value in inputs))
        results = [result] if len(expected) == 1 and len(model.graph.output) == 1 else list(result)
        for output, found, right in zip(model.graph.output, results, expected, strict=True):
            tolerance = np.inf if RANDOM.match(case.name) else case.atol
            problem = difference(found, right, case.rtol, tolerance)
            if problem:
                bound = rounding_of(case)
                rounded = bound is not None and not difference(found, right, *bound)
                return "rounding" if rounded else "wrong", f"{output.name}: {problem}"
    return ("random", "drawn by another generator") if RANDOM.match(case.name) else ("pass", "")


def export(case: Any) -> Outcome:
    """Import one case, export it, and run what comes out in ONNX Runtime."""
    start = time.perf_counter()
    try:
        verdict, reason = _export(case)
    except Exception as error:  # noqa: BLE001
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {str(error).strip()[:400]} ({Path(last.filename).name}:{last.lineno})"
        verdict = "error"
    return Outcome(case.name, verdict, reason, time.perf_counter() - start)


def _export(case: Any) -> tuple[str, str]:
    import relax
    from relax.frontend.onnx import from_onnx, to_onnx

    model, data_sets = model_and_data(case)
    try:
        mod = from_onnx(model)
    except relax.DiagnosticError as error:
        return "unsupported", str(error).strip().split("\n")[0]
    try:
        exported = to_onnx(mod)
    except relax.DiagnosticError as error:
        return "refused", error.diagnostics[0].message
    tolerance = max(case.rtol, 1e-3), np.inf if RANDOM.match(case.name) else max(case.atol, 1e-6)
    problem = exported_difference(exported, model, data_sets, tolerance)
    if not problem:
        return ("random", "drawn by another generator") if RANDOM.match(case.name) else ("pass", "")
    bound = rounding_of(case)
    if bound is not None and not exported_difference(exported, model, data_sets, bound):
        return "rounding", problem
    own = exported_difference(model, model, data_sets, tolerance)
    if own:
        return "runtime", f"{problem} (its own model: {own})"
    return "wrong", problem


def rounding_of(case: Any) -> tuple[float, float] | None:
    """Tolerance that covers the roundings in the expected values of a case; None for other cases."""
    return ROUNDING.get(re.sub(r"^test_attention_.*_(bf16|fp16)(_expanded)?$", r"\1", case.name))


def exported_difference(exported: Any, model: Any, data_sets: Any, tolerance: tuple[float, float]) -> str:
    """What is wrong with the results of a model in ONNX Runtime, "" if nothing."""
    import onnx

    try:
        if exported is not model:
            onnx.checker.check_model(exported, full_check=True)
        session = onnxruntime_session(exported)
        for inputs, expected in data_sets:
            fed = [onnxruntime_value(value) for value in inputs if value is not None]
            names = [value.name for value in session.get_inputs()]
            results = flat(session.run(None, dict(zip(names, fed, strict=True))))
            rights = flat([onnxruntime_value(right) for right in expected])
            if len(results) != len(rights):
                return f"{len(results)} outputs, expected {len(rights)}"
            for number, (found, right) in enumerate(zip(results, rights)):
                problem = difference(found, right, *tolerance)
                if problem:
                    return f"output {number}: {problem}"
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


def flat(values: list[Any]) -> list[Any]:
    """Values with the items of sequences in their places: a sequence of known length is exported as its items."""
    return [item for value in values for item in (flat(value) if isinstance(value, list) else [value])]


def onnxruntime_value(value: Any) -> Any:
    """A value of a case as a session takes and returns it: dtypes that NumPy lacks are float32."""
    if isinstance(value, list):
        return [onnxruntime_value(item) for item in value]
    if value is None:
        return None
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name in NARROW else array


def onnxruntime_session(model: Any) -> Any:
    """A session of ONNX Runtime whose inputs and outputs of types that NumPy lacks are float32."""
    import onnxruntime
    from onnx import ModelProto, helper

    wide = ModelProto()
    wide.CopyFrom(model)
    nodes = list(wide.graph.node)
    for value in wide.graph.input:
        if value.type.tensor_type.elem_type in NARROW.values():
            name, kind = f"{value.name}_float32", value.type.tensor_type.elem_type
            exact = {"saturate": 0} if 17 <= kind <= 20 else {}
            nodes.insert(0, helper.make_node("Cast", [name], [value.name], to=kind, **exact))
            value.name, value.type.tensor_type.elem_type = name, 1
    for value in wide.graph.output:
        if value.type.tensor_type.elem_type in NARROW.values():
            name = f"{value.name}_float32"
            nodes.append(helper.make_node("Cast", [value.name], [name], to=1))
            value.name, value.type.tensor_type.elem_type = name, 1
    del wide.graph.node[:]
    wide.graph.node.extend(nodes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(wide.SerializeToString(), options, providers=["CPUExecutionProvider"])


def to_runtime(value: Any) -> Any:
    """An input of a case as the machine takes it."""
    import relax

    if isinstance(value, list):
        return [to_runtime(item) for item in value]
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        return array
    return relax.nd.array(array)


def difference(found: Any, expected: Any, rtol: float, atol: float) -> str:
    """What is wrong with a result, "" if nothing."""
    if isinstance(expected, list):
        items = list(found)
        if len(items) != len(expected):
            return f"a sequence of {len(items)}, expected {len(expected)}"
        return next(filter(None, (difference(f, e, rtol, atol) for f, e in zip(items, expected))), "")
    if expected is None:
        return "" if found is None else "a value, expected none"
    if found is None:
        return "no value"
    right = np.asarray(expected)
    array = found.numpy() if hasattr(found, "numpy") else np.asarray(found)
    if right.dtype.kind in "OSU":
        return "" if array.tolist() == right.tolist() else f"{array.tolist()}, expected {right.tolist()}"
    if array.dtype != right.dtype:
        return f"dtype {array.dtype}, expected {right.dtype}"
    if array.shape != right.shape:
        return f"shape {array.shape}, expected {right.shape}"
    if array.dtype.kind not in "biufc" or array.dtype.itemsize < 4:  # ml_dtypes have no tolerances of their own
        array, right = array.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        close = np.isclose(array, right, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"{int((~close).sum())} of {close.size} elements differ, first at {place}: {array[place]}, expected {right[place]}"


_CASES: list[Any] = []


def _worker(index: int, check: Callable[[Any], Outcome]) -> Outcome:
    warnings.simplefilter("ignore")
    return check(_CASES[index])


def run_all(cases: list[Any], jobs: int, limit: float, check: Callable[[Any], Outcome] = run) -> list[Outcome]:
    """The outcomes of cases, in order; one that takes longer than `limit` seconds, or ends its process, is an error."""
    _CASES[:] = cases
    outcomes: list[Outcome] = []
    context = mp.get_context("fork")
    pool = context.Pool(jobs, maxtasksperchild=200)
    try:
        pending = [pool.apply_async(_worker, (index, check)) for index in range(len(cases))]
        for case, waiting in zip(cases, pending):
            try:
                outcomes.append(waiting.get(limit))
            except mp.TimeoutError:
                outcomes.append(Outcome(case.name, "error", f"not done in {limit:.0f} seconds"))
            if len(outcomes) % 100 == 0:
                print(f"{len(outcomes)} of {len(cases)}", file=sys.stderr)
    finally:
        pool.terminate()
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """The cases that do not pass, by reason, as a Markdown table."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict != "pass":
            rows[outcome.verdict, reason_without_names(outcome.reason)].append(outcome.name)
    passed = len(outcomes) - sum(map(len, rows.values()))
    lines = [f"{passed} of {len(outcomes)} cases pass.", "", "| cases | | reason |", "|---|---|---|"]
    for (verdict, reason), names in sorted(rows.items(), key=lambda row: (-len(row[1]), row[1])):
        shown = " ".join(f"`{name}`" for name in sorted(names))
        lines.append(f"| {shown} | {verdict} | {reason.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def reason_without_names(reason: str) -> str:
    """A reason as several cases share it: without the code, and without the name of the node."""
    plain = re.sub(r"^error\[\w+\]: ", "", " ".join(reason.split()))
    return re.sub(r'^([\w.]+) "[^"]*": ', r"\1: ", plain)[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description="ONNX's own test cases, run through compiled code.")
    parser.add_argument("--match", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one case (180)")
    parser.add_argument("--export", action="store_true", help="export what is imported, and run it in ONNX Runtime")
    parser.add_argument("--failed", action="store_true", help="print the cases that do not pass, with reasons")
    parser.add_argument("--table", type=Path, help="write the cases that do not pass, by reason, to this file")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--at-least", type=int, default=0, help="fail if fewer pass")
    args = parser.parse_args()
    cases = load_cases(args.match)
    outcomes = run_all(cases, args.jobs, args.limit, export if args.export else run)
    if args.json:
        args.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    if args.table:
        args.table.write_text(table(outcomes))
    if args.failed:
        for outcome in outcomes:
            if outcome.verdict != "pass":
                print(f"{outcome.verdict:12} {outcome.name}: {outcome.reason}")
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    print(f"{counts['pass']} of {len(outcomes)} cases pass")
    return 1 if counts["wrong"] or counts["pass"] < args.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
