"""Estimates of candidates, before and after they learn from measurements: how well do they order what is not measured?

    python benchmarks/tune_estimates.py [--count N] [--only WORD ...] [--keep FILE]

N candidates (default: 40) of each kernel are measured in alternation with its default schedule. Each row is a kernel by
two numbers: Spearman's correlation of estimated and measured times, and what is lost if only the best six by the
estimate are measured (the best of them over the best of all). The columns:

    plain      the estimate alone
    others     corrected by the measurements of all kernels of other kinds
    own        the candidates that are left, if the best twelve by the plain estimate are measured as well
    rest       the plain estimate for the same candidates

Measurements go to FILE (JSON lines) and are read from there if it exists, so that a change of the model can be judged
by the same times.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tune_kernels
import tune_wrong_machine
from rich.console import Console

from relax.codegen import resolve
from relax.schedules import cpu
from relax.target import Target
from relax.tir import PrimFunc
from relax.tune.candidates import Candidates
from relax.tune.design_spaces import Choice
from relax.tune.draft import Draft, draft_of
from relax.tune.kernels import Kernel
from relax.tune.learned import Sample, corrected, sample_of
from relax.tune.loop_nests import loop_nests
from relax.tune.measuring import Conditions, Measurer
from relax.tune.measuring_process import Failed

PAIRS = 4
TOP = 6
FIRST = 12

OTHERS: dict[str, Callable[[], PrimFunc]] = {
    "small product": lambda: tune_wrong_machine.product(40, 70, 50),
    "packed product": lambda: tune_wrong_machine.product(128, 512, 768),
    "packed 3×3": lambda: tune_wrong_machine.convolution(64, 64, 28, 3),
    "packed 1×1": lambda: tune_wrong_machine.convolution(96, 160, 14, 1),
}
KERNELS = {**tune_kernels.KERNELS, **tune_wrong_machine.KERNELS, **OTHERS}
KINDS = ("two sums", "stencil", "convolution", "3×3", "1×1", "product", "few rows")
"""Words in names of kernels that are of one kind: none of them learns from another one."""
SAME = {"3×3": "convolution", "1×1": "convolution", "few rows": "product"}


def kind_of(name: str) -> str:
    """Kind of a kernel, by its name."""
    if name in ("tiny products", "5-D convolution"):
        return name
    word = next((word for word in KINDS if word in name), name)
    return SAME.get(word, word)


class Kernels:
    """Candidates of a kernel, with drafts and measured gains."""

    def __init__(self, name: str, target: Target) -> None:
        kernel = Kernel(name, KERNELS[name](), (1,) if name.startswith("packed") else ())
        self.name, self.kernel, self.target = name, kernel, target
        self.candidates = Candidates(kernel, target, cpu.rules_for(target), [loop_nests])
        self.default = draft_of(self.candidates.default.variant.func, {}, target)
        self.drafts: list[Draft] = []
        self.gains: list[float] = []

    def measure(self, count: int) -> Iterator[tuple[Choice, float]]:
        """Measure candidates; yield their choices and gains."""
        several = self.candidates.first(count, random.Random(1), lambda: True)
        default = self.candidates.default.variant
        with Measurer(self.kernel, default, self.target, Conditions(seconds=10)) as measurer:
            for candidate in several:
                result = measurer.measure(candidate.digest, candidate.variant, PAIRS)
                if not isinstance(result, Failed) and candidate.choice is not None:
                    self._add(candidate.variant.func, result.gain)
                    yield candidate.choice, result.gain

    def read(self, measured: Sequence[tuple[Choice, float]]) -> None:
        """Take measurements of an earlier run."""
        for choice, gain in measured:
            candidate = self.candidates.make(choice)
            if candidate is not None:
                self._add(candidate.variant.func, gain)

    def _add(self, func: PrimFunc, gain: float) -> None:
        self.drafts.append(draft_of(func, {}, self.target))
        self.gains.append(gain)

    def samples(self, places: Sequence[int]) -> list[Sample]:
        """Samples of some of the candidates."""
        several = [sample_of(self.drafts[place], self.default, self.gains[place]) for place in places]
        return [sample for sample in several if sample is not None]

    def judged(self, others: Sequence[Sample]) -> list[tuple[float, float]]:
        """Correlation and loss of each column."""
        every = list(range(len(self.gains)))
        plain = corrected(self.drafts, self.default, [], [], 0)
        first = sorted(every, key=lambda place: plain[place])[:FIRST]
        rest = [place for place in every if place not in first]
        learned = corrected(self.drafts, self.default, [], others, 0)
        both = corrected(self.drafts, self.default, self.samples(first), others, 0)
        columns = ((plain, every), (learned, every), (both, rest), (plain, rest))
        return [self._quality(times, places) for times, places in columns]

    def _quality(self, times: Sequence[float], places: Sequence[int]) -> tuple[float, float]:
        estimated, gains = [times[place] for place in places], [self.gains[place] for place in places]
        ranks = [np.argsort(np.argsort(values, kind="stable")) for values in (estimated, [-gain for gain in gains])]
        best = sorted(range(len(places)), key=lambda number: estimated[number])[:TOP]
        loss = max(gains) - max(gains[number] for number in best)
        return float(np.corrcoef(*ranks)[0, 1]), math.exp(loss)


def earlier(path: Path | None) -> Mapping[str, list[tuple[Choice, float]]]:
    """Measurements in a file, by kernel."""
    found: dict[str, list[tuple[Choice, float]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else ():
        name, rule, parameters, gain = json.loads(line)
        found.setdefault(name, []).append((Choice(rule, parameters), gain))
    return found


def main() -> None:
    """Measure candidates, and print a line for each kernel."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    target = resolve("llvm -num-cores=1")
    known = earlier(options.keep)
    kernels: list[Kernels] = []
    for name in KERNELS:
        if any(word in name for word in options.only):
            one = Kernels(name, target)
            if name in known:
                one.read(known[name])
            else:
                lines = [json.dumps([name, c.rule, c.parameters, gain]) for c, gain in one.measure(options.count)]
                if options.keep is not None:
                    with open(options.keep, "a", encoding="utf-8") as file:
                        file.writelines(f"{line}\n" for line in lines)
            kernels += [one] if len(one.gains) > FIRST + TOP else []
    console.print(f"{'':18} {'plain':>12} {'others':>12} {'own':>12} {'rest':>12}")
    rows: list[list[tuple[float, float]]] = []
    for one in kernels:
        others = [k for k in kernels if kind_of(k.name) != kind_of(one.name)]
        row = one.judged([sample for other in others for sample in other.samples(range(len(other.gains)))])
        rows.append(row)
        console.print(f"{one.name:18} " + " ".join(f"{rank:6.2f} {loss:5.2f}" for rank, loss in row))
    means = [[statistics.fmean(row[column][i] for row in rows) for i in (0, 1)] for column in range(4)]
    console.print(f"{'mean':18} " + " ".join(f"{rank:6.2f} {loss:5.2f}" for rank, loss in means))


if __name__ == "__main__":
    main()
