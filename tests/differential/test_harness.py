"""The tools themselves: differences are seen, and failing programs are made small."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import relax
from differential import harness, properties
from differential.generator import inputs, random_program
from differential.harness import Array, Outcome, difference
from differential.reducer import python_text, ready_test, reduce
from relax.analysis.alias import Aliases

ROOT = Path(__file__).parents[2]


def array(*values, dtype="float32"):
    data = np.array(values, dtype)
    return Array(dtype, data.shape, data)


@pytest.mark.parametrize(
    "expected, found, text",
    [
        (Outcome(1), Outcome(2), "the result: expected 1, found 2"),
        (Outcome(1), Outcome(True), "the result: expected 1, found True"),
        (Outcome((array(0.0),)), Outcome((array(-0.0),)), "the result[0]"),
        (Outcome(array(np.nan)), Outcome(array(1.0)), "the result"),
        (Outcome(array(1)), Outcome(array(1, dtype="int32")), "the result"),
        (Outcome(log=[("a",)]), Outcome(), "the effects"),
        (Outcome(log=[("a",), ("b",)]), Outcome(log=[("b",), ("a",)]), "the effects[0][0]"),
        (Outcome(printed="x"), Outcome(), "what was printed"),
        (Outcome(args=[array(1.0)]), Outcome(args=[array(2.0)]), "the arguments afterwards"),
        (Outcome(sharing=(0, 0)), Outcome(sharing=(0, 1)), "share memory"),
        (Outcome(), Outcome(error=("ValueError", "no")), "error: expected none, found ValueError: no"),
        (Outcome(error=("ValueError", "a")), Outcome(error=("ValueError", "b")), "expected ValueError: a"),
        (Outcome(called=[Outcome(1)]), Outcome(called=[Outcome(2)]), "calling a function among the results"),
    ],
)
def test_differences_are_seen(expected, found, text):
    assert text in difference(expected, found)


def test_what_is_equal_is_equal():
    one = Outcome((array(np.nan, -0.0), ("shape", 1)), log=[(array(1.0), 2)], args=[array(1.0)], sharing=(0,))
    assert difference(one, one) is None
    assert difference(Outcome(array(0.0)), Outcome(array(-0.0)), harness.UNSIGNED) is None
    assert difference(Outcome(array(1.0)), Outcome(array(1.0 + 1e-6)), harness.ABOUT) is None
    assert difference(Outcome(array(1.0)), Outcome(array(1.1)), harness.ABOUT) is not None


def test_an_error_in_a_dataflow_block_may_vanish_but_not_what_was_seen_before():
    expected = Outcome(error=("ValueError", "a"), log=[(1,)], printed="x\n", optional=True)
    assert difference(expected, Outcome(3, log=[(1,), (2,)], printed="x\ny\n")) is None
    assert difference(expected, Outcome(error=("IndexError", "b"), log=[(1,)], printed="x\n")) is None
    assert difference(expected, Outcome(3, printed="x\n")) is not None
    assert difference(expected, Outcome(3, log=[(2,)], printed="x\n")) is not None
    assert difference(expected, Outcome(3, log=[(1,)])) is not None


def test_an_error_counts_as_of_a_dataflow_block_where_it_arose():
    text = """
@I.ir_module
class Module:
    @R.function(private=True)
    def inner(x: R.Tensor(dtype="float32", ndim=1)) -> R.Tensor((2,), "float32"):
        y = R.match_cast(x, R.Tensor((2,), "float32"))
        return y

    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=1)) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            y = Module.inner(x)
            R.output(y)
        return y

    @R.function
    def outside(x: R.Tensor(dtype="float32", ndim=1)) -> R.Tensor((2,), "float32"):
        y = Module.inner(x)
        return y
"""
    mod = properties.parse(text)
    for name, optional in (("main", True), ("outside", False)):
        interpreter = properties.Interpreter(mod)
        outcome = harness.run(interpreter[name], [np.zeros(3, "float32")])
        assert outcome.error == ("ValueError", "inner: match_cast of a value: dimension 0 is 3, expected 2")
        assert outcome.optional is optional


def test_an_error_in_a_dataflow_block_of_a_function_that_was_returned_may_vanish():
    text = """
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor((2,), "int64")):
        @R.function
        def f(p: R.Tensor((2,), "int64")) -> R.Tensor((2,), "int64"):
            with R.dataflow():
                v = R.floor_mod(a, a)
                R.output()
            return p

        return f
