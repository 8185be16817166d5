"""Regions are timed in each library and as our own kernels, and the fastest gets them."""

from __future__ import annotations

import logging
import math
import re

import numpy as np
import pytest

import relax
from relax.backend import json_codegen, measure, partition, register_codegen
from relax.backend.measurement import alternate, arguments
from relax.dpl import is_op, wildcard
from relax.runtime.json_graph import JSONRuntime
from relax.runtime.modules import _loaders
from relax.script import from_source
from relax.transform.run_codegen import GENERATORS
from support import numbers


def numpy_function(name):
    """An operator of a library: a function of NumPy."""
    return lambda node, *arrays: getattr(np, name)(*arrays)


@pytest.fixture
def libraries():
    """Two libraries of NumPy: one has exp and add, the other exp and tanh."""
    for name, operators in (("first", ("exp", "add")), ("second", ("exp", "tanh"))):
        functions = {f"{name}.{operator}": numpy_function(operator) for operator in operators}
        runtime = type(name, (JSONRuntime,), {"operators": functions})
        patterns = [
            (f"{name}.{operator}", is_op(f"relax.{operator}")(*(wildcard() for _ in range(1 + (operator == "add")))))
            for operator in operators
        ]
        register_codegen(name, patterns=patterns, codegen=json_codegen(name), runtime=runtime.load, override=True)
    yield
    for name in ("first", "second"):
        del GENERATORS[name], _loaders[name]


PROGRAM = """
from relax.script import ir as I, relax as R, tir as T

@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            c = R.sin(b)
            d = R.exp(c)
            y = R.tanh(d)
            R.output(y)
        return y
"""


def times(monkeypatch, seconds):
    """Let runs take these seconds, by the operators of a region: (ours, theirs)."""
    given = iter(seconds)
    monkeypatch.setattr("relax.backend.measurement.alternate", lambda runs, budget: list(next(given)))


def kinds(mod):
    return sorted(module.kind for module in relax.build(mod).modules)


def test_the_faster_gets_a_region(libraries, monkeypatch):
    mod = from_source(PROGRAM)
    times(monkeypatch, [(3.0, 1.0), (1.0, 2.0), (1.0, 2.0), (4.0, 0.5)])
    report = measure(mod, ["first", "second"], sizes={"n": 8})
    assert [(c.library, c.operators, c.chosen) for c in report.choices] == [
        ("second", ("exp", "tanh"), True),
        ("first", ("exp", "add"), True),
        ("first", ("exp",), False),
        ("second", ("exp",), False),
    ]
    split = partition(mod, ["first", "second"], choose=report)
    assert kinds(split) == ["first", "second"]
    assert split["main"].script().count("R.call_dps_packed") == 2
    run = relax.VirtualMachine(relax.build(split))["main"]
    for n in (0, 1, 3):
        x = numbers(n, 4)
        np.testing.assert_allclose(run(x).numpy(), relax.interpret(mod, "main", x).numpy(), 1e-5)


def test_what_overlaps_goes_to_the_library_that_saves_most(libraries, monkeypatch):
    mod = from_source(PROGRAM)
    times(monkeypatch, [(3.0, 1.0), (3.0, 2.0), (9.0, 1.0), (1.0, 2.0)])
    report = measure(mod, ["first", "second"])
    assert [(c.library, c.operators) for c in report.choices if c.chosen] == [("second", ("exp",)), ("first", ("exp",))]
    (lost,) = (choice for choice in report.choices if "another library" in choice.reason)
    assert (lost.library, lost.operators) == ("first", ("exp", "add"))


def test_the_report_is_a_table(libraries, monkeypatch):
    times(monkeypatch, [(0.003, 0.001), (0.001, 0.002)])
    lines = str(measure(from_source(PROGRAM), "first")).splitlines()
    assert lines[0].split() == ["library", "operators", "ours", "(ms)", "theirs", "(ms)", "chosen", "why"]
    assert re.fullmatch(r"first +exp, add +3\.0000 +1\.0000 +yes +3\.00 times as fast", lines[1])
    assert re.fullmatch(r"first +exp +1\.0000 +2\.0000 +no +2\.00 times our time", lines[2])
    assert str(measure(from_source(PROGRAM.replace("exp", "sin").replace("add", "subtract")), "first")) == (
        "no library takes a part of this program"
    )


def test_a_difference_in_the_noise_is_none(libraries, monkeypatch):
    mod = from_source(PROGRAM)
    times(monkeypatch, [(1.0, 0.97), (1.0, 0.96)])
    assert partition(mod, "first", choose=measure(mod, "first")) is mod


def test_measured_and_partitioned_in_one_call(libraries, monkeypatch, caplog):
    times(monkeypatch, [(3.0, 1.0), (1.0, 2.0)])
    with caplog.at_level(logging.INFO, "relax.backend"):
        assert kinds(partition(from_source(PROGRAM), "first", choose="measure")) == ["first"]
    assert "3.00 times as fast" in caplog.text


def test_a_region_that_does_not_run(libraries, monkeypatch):
    def fails(runs, budget):
        raise RuntimeError("no memory\nfor this")

    monkeypatch.setattr("relax.backend.measurement.alternate", fails)
    (choice, _) = measure(from_source(PROGRAM), "first").choices
    assert (choice.chosen, choice.theirs, choice.reason) == (False, math.inf, "cannot be timed: no memory")


def test_wrong_choices(libraries):
    mod = from_source(PROGRAM)
    with pytest.raises(ValueError, match="the report is of another program"):
        partition(mod, "first", choose=relax.backend.Report(from_source(PROGRAM), ()))
    with pytest.raises(ValueError, match='choose must be "first", "measure" or a report, found \'best\''):
        partition(mod, "first", choose="best")


def test_runs_take_turns():
    turns = []
    medians = alternate([lambda: turns.append("a"), lambda: turns.append("b")], 0)
    assert turns == ["a", "b"] * 6
    assert len(medians) == 2


def test_arguments_of_every_kind():
    mod = from_source("""
from relax.script import ir as I, relax as R, tir as T

@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", "m"), "bfloat16"), i: R.Tensor(("n + m",), "int64"), b: R.Tensor((2,), "bool"),
             s: R.Shape(["n", 3]), t: R.Tuple(R.Tensor(("k",), "float32")), p: R.Prim(value="k")):
        return x
""")
    x, i, b, s, (t,), p = arguments(mod["main"], {"n": 5})
    assert (x.dtype.name, x.shape, i.dtype.name, i.shape) == ("bfloat16", (5, 16), "int64", (21,))
    assert (b.dtype.name, tuple(s), t.shape, p) == ("bool", (5, 3), (16,), 16)
    assert not i.any()
