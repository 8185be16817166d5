"""Torch's own samples of its operators (OpInfo), run by torch.compile(backend="relax") with dynamic sizes.

    python tools/torch_operators.py                       float32, forward and gradient, 3 samples of each operator
    python tools/torch_operators.py --match "^fft"        operators whose name matches a regular expression
    python tools/torch_operators.py --dtypes float32 int64 bool bfloat16 float64 --samples 10
    python tools/torch_operators.py --table out.md        the operators that are not compiled, by reason
    python tools/torch_operators.py --record runs.jsonl   write outcomes as they come; run again, what is there is kept
    python tools/torch_operators.py --every 8             the first of every eight operators
    python tools/torch_operators.py --record runs.jsonl --page docs/torch-operators.md
                                                          write a record's counts and reasons to a page, and run nothing

A sample is a call. Samples that differ only in the sizes and values of tensors are one form of call: `--samples` forms of
each operator are compiled, one function each, and up to `PER_FORM` samples of a form are passed to that function.

``compiled``: relax computed it, and results (and gradients) are those of eager torch within the
tolerances of `torch.testing`, or as near to those of float64 as eager torch is. ``eager``: results are right, and some or
all of it ran in eager torch, for the reason given. ``wrong``: they differ. ``error``: an exception where eager torch
raises none, or one in a converter or a build, after which eager torch ran that part. ``torch``: wrong or an error with
torch's own backend "aot_eager" as well. ``crash``: the process ended, or did not answer in time. Calls that eager torch
refuses, and those without tensors, are left out. Indices of equal elements (`TIES`) are not compared.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import logging
import multiprocessing as mp
import random
import re
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from generated_pages import with_part

T = TypeVar("T")

VERDICTS = ("compiled", "eager", "torch", "wrong", "error", "crash")
TOLERANCES = {"float32": (1e-4, 1e-4), "bfloat16": (2e-2, 2e-2), "float16": (2e-3, 2e-3), "float64": (1e-7, 1e-7),
              "complex64": (1e-4, 1e-4), "complex128": (1e-7, 1e-7)}  # fmt: skip
"""rtol and atol by dtype: those of `torch.testing` with room for sums in another order."""
FAULTS = re.compile("its build failed|its conversion failed")
"""Reasons to run something in eager torch that are faults of the compiler."""
UNDEFINED = re.compile("empty|new_empty|new_empty_strided|empty_like|empty_strided|empty_permuted|resize_")
"""Operators whose results are whatever the memory held."""
TIES = re.compile(r"kthvalue|mode|topk|median|nanmedian|sort|argsort|msort|min.*|max.*")
"""Operators of which torch leaves open the index that they return of equal elements."""
PER_FORM = 4
"""Samples of one form of call that are run, from the first to the last."""
START, END = "<!-- samples: written by tools/torch_operators.py -->\n", "<!-- end of the samples -->\n"
"""Marks of a page, between which `--page` writes."""


@dataclass
class Outcome:
    """The result of one sample."""

    operator: str
    dtype: str
    sample: int
    verdict: str
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.operator} {self.dtype} {self.sample}"


def operators(match: str = "") -> list[Any]:
    """OpInfo's descriptions of operators whose name, with that of the variant, matches a regular expression."""
    module = importlib.import_module("torch.testing._internal.common_methods_invocations")
    return [info for info in module.op_db if re.search(match, full_name(info))]