"""
    cases = [[np.zeros(2, "int64")]]
    (outcome,) = properties.interpreted(properties.parse(text), cases)
    assert outcome.error is None
    assert [(called.error[0], called.optional) for called in outcome.called] == [("ZeroDivisionError", True)]
    properties.agrees(text, cases)


def test_sharing_and_mutation_are_seen():
    mod = properties.parse("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        R.call_packed("fuzz.record", x, R.str("before"), sinfo_args=R.Tuple())
        R.call_packed("fuzz.increment", x, sinfo_args=R.Object)
        R.call_packed("fuzz.record", x, R.str("after"), sinfo_args=R.Tuple())
        return (y, (x, R.add(x, y)))
""")
    x, y = np.zeros(2, "float32"), np.ones(2, "float32")
    (outcome,) = properties.interpreted(mod, [[x, y]])
    assert outcome.sharing == ((0, 1), (1, (0, 2)))
    assert [entry[1] for entry in outcome.log] == [("String", "before"), ("String", "after")] or [
        entry[1][1] for entry in outcome.log
    ] == ["before", "after"]
    assert outcome.log[0][0].data.tolist() == [0, 0]
    assert outcome.args[0].data.tolist() == [1, 1]
    assert x.tolist() == [0, 0]  # runs are on copies


# ------------------------------------------------------------------------------------------- the reducer


def wrong_for_negative(mod):
    """A compiler that takes the absolute value where a program negates."""
    text = mod.script().replace("R.negative(", "R.abs(")
    return properties.Interpreter(relax.script.from_source(text))["main"]


def test_a_failing_program_is_made_small(monkeypatch):
    monkeypatch.setitem(properties.MODES, "wrong", wrong_for_negative)

    def fails(text, cases):
        try:
            properties.agrees(text, cases, modes=["wrong"])
        except properties.Failure as failure:
            return failure.kind
        except Exception:  # noqa: BLE001 (no program)
            return None
        return None

    programs = {seed: random_program(seed, effects=False, failing=False) for seed in range(200)}
    for seed, program in sorted(programs.items(), key=lambda item: len(item[1].text)):
        cases = [inputs(program, {"n": 2, "m": 3}, seed)]
        if "R.negative(" in program.text and fails(program.text, cases):
            break
    text, cases = reduce(program.text, cases, fails, seconds=600)
    assert fails(text, cases)
    assert len(text.splitlines()) <= 10
    assert text.count("R.") <= 8
    shown = ready_test("agrees", text, cases, exact=True, modes=["wrong"])
    scope = {}
    exec(shown, scope)
    with pytest.raises(properties.Failure):
        scope["test_found_agrees"]()


def test_what_does_not_fail_is_not_reduced():
    with pytest.raises(ValueError, match="does not fail"):
        reduce("x = 1", [[]], lambda text, cases: None)


def test_inputs_are_shown_as_python():
    values = [
        np.array([[1.5, np.nan], [np.inf, -0.0]], "float32"),
        np.zeros((0, 2), "int8"),
        np.array(True),
        relax.ShapeTuple([2, 3]),
        (1, ("text", None)),
    ]
    for value in values:
        again = eval(python_text(value), {"np": np, "relax": relax})
        assert str(again) == str(value)
        assert getattr(again, "dtype", None) == getattr(value, "dtype", None)


