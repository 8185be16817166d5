"""Torch's own samples of its operators (OpInfo), run by torch.compile(backend="relax") with dynamic sizes.

    python tools/torch_operators.py                       float32, forward and gradient, 3 samples of each operator
    python tools/torch_operators.py --match "^fft"        operators whose name matches a regular expression
    python tools/torch_operators.py --dtypes float32 int64 bool bfloat16 float64 --samples 10
    python tools/torch_operators.py --table out.md        the operators that are not compiled, by reason

A sample is a call. ``compiled``: relax computed it, and results (and gradients) are those of eager torch within the
tolerances of `torch.testing`. ``eager``: results are right, and some or all of it ran in eager torch, for the reason
given. ``wrong``: they differ. ``error``: an exception where eager torch raises none. ``crash``: the process ended, or
did not answer in time. Calls that eager torch refuses, and those without tensors, are left out.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import multiprocessing as mp
import random
import re
import sys
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

VERDICTS = ("compiled", "eager", "wrong", "error", "crash")
TOLERANCES = {"float32": (1e-4, 1e-4), "bfloat16": (2e-2, 2e-2), "float16": (2e-3, 2e-3), "float64": (1e-7, 1e-7)}
"""rtol and atol by dtype: those of `torch.testing` with room for sums in another order."""
UNDEFINED = re.compile("empty|new_empty|empty_like|empty_strided|empty_permuted|resize_")
"""Operators whose results are whatever the memory held."""


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

    def __call__(self, *tensors: Any) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = self.unflatten(leaves, self.spec)
        return self.info.op(*args, **kwargs)


def results_of(function: Callable[..., Any], tensors: Sequence[Any], gradient: bool) -> list[Any]:
    """Tensors that a function returns, and gradients of their sum, weighted, by the floats among the inputs."""
    import torch

    torch.manual_seed(0)
    inputs = [tensor.clone().requires_grad_(gradient and tensor.is_floating_point()) for tensor in tensors]
    found = [leaf for leaf in torch.utils._pytree.tree_leaves(function(*inputs)) if isinstance(leaf, torch.Tensor)]
    results = [leaf.detach() for leaf in found]
    if gradient:
        smooth = [leaf for leaf in found if leaf.requires_grad and leaf.is_floating_point()]
        total = sum((leaf * torch.linspace(0.5, 1.5, leaf.numel(), dtype=leaf.dtype).reshape(leaf.shape)).sum()
                    for leaf in smooth)  # fmt: skip
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        if smooth and wanted:
            results += torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)
    return results


def check(info: Any, dtype: str, count: int, options: Mapping[str, Any] | None = None) -> Iterator[Outcome]:
    """The outcomes of some samples of an operator; `options` are those of the backend, by default tier "now"."""
    import torch

    kind = getattr(torch, dtype)
    if kind not in info.dtypes or UNDEFINED.fullmatch(info.name):
        return
    gradient = info.supports_autograd and kind.is_floating_point
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    samples = itertools.islice(info.sample_inputs("cpu", kind, requires_grad=False), 200)
    chosen = _spread(list(samples), count)
    for index, sample in chosen:
        call = Call(info, sample)
        if not call.places:
            continue
        verdict = _verdict(call, gradient, {"tier": "now"} if options is None else options)
        if verdict is not None:
            yield Outcome(full_name(info), dtype, index, *verdict)


def _spread(samples: list[Any], count: int) -> list[tuple[int, Any]]:
    """At most `count` samples from the first to the last, with their numbers."""
    if len(samples) <= count:
        return list(enumerate(samples))
    places = sorted({round(place) for place in np.linspace(0, len(samples) - 1, count)})
    return [(place, samples[place]) for place in places]


def _verdict(call: Call, gradient: bool, options: Mapping[str, Any]) -> tuple[str, str] | None:
    """What comes of a sample; None if eager torch refuses it."""
    import torch

    from relax.frontend.torch.compile import FallbackWarning, relax_backend

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
    torch._dynamo.reset()
    _BUILT.clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled = torch.compile(call, backend=relax_backend, dynamic=True, options=options)
            found = results_of(compiled, call.tensors, gradient)
    except Exception as error:  # noqa: BLE001
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:300]
        return "error", f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})"
    problem = difference(found, expected)
    if problem:
        return "wrong", problem
    reasons = [str(item.message) for item in caught if issubclass(item.category, FallbackWarning)]
    if reasons:
        return "eager", " ".join(reasons[0].partition(": ")[2].split())
    return ("compiled", "") if _BUILT else ("eager", "nothing of it is captured or compiled")


_BUILT: list[bool] = []
"""An item for each piece that was built since it was cleared."""


def count_pieces() -> None:
    """Have the pieces of graphs note that they were built."""
    from relax.frontend.torch.compile.piece import CompiledPiece

    build = CompiledPiece.build

    def counted(self: CompiledPiece) -> None:
        build(self)
        if self.run is not None:
            _BUILT.append(True)

    CompiledPiece.build = counted  # type: ignore[method-assign]


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


def _worker(orders: Connection, dtypes: Sequence[str], count: int) -> None:
    """Answer names of operators with their outcomes, one by one, then None; a name that is None ends the process."""
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    torch._dynamo.config.specialize_int = True  # numbers that are no sizes stay as the sample has them
    count_pieces()
    every = operators()
    while True:
        name = orders.recv()
        if name is None:
            return
        [info] = [info for info in every if full_name(info) == name]
        for dtype in dtypes:
            for outcome in check(info, dtype, count):
                orders.send(outcome)
        orders.send(None)


def run_all(names: Sequence[str], dtypes: Sequence[str], count: int, jobs: int, limit: float) -> list[Outcome]:
    """The outcomes of operators; one that takes longer than `limit` seconds, or ends its process, is a crash."""
    context = mp.get_context("spawn")
    waiting, outcomes = list(reversed(names)), list[Outcome]()
    workers: dict[Connection, tuple[Any, str]] = {}

    def start(reused: tuple[Connection, Any] | None = None) -> None:
        if not waiting:
            if reused is not None:
                reused[0].send(None)
                reused[1].join()
            return
        if reused is None:
            near, far = context.Pipe()
            process = context.Process(target=_worker, args=(far, dtypes, count))
            process.start()
            far.close()
        else:
            near, process = reused
        name = waiting.pop()
        near.send(name)
        workers[near] = process, name

    for _ in range(jobs):
        start()
    while workers:
        ready = wait(list(workers), limit)
        for near in ready or list(workers):
            process, name = workers[near]
            try:
                outcome = near.recv() if ready else Outcome(name, "", 0, "crash", f"not done in {limit:.0f} seconds")
            except EOFError:
                process.join()
                outcome = Outcome(name, "", 0, "crash", f"the process ended with {process.exitcode}")
            if outcome is not None:
                outcomes.append(outcome)
            if outcome is None:
                del workers[near]
                start((near, process))
            elif outcome.verdict == "crash":
                process.kill()
                del workers[near]
                start()
    return sorted(outcomes, key=lambda outcome: (outcome.operator, outcome.dtype, outcome.sample))


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


def shared(reason: str) -> str:
    """A reason as several operators share it: without the line of code, and what follows."""
    return re.sub(r", at File .*", "", reason)[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description="Torch's samples of its operators, compiled by relax.")
    parser.add_argument("--match", default="", help="only operators whose name matches this regular expression")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], help="dtypes of the samples (float32)")
    parser.add_argument("--samples", type=int, default=3, help="samples of an operator and dtype (3)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one sample (180)")
    parser.add_argument("--failed", action="store_true", help="print the samples that are not compiled, with reasons")
    parser.add_argument("--table", type=Path, help="write the operators that are not compiled to this file")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--at-least", type=float, default=0, help="fail if fewer per cent are compiled or eager")
    args = parser.parse_args()
    names = [full_name(info) for info in operators(args.match)]
    outcomes = run_all(names, args.dtypes, args.samples, args.jobs, args.limit)
    if args.json:
        args.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    if args.table:
        args.table.write_text(table(outcomes))
    if args.failed:
        for outcome in outcomes:
            if outcome.verdict != "compiled":
                print(f"{outcome.verdict:8} {outcome.name}: {outcome.reason}")
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]))
    right = counts["compiled"] + counts["eager"]
    share = 100 * right / max(len(outcomes), 1)
    print(f"{right} of {len(outcomes)} samples right ({share:.1f} %), {counts['compiled']} compiled")
    return 1 if counts["wrong"] or share < args.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