def full_name(info: Any) -> str:
    """Name of an operator, and of the variant of its samples: ``linalg.norm.subgradients_at_zero``."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


class Call:
    """A sample as a function of its tensors."""

    def __init__(self, info: Any, sample: Any) -> None:
        import torch

        self.info = info
        pytree: Any = torch.utils._pytree
        self.leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [self.leaves[index].detach() for index in self.places]
        self.unflatten = pytree.tree_unflatten
        self.form = (str(self.spec), *map(_kind, self.leaves))

    def __call__(self, *tensors: Any) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = self.unflatten(leaves, self.spec)
        return self.info.op(*args, **kwargs)

    def ranked(self, results: Sequence[Any]) -> list[Any]:
        """The elements that the indices of argsort name."""
        args, kwargs = self.unflatten(self.leaves, self.spec)
        dim = kwargs.get("dim", next((value for value in args[1:] if type(value) is int), -1))
        return [self.tensors[0].gather(dim, index) for index in results]


def _kind(leaf: Any) -> str:
    """What an argument of two samples of one form has in common: all but the sizes and values of a tensor."""
    if hasattr(leaf, "shape"):
        sizes = [min(size, 2) for size in leaf.shape]  # sizes 0 and 1 are graphs of their own
        return (
            f"{leaf.dtype} {sizes} {leaf.layout} {leaf.is_contiguous() if str(leaf.layout) == 'torch.strided' else ''}"
        )
    return f"{type(leaf).__name__} {leaf!r}"


def results_of(function: Callable[..., Any], tensors: Sequence[Any], gradient: bool) -> list[Any]:
    """Tensors that a function returns, and gradients of their weighted sum by the inputs of floats and complex numbers."""
    import torch

    torch.manual_seed(0)
    inputs = [tensor.clone().requires_grad_(gradient and _is_smooth(tensor)) for tensor in tensors]
    found = [leaf for leaf in torch.utils._pytree.tree_leaves(function(*inputs)) if isinstance(leaf, torch.Tensor)]
    results = [leaf.detach() for leaf in found]
    if gradient:
        smooth = [leaf for leaf in found if leaf.requires_grad and _is_smooth(leaf)]
        smooth = [torch.view_as_real(leaf.resolve_conj()) if leaf.is_complex() else leaf for leaf in smooth]
        total = sum((leaf * torch.linspace(0.5, 1.5, leaf.numel(), dtype=leaf.dtype).reshape(leaf.shape)).sum()
                    for leaf in smooth)  # fmt: skip
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        if smooth and wanted:
            results += torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)
    return results


def _is_smooth(tensor: Any) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def check(info: Any, dtype: str, count: int, options: Mapping[str, Any] | None = None) -> Iterator[Outcome]:
    """The outcomes of some samples of an operator; `options` are those of the backend, by default tier "now"."""
    import torch

    kind = getattr(torch, dtype)
    if kind not in info.dtypes or UNDEFINED.fullmatch(info.name):
        return
    gradient = info.supports_autograd and (kind.is_floating_point or kind.is_complex)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    samples = itertools.islice(info.sample_inputs("cpu", kind, requires_grad=False), 200)
    for members in _forms(info, samples, count):
        compiled: Callable[..., Any] | None = None
        for index, call in members:
            compiled = compiled or _compiled(call, {"tier": "now"} if options is None else options)
            verdict = _judged(compiled, call, gradient)
            if verdict is not None:
                yield Outcome(full_name(info), dtype, index, *verdict)


def _forms(info: Any, samples: Iterable[Any], count: int) -> list[list[tuple[int, Call]]]:
    """At most `count` forms of call from the first to the last, each with numbered samples."""
    forms: dict[Any, list[tuple[int, Call]]] = {}
    for index, sample in enumerate(samples):
        call = Call(info, sample)
        if call.places:
            forms.setdefault(call.form, []).append((index, call))
    return [_spread(members, PER_FORM) for members in _spread(list(forms.values()), count)]


def _spread(items: list[T], count: int) -> list[T]:
    """At most `count` items from the first to the last."""
    if len(items) <= count:
        return items
    return [items[place] for place in sorted({round(place) for place in np.linspace(0, len(items) - 1, count)})]


def _compiled(call: Call, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A call compiled for all sizes, by a dynamo that has forgotten the calls before it."""
    import torch

    from relax.frontend.torch.compile import relax_backend

    torch._dynamo.reset()
    return torch.compile(call, backend=relax_backend, dynamic=True, options=options)


def _judged(compiled: Callable[..., Any], call: Call, gradient: bool) -> tuple[str, str] | None:
    """The verdict on a sample; "torch" if another backend of torch has that of an error or wrong results, too."""
    import torch

    verdict = _verdict(compiled, call, gradient)
    if verdict is not None and verdict[0] in ("wrong", "error"):
        torch._dynamo.reset()
        other = _verdict(torch.compile(call, backend="aot_eager", dynamic=True), call, gradient)
        torch._dynamo.reset()
        if other is not None and other[0] == verdict[0]:
            return "torch", other[1]
    return verdict


