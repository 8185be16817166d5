"""``relax profile``: time, operations and memory traffic of each kernel of a model."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..runtime import Executable, VirtualMachine
from ..runtime.debug_info import names_of_call, tensor_bytes
from ..runtime.records import dataclass
from ..runtime.timing import TracedCall
from .arguments import add_building, add_inputs, add_model, natural, once, positive
from .failures import SUCCESS, running_program
from .flame_page import flame_page
from .inputs import gather_inputs
from .models import executable_of, read_model, signature_of
from .progress import progress
from .tables import byte_size, count, duration, text_table

DESCRIPTION = """\
Measure how long each kernel of a model takes, over some runs: time per run, share, the bytes of the tensors it is
given, and its arithmetic operations, where they are known. The rest is the virtual machine's own."""
EXAMPLES = """
  relax profile model.relax --size n=64
  relax profile model.onnx --by place           a line for each instruction
  relax profile model.py --html profile.html    a flame graph
"""

MACHINE = "(virtual machine)"
_BUILTIN = "vm.builtin."


@dataclass(frozen=True)
class Key:
    """A line of a profile: called function, call stack (outermost first), source location, and node ("" if unknown)."""

    functions: tuple[str, ...]
    place: str
    name: str
    node: str


@dataclass
class Spent:
    """Calls, time, bytes and arithmetic operations of one run; operations are None if unknown for a call."""

    calls: int = 0
    seconds: float = 0.0
    nbytes: int = 0
    flops: int | None = None

    def add(self, other: Spent) -> None:
        """Add another total."""
        unknown = other.flops is None or (self.calls > 0 and self.flops is None)
        self.flops = None if unknown else (self.flops or 0) + (other.flops or 0)
        self.calls += other.calls
        self.seconds += other.seconds
        self.nbytes += other.nbytes


@dataclass
class Profile:
    """Profile of a model by line: medians over several runs."""

    seconds: float
    """Median time of runs without instrumentation."""
    lines: dict[Key, Spent]

    @property
    def own(self) -> float:
        """Time spent in the VM itself."""
        return max(self.seconds - sum(spent.seconds for spent in self.lines.values()), 0.0)

    @property
    def whole(self) -> float:
        """Total time on which percentages are based; instrumented calls take slightly longer."""
        return self.own + sum(spent.seconds for spent in self.lines.values())

    @property
    def stacks(self) -> dict[tuple[str, ...], float]:
        """Seconds by stack, for the flame graph."""
        nodes = {key.place: key.node for key in self.lines if key.node}
        stacks: dict[tuple[str, ...], float] = {}
        for key, spent in self.lines.items():
            line = re.fullmatch(r".*:(\d+):\d+", key.place)
            node = nodes.get(key.place) or (key.place if line is None else f"line {line[1]}")
            stack = (*key.functions, node, key.name)
            stacks[stack] = stacks.get(stack, 0.0) + spent.seconds
        return stacks


class Recorder:
    """Recorder of the calls of one run."""

    def __init__(self, executable: Executable) -> None:
        self.lines: dict[Key, Spent] = {}
        self._executable = executable
        self._kernels = executable.debug.kernels

    def record(self, call: TracedCall) -> None:
        """Add one call."""
        function, pc = call.stack[-1]
        place = call.location or f"{function}, instruction {pc}"
        debug, program = self._executable.debug, self._executable.program
        variable = names_of_call(debug, program, self._executable.functions[function], pc).variable
        names = tuple(name for name, _ in call.stack)
        key = Key(names, place, call.name, node_of(call.location, variable))
        nbytes = 0 if call.name.startswith(_BUILTIN) else tensor_bytes(call.args)
        kernel = self._kernels.get(call.name)
        flops = None if kernel is None else kernel.flops(call.args)
        self.lines.setdefault(key, Spent()).add(Spent(1, call.seconds, nbytes, flops))