def test_the_command_line():
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py")]
    options = ["--seconds", "2", "--jobs", "1", "--seed", "1", "--property", "derives_truly"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "programs with seed 1: 0 sorts of failures" in done.stdout


def test_the_command_line_finds_the_samples_of_operators():
    code = "import fuzz; from differential.sample_steps import samples; assert 'relax.add' in samples()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("question, kind", [("may_share", "shares memory"), ("may_write", "changed")])
def test_an_alias_that_the_analysis_denies_is_found(monkeypatch, question, kind):
    text = """
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        a = R.exp(x)
        b = a
        t = (b, x)
        _ = R.call_packed("test.harness.increment", a)
        c = t[0]
        return c
    """
    relax.register_func("test.harness.increment", lambda t: t.copyfrom(t.numpy() + 1), override=True)
    cases = [[np.zeros(4, "float32")]]
    properties.aliases_are_known(module(text), cases)
    monkeypatch.setattr(Aliases, question, lambda self, a, b: False)
    with pytest.raises(properties.Failure, match=kind):
        properties.aliases_are_known(module(text), cases)


def test_a_lifetime_that_ends_too_early_is_found(monkeypatch):
    text = """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        a = R.exp(x)
        b = a
        return b
    """
    early = Aliases.live_ranges
    monkeypatch.setattr(
        Aliases, "live_ranges", lambda self: {s: replace(r, last=r.first) for s, r in early(self).items()}
    )
    with pytest.raises(properties.Failure, match="a outlives the function"):
        properties.aliases_are_known(module(text), [[np.zeros(4, "float32")]])


def module(text):
    """A module of the functions in a text."""
    return "@I.ir_module\nclass Module:\n" + textwrap.indent(textwrap.dedent(text), "    ")


@pytest.mark.parametrize(
    "message",
    [
        "main: take: an index is out of range for size 0",
        "main: take: A[0] is outside of shape [0]",
        "main: take: buffer A: index 0 is out of bounds for dimension 0 of size 0",
        "fused_zeros1_take: take: A[0] is outside of shape [0]",
        "main: fused_take_add: buffer A: index 7 is out of bounds for dimension 0 of size 4",
    ],
)
def test_one_error_in_other_words(message):
    assert harness.normalised(message) == "main: take: an index is out of range"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "main: add: the shapes cannot be broadcast (x1: last dimension 3, x2: last dimension 2)",
            "main: add: the shapes cannot be broadcast: m and n (m = 3, n = 2)",
        ),
        (
            "main: image.resize2d: dimension 2 of data has no elements",
            "main: resize2d: dimension 2 of data has no elements",
        ),
    ],
)
def test_words_of_the_interpreter_and_of_kernels(one, other):
    assert harness.normalised(one) == harness.normalised(other)


def test_errors_after_passes():
    """Only what a pass changes may differ: the name of an inlined function, the size of a storage."""

    def outcome(text):
        return Outcome(error=("ValueError", text))

    def expected(names, wanted, found):
        (made,) = properties._as_after(names, [outcome(wanted)], [outcome(found)])
        return made.error[1]

    size = "main: a shape cannot have a negative dimension, as in ({},)".format
    assert expected(["InlinePrivateFunctions"], "f: it is empty", "main: it is large") == "main: it is empty"
    assert expected(["FuseOps"], "f: it is empty", "main: it is empty") == "f: it is empty"
    assert expected(["LowerAllocTensor", "FuseOps"], size(-1), size(-8)) == size(-8)
    assert expected(["FuseOps"], size(-1), size(-8)) == size(-1)
    assert expected(["LowerAllocTensor"], size(-1), "main: other") == size(-1)
    given = "f: parameter k: the value is -1, expected a size, at least 0 and less than 2**48"
    assert expected(["RemoveUnusedParameters"], size(-1), given) == given
    assert expected(["FuseOps"], size(-1), given) == size(-1)
    huge = "main: a shape cannot have a dimension of 2**48 or more, as in (4611686018427387904,)"
    given = "f: parameter k: the value is 4611686018427387904, expected a size, at least 0 and less than 2**48"
    assert expected(["RemoveUnusedParameters"], huge, given) == given


def nested(leaf: object, depth: int) -> object:
    """A leaf in 2**depth places of a tuple."""
    for _ in range(depth):
        leaf = (leaf, leaf)
    return leaf


def test_tuples_in_many_places_are_seen_once():
    """By paths, this would not end."""

    def function(tensor: relax.NDArray) -> object:
        return nested(tensor, 60), nested(relax.nd.array(tensor.numpy() + 1), 60)

    first, second = (harness.run(function, [np.zeros(2, "float32")]) for _ in range(2))
    assert harness.difference(first, second) is None
    other = harness.run(lambda tensor: (function(tensor)[0], function(tensor)[0]), [np.zeros(2, "float32")])
    assert harness.difference(first, other).startswith("the result[1][0][0]")
    aliased = harness.run(lambda tensor: (nested(tensor, 60), nested(tensor, 60)), [np.zeros(2, "float32")])
    copied = harness.run(
        lambda tensor: (nested(tensor, 60), nested(relax.nd.array(tensor.numpy()), 60)), [np.zeros(2, "float32")]
    )
    assert "share memory" in harness.difference(aliased, copied)
    shallow = harness.run(lambda tensor: (nested(tensor, 60), ()), [np.zeros(2, "float32")])
    assert len(harness.difference(first, shallow)) < 1000
