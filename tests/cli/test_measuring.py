"""bench, profile, and the tracer of the virtual machine they use; progress on a terminal."""

from __future__ import annotations

import io
import re

import numpy as np
from rich.console import Console

import relax
from relax.cli import progress
from relax.cli.flame_page import flame_page
from relax.cli.profile import node_of, profile_table, profiled, tensor_bytes
from relax.script import from_source

CALLS = """
from relax.script import ir as I, relax as R

@I.ir_module
class M:
    @R.function
    def inner(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        y = R.exp(x)
        z = R.matmul(y, x)
        return z

    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        a = M.inner(x)
        b = M.inner(a)
        c = R.negative(b)
        return c
"""


def machine_of(text):
    return relax.VirtualMachine(relax.build(from_source(text, name="m.py")), relax.cpu())


def test_the_tracer_is_told_of_every_call():
    machine = machine_of(CALLS)
    calls = []
    machine.set_tracer(calls.append)
    x = np.ones((4, 4), "float32")
    traced = machine["main"](x).numpy()
    kernels = [call for call in calls if not call.name.startswith("vm.builtin.")]
    assert [call.name for call in kernels] == ["exp", "matmul", "exp", "matmul", "negative"]
    assert [[name for name, _ in call.stack] for call in kernels] == [["main", "inner"]] * 4 + [["main"]]
    assert [call.location for call in kernels] == ["m.py:8:13", "m.py:9:13"] * 2 + ["m.py:16:13"]
    first, second = (kernels[i].stack[0][1] for i in (0, 2))
    assert first < second  # the instructions of main that call inner
    assert all(call.seconds >= 0 for call in calls)
    assert tensor_bytes(kernels[0].args) == 2 * 4 * 4 * 4
    machine.set_tracer(None)
    count = len(calls)
    assert np.array_equal(machine["main"](x).numpy(), traced)
    assert len(calls) == count


def test_a_profile_adds_up():
    profile = profiled(machine_of(CALLS), "main", [np.ones((4, 4), "float32")], runs=3, warmup=1)
    kernels = {}
    for key, spent in profile.lines.items():
        kernels.setdefault(key.name, []).append((key.functions, spent.calls))
    assert kernels["exp"] == [(("main", "inner"), 2)]
    assert kernels["negative"] == [(("main",), 1)]
    assert profile.whole >= profile.seconds * 0.999
    lines = profile_table(profile, "kernel", 2).splitlines()
    assert lines[0].split() == ["kernel", "calls", "time", "share", "FLOPs", "FLOP/s", "bytes", "rate"]
    products = next(spent for key, spent in profile.lines.items() if key.name == "matmul")
    assert products.flops == 2 * 2 * 4 * 4 * 4  # two calls, two operations for each element and term
    assert "more)" in lines[3]
    assert lines[-1].startswith("total ")
    assert "100.0%" in lines[-1]
    places = profile_table(profile, "place", 50)
    assert "m.py:9:13" in places
    assert "(virtual machine)" in places


def test_a_line_for_each_size(command):
    said = command("bench", "model.py", "--size", "n=1,3", "--runs", "2", "--warmup", "0")
    assert said.status == 0
    header, *rows = said.out.splitlines()
    assert header.split() == ["sizes", "engine", "median", "min", "mean", "max"]
    assert [row.split()[:2] for row in rows] == [["n=1", "relax"], ["n=3", "relax"]]


def test_a_model_without_open_dimensions_has_no_sizes(command):
    said = command("bench", "model.py", "--shape", "n=2", "--runs", "1")
    assert said.out.split()[:2] == ["engine", "median"]


def test_the_profile_command(command, folder):
    said = command("profile", "model.py", "--size", "n=2", "--runs", "2", "--by", "place", "--html", "p.html")
    assert said.status == 0
    assert "model.py:10:17" in said.out
    assert "matmul" in (folder / "p.html").read_text(encoding="utf-8")


def test_frames_are_named_by_their_nodes(command, folder):
    assert node_of('models/net.onnx: Conv "a: b":7:1', "lv3") == 'Conv "a: b"'
    assert node_of("net.onnx: Relu:7:1", "lv3") == "Relu"
    assert node_of("model.py:10:17", "y") == "y"
    assert command("profile", "model.py", "--size", "n=2", "--runs", "1", "--html", "p.html").status == 0
    frames = re.findall(r'title="([^"]*?): ', (folder / "p.html").read_text(encoding="utf-8"))
    assert {"all", "main", "y"} <= set(frames)
    assert not [frame for frame in frames if "model.py" in frame]


def test_the_frames_of_a_row_are_within_100_percent():
    page = flame_page("six", {("main", f"node {i}"): 1.0 for i in range(6)})
    widths = [float(text) for text in re.findall(r"width:([\d.]+)%", page.split("<main", 1)[1])]
    assert widths[:2] == [100.0, 100.0]
    assert 99.99 < sum(widths[2:8]) <= 100.0


def test_progress_is_shown_on_a_terminal_after_a_while(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    shown = io.StringIO()
    with progress.Meter("measuring", 2, Console(file=shown, force_terminal=True, width=60)) as meter:
        meter._timer.join()
        meter.describe("still measuring")
        meter.advance()
    assert "still measuring" in shown.getvalue()


def test_progress_is_silent_in_a_pipe_and_when_quick(monkeypatch):
    quick = io.StringIO()
    with progress.Meter("measuring", None, Console(file=quick, force_terminal=True, width=60)):
        pass
    assert quick.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    piped = io.StringIO()
    with progress.Meter("measuring", None, Console(file=piped)) as meter:
        meter.describe("still measuring")
    assert piped.getvalue() == ""


def test_a_build_says_what_it_is_doing(monkeypatch):
    """The line names each pass as it begins, then the machine code."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    described: list[str] = []

    def describe(meter, text):
        described.append(text)

    monkeypatch.setattr(progress.Meter, "describe", describe)
    with progress.BuildProgress():
        relax.build(from_source(CALLS), "llvm -opt-level=1")
    assert "compiling: LegalizeOps" in described
    assert described[-1] == "compiling: machine code"
    count = len(described)
    relax.build(from_source(CALLS), "llvm -opt-level=1")
    assert len(described) == count  # nothing is said of builds after the with