def node_of(location: str, variable: str) -> str:
    """Name of a call's node: the operator and name of an ONNX node, or the variable that the call computes."""
    onnx = re.fullmatch(r'.*?: (\S+(?: ".*")?):\d+:\d+', location)
    return variable if onnx is None else onnx[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser)
    add_inputs(parser)
    parser.add_argument("--runs", metavar="N", type=positive, default=20, help="runs that are counted (default: 20)")
    parser.add_argument("--warmup", metavar="N", type=natural, default=3, help="runs before these (default: 3)")
    parser.add_argument(
        "--by",
        choices=("kernel", "place"),
        default="kernel",
        help="a line for each kernel (default), or for each place it is called at",
    )
    parser.add_argument("--top", metavar="N", type=positive, default=30, help="lines of the table (default: 30)")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a flame graph to an HTML file")
    add_building(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    program = read_model(options.model, options)
    signature = signature_of(program, options.entry)
    values = [entry.value for entry in gather_inputs(signature, options, once(options.size, "--size"))]
    machine = VirtualMachine(executable_of(program, options))
    profile = profiled(machine, signature.name, values, options.runs, options.warmup)
    sys.stdout.write(profile_table(profile, options.by, options.top) + "\n")
    if options.html is not None:
        title = f"{options.model.name}: {signature.name}"
        options.html.write_text(flame_page(title, {**profile.stacks, (MACHINE,): profile.own}), encoding="utf-8")
        sys.stdout.write(f"{options.html}: flame graph\n")
    return SUCCESS


def profiled(machine: VirtualMachine, entry: str, values: Sequence[Any], runs: int, warmup: int) -> Profile:
    """Profile a call; instrumented runs alternate with uninstrumented ones."""
    machine.save_function(entry, "profiled", *values, include_return=False)
    call = machine["profiled"]
    unwatched: list[float] = []
    watched: list[dict[Key, Spent]] = []
    with running_program(), progress("measuring", runs + warmup) as meter:
        for index in range(runs + warmup):
            start = time.perf_counter()
            call()
            elapsed = time.perf_counter() - start
            recorder = Recorder(machine.executable)
            machine.set_tracer(recorder.record)
            call()
            machine.set_tracer(None)
            if index >= warmup:
                unwatched.append(elapsed)
                watched.append(recorder.lines)
            meter.advance()
    keys = dict.fromkeys(key for lines in watched for key in lines)
    return Profile(statistics.median(unwatched), {key: _median(key, watched) for key in keys})


def _median(key: Key, runs: Sequence[dict[Key, Spent]]) -> Spent:
    """Run with the median time for a line."""
    spent = sorted((lines.get(key, Spent()) for lines in runs), key=lambda candidate: candidate.seconds)
    return spent[len(spent) // 2]


def profile_table(profile: Profile, by: str, top: int) -> str:
    """Table of the profile, in descending order of time."""
    lines: dict[tuple[str, str], Spent] = {}
    for key, spent in profile.lines.items():
        lines.setdefault((key.name, key.place if by == "place" else ""), Spent()).add(spent)
    ordered = sorted(lines.items(), key=lambda item: -item[1].seconds)
    shown, hidden = ordered[:top], ordered[top:]
    if hidden:
        rest = Spent()
        for _, spent in hidden:
            rest.add(spent)
        shown.append(((f"({len(hidden)} more)", ""), rest))
    shown.append(((MACHINE, ""), Spent(0, profile.own)))
    rows = [_row(name, place, spent, profile.whole) for (name, place), spent in shown]
    rows.append(["total", "", duration(profile.whole), "100.0%", "", "", "", "", ""])
    place = "place" if by == "place" else ""
    header = ["kernel", "calls", "time", "share", "FLOPs", "FLOP/s", "bytes", "rate", place]
    return text_table(header, rows, right={1, 2, 3, 4, 5, 6, 7})


def _row(name: str, place: str, spent: Spent, whole: float) -> list[str]:
    """Table row of a line."""
    share = spent.seconds / whole if whole else 0.0
    nbytes = byte_size(spent.nbytes) if spent.nbytes else ""
    rate = f"{byte_size(spent.nbytes / spent.seconds)}/s" if spent.nbytes and spent.seconds else ""
    flops = count(spent.flops) if spent.flops else ""
    speed = count(spent.flops / spent.seconds) if spent.flops and spent.seconds else ""
    calls = str(spent.calls) if spent.calls else ""
    return [name, calls, duration(spent.seconds), f"{share:.1%}", flops, speed, nbytes, rate, place]