def _verdict(compiled: Callable[..., Any], call: Call, gradient: bool) -> tuple[str, str] | None:
    """What comes of a sample; None if eager torch refuses it."""
    from relax.frontend.torch.compile import FallbackWarning

    try:
        expected = results_of(call, call.tensors, gradient)
    except Exception:  # noqa: BLE001 whatever torch refuses
        if not gradient:
            return None
        gradient = False
        try:
            expected = results_of(call, call.tensors, False)
        except Exception:  # noqa: BLE001
            return None
    if not expected:
        return None
    _RAN.clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = results_of(compiled, call.tensors, gradient)
    except Exception as error:  # noqa: BLE001
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:300]
        return "error", f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})"
    if call.info.name == "argsort":
        found, expected = call.ranked(found), call.ranked(expected)
    elif TIES.fullmatch(call.info.name):
        keep = [index for index, result in enumerate(expected) if index == 0 or result.dtype.is_floating_point]
        found, expected = [found[index] for index in keep], [expected[index] for index in keep]
    problem = difference(found, expected)
    if problem and not _as_near(call, gradient, found, expected):
        return "wrong", problem
    reasons = [str(item.message) for item in caught if issubclass(item.category, FallbackWarning)]
    if reasons:
        faults = [reason for reason in reasons if FAULTS.search(reason)]
        reason = " ".join((faults or reasons)[0].partition(": ")[2].split())
        return "error" if faults else "eager", reason
    return ("compiled", "") if _RAN else ("eager", "no arithmetic: its results are views, copies or random numbers")


def _as_near(call: Call, gradient: bool, found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """True if results in narrow floats are at most twice as far from those in float64 as eager torch's are."""
    import torch

    floats = {tensor.dtype for tensor in call.tensors if tensor.is_floating_point()}
    if not floats or len(found) != len(expected) or torch.float64 in floats:
        return False
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in call.tensors]
    try:
        exact = results_of(call, wide, gradient)
        for one, other, right in zip(found, expected, exact, strict=True):
            if one.dtype != other.dtype or one.shape != other.shape:
                return False
            own, eager = ((result.double() - right).abs().nan_to_num(0, 0, 0) for result in (one, other))
            room = torch.finfo(other.dtype).eps * right.abs().nan_to_num(0, 0, 0).max() if right.numel() else 0
            is_odd = one.isfinite() != other.isfinite()
            if bool(is_odd.any()) or bool((own.amax() > 2 * eager.amax() + room).any() if own.numel() else False):
                return False
    except Exception:  # noqa: BLE001 what torch does not compute in float64 is not compared
        return False
    return True


_RAN: list[bool] = []
"""An item for each compiled piece that ran since it was cleared."""


def count_pieces() -> None:
    """Have the pieces of graphs note that relax computed them."""
    from relax.frontend.torch.compile.piece import CompiledPiece

    run = CompiledPiece._run

    def counted(self: CompiledPiece, *args: Any) -> Any:
        _RAN.append(True)
        return run(self, *args)

    CompiledPiece._run = counted  # type: ignore[method-assign]


def difference(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """What is wrong with results, "" if nothing."""
    import torch

    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        tolerances = TOLERANCES.get(str(other.dtype).removeprefix("torch."))
        limits = {} if tolerances is None else dict(zip(("rtol", "atol"), tolerances, strict=True))
        try:
            torch.testing.assert_close(one, other, equal_nan=True, **limits)
        except AssertionError as error:
            return f"result {index}: {' '.join(str(error).split())[:200]}"
    return ""


# ------------------------------------------------------------------------------------------------ processes


Unit: TypeAlias = "tuple[str, str]"
"""An operator and a dtype, whose samples one worker process runs in one go."""


def _worker(orders: Connection, count: int, tier: str) -> None:
    """Answer units with their outcomes, one by one, then None; a unit that is None ends the process."""
    warnings.simplefilter("ignore")
    import torch

    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch._dynamo.config.specialize_int = True  # numbers that are no sizes stay as the sample has them
    count_pieces()
    every = {full_name(info): info for info in operators()}
    while (unit := orders.recv()) is not None:
        name, dtype = unit
        for outcome in check(every[name], dtype, count, {"tier": tier}):
            orders.send(outcome)
        orders.send(None)


class Run:
    """Worker processes that run units, and start anew if one crashes."""

    def __init__(self, count: int, limit: float, tier: str) -> None:
        self.count, self.limit, self.tier = count, limit, tier
        self.context = mp.get_context("spawn")
        self.busy: dict[Connection, tuple[Any, Unit, float]] = {}

    def outcomes(self, units: Sequence[Unit], jobs: int) -> Iterator[tuple[Unit, list[Outcome]]]:
        """The outcomes of units as they come; `limit` seconds without an answer, or the end of a process, is a crash."""
        waiting, parts = list(reversed(units)), defaultdict[Unit, list[Outcome]](list)
        for _ in range(min(jobs, len(waiting))):
            self._give(self._started(), waiting.pop())
        while self.busy:
            ready = wait(list(self.busy), 1)
            overdue = [near for near in self.busy if near not in ready and time.monotonic() > self.busy[near][2]]
            for near in [*ready, *overdue]:
                process, unit, _ = self.busy[near]
                outcome = self._answer(near, process, unit, near in overdue)
                if outcome is not None:
                    parts[unit].append(outcome)
                    self.busy[near] = process, unit, time.monotonic() + self.limit
                    if outcome.verdict != "crash":
                        continue
                    process.kill()
                del self.busy[near]
                yield unit, parts.pop(unit, [])
                if waiting:
                    self._give(self._started() if outcome is not None else (near, process), waiting.pop())
                elif outcome is None:
                    near.send(None)
                    process.join()

    def _started(self) -> tuple[Connection, Any]:
        near, far = self.context.Pipe()
        process = self.context.Process(target=_worker, args=(far, self.count, self.tier))
        process.start()
        far.close()
        return near, process

    def _give(self, worker: tuple[Connection, Any], unit: Unit) -> None:
        near, process = worker
        near.send(unit)
        self.busy[near] = process, unit, time.monotonic() + self.limit

    def _answer(self, near: Connection, process: Any, unit: Unit, overdue: bool) -> Outcome | None:
        if overdue:
            return Outcome(*unit, -1, "crash", f"not done in {self.limit:.0f} seconds")
        try:
            return near.recv()
        except EOFError:
            process.join()
            return Outcome(*unit, -1, "crash", f"the process ended with {process.exitcode}")


def recorded(path: Path) -> dict[Unit, list[Outcome]]:
    """The outcomes by unit that a file holds; a line that a killed run has not finished is left out."""
    units: dict[Unit, list[Outcome]] = {}
    for entry in _entries(path):
        units[entry["operator"], entry["dtype"]] = [Outcome(**outcome) for outcome in entry["outcomes"]]
    return units


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a record that are whole."""
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def run_all(units: Sequence[Unit], run: Run, jobs: int, record: Path | None = None) -> list[Outcome]:
    """The outcomes of all units in their order, of which those in the record are taken from there."""
    import torch

    found = recorded(record) if record else {}
    for unit, outcomes in run.outcomes([unit for unit in units if unit not in found], jobs):
        found[unit] = outcomes
        if record:
            entry = {"operator": unit[0], "dtype": unit[1], "torch": torch.__version__, "forms": run.count}
            entry["outcomes"] = [asdict(outcome) for outcome in outcomes]
            with record.open("a") as file:
                file.write(json.dumps(entry) + "\n")
    return [outcome for unit in units for outcome in found[unit]]


def table(outcomes: Sequence[Outcome]) -> str:
    """The operators that are not compiled in all samples, by reason, as a Markdown table."""
    rows: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for outcome in outcomes:
        if outcome.verdict != "compiled":
            rows[outcome.verdict, shared(outcome.reason)][outcome.operator] = None
    lines = ["| operators | | reason |", "|---|---|---|"]
    for (verdict, reason), names in sorted(rows.items(), key=lambda row: (-VERDICTS.index(row[0][0]), -len(row[1]))):
        shown = " ".join(f"`{name}`" for name in names)
        lines.append(f"| {shown} | {verdict} | {reason.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def section(record: Path, total: int) -> str:
    """Counts of a record by dtype and reasons by operator, in Markdown; `total` operators are in torch's list.

    Raises:
        ValueError: The record is of no run, or of several versions of torch or numbers of forms of call.
    """
    units = recorded(record)
    settings = {(entry.get("torch", "unknown"), entry.get("forms", 0)) for entry in _entries(record)}
    if len(settings) != 1:
        raise ValueError(f"{record}: a page is of one version of torch and number of forms, found {sorted(settings)}")
    [(version, forms)] = settings
    form = "one form of call" if forms == 1 else f"at most {forms} forms of call"
    text = [
        f"Measured with torch {version}: {form} of an operator and dtype, up to {PER_FORM} samples of a form, the faster builds",
        f'(tier "now"). torch lists {total} operators and variants; those tried are at even steps in the list, so far as the run',
        "went, and not all have samples of the dtype. Gradients are compared for floats and complex numbers. `torch`: torch's",
        "own `aot_eager` is wrong or fails in the same way.",
        "",
        "| dtype | tried | with samples | samples | right | compiled | in eager torch | wrong | error | crash | torch |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for dtype in dict.fromkeys(dtype for _, dtype in units):
        tried = [outcomes for (_, kind), outcomes in units.items() if kind == dtype]
        counts = Counter(outcome.verdict for outcomes in tried for outcome in outcomes)
        numbers = [len(tried), sum(map(bool, tried)), sum(map(len, tried)), counts["compiled"] + counts["eager"]]
        numbers += [counts[verdict] for verdict in ("compiled", "eager", "wrong", "error", "crash", "torch")]
        text.append(f"| {dtype} | {' | '.join(f'{number:,}' for number in numbers)} |")
    text += ["", "Operators of which a sample is not compiled:", ""]
    return "\n".join(text) + "\n" + table([outcome for outcomes in units.values() for outcome in outcomes])


def shared(reason: str) -> str:
    """A reason as several operators share it: without the line of code, and what follows."""
    return re.sub(r", at File .*", "", reason)[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description="Torch's samples of its operators, compiled by relax.")
    parser.add_argument("--match", default="", help="only operators whose name matches this regular expression")
    parser.add_argument("--every", type=int, default=1, help="of these operators the first of every so many (1)")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], help="dtypes of the samples (float32)")
    parser.add_argument("--samples", type=int, default=3, help="forms of call of an operator and dtype (3)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--tier", default="now", help="tier of the builds: now, full or auto (now)")
    parser.add_argument("--record", type=Path, help="file of outcomes, written as they come; those in it are not run")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one sample (180)")
    parser.add_argument("--failed", action="store_true", help="print the samples that are not compiled, with reasons")
    parser.add_argument("--table", type=Path, help="write the operators that are not compiled to this file")
    parser.add_argument("--page", type=Path, help="write the section of a page from the record, and run nothing")
    parser.add_argument("--at-least", type=float, default=0, help="fail if fewer per cent are compiled or eager")
    args = parser.parse_args()
    if args.page:
        if not args.record:
            parser.error("--page needs the --record that it is written from")
        args.page.write_text(with_part(args.page, START, END, section(args.record, len(operators()))), encoding="utf-8")
        return 0
    chosen = operators(args.match)[:: args.every]
    units = [(full_name(info), dtype) for dtype in args.dtypes for info in chosen]
    outcomes = run_all(units, Run(args.samples, args.limit, args.tier), args.jobs, args.record)
    if args.table:
        args.table.write_text(table(outcomes))
    if args.failed:
        for outcome in outcomes:
            if outcome.verdict != "compiled":
                print(f"{outcome.verdict:8} {outcome.name}: {outcome.reason}")
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]))
    right = counts["compiled"] + counts["eager"]
    judged = len(outcomes) - counts["torch"]
    share = 100 * right / max(judged, 1)
    print(f"{right} of {judged} samples right ({share:.1f} %), {counts['compiled']} compiled")
    return 1 if counts["wrong"] or share < args.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
