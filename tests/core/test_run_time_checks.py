"""Possibly compatible (language.md §6): a check at run time, and a warning that says where, and how to silence it.

Each kind of value, at each place where struct info is expected: `have` is what is known of it, `want` what is expected.
"""

from __future__ import annotations

import re
import textwrap
import warnings

import numpy as np
import pytest

import relax
from relax.derive.normalize import normalize_module
from relax.ir import DiagnosticError, RelaxWarning
from relax.ir.transform import PassContext
from support import PLAIN_LOOPS, parse

F = 'R.Callable((R.Tensor((4,), "float32"),), {})'
VECTOR = 'R.Tensor((4,), "float32")'

KINDS = {
    "dimension": ('R.Tensor(("n",), "float32")', VECTOR),
    "rank": ('R.Tensor(dtype="float32")', VECTOR),
    "shape": ('R.Tensor(dtype="float32", ndim=1)', VECTOR),
    "dtype": ('R.Tensor((4,), "")', VECTOR),
    "anything": ("R.Object", VECTOR),
    "shape values": ("R.Shape(ndim=2)", "R.Shape([2, 3])"),
    "shape rank": ("R.Shape", "R.Shape(ndim=2)"),
    "number": ('R.Prim("int64")', 'R.Prim("int64", value=3)'),
    "field": (f"R.Tuple(R.Object, {VECTOR})", f"R.Tuple({VECTOR}, {VECTOR})"),
    "function result": (F.format("R.Object"), F.format(VECTOR)),
    "function parameter": (
        f"R.Callable(({VECTOR},), R.Object)",
        'R.Callable((R.Tensor(ndim=1, dtype="float32"),), R.Object)',
    ),
    "a function": ("R.Object", F.format(VECTOR)),
}

# The place, the code, and the line the warning points at, with the text that is underlined.
PLACES = {
    "global call": ("""
        @I.ir_module
        class M:
            @R.function
            def f(a: {want}) -> R.Object:
                return a

            @R.function
            def main(x: {have}) -> R.Object:
                y = M.f(x)
                return y
    """, "W3001", "x"),
    "local call": ("""
        @R.function
        def main(x: {have}) -> R.Object:
            @R.function
            def f(a: {want}) -> R.Object:
                return a
            y = f(x)
            return y
    """, "W3001", "x"),
    "call of a parameter": ("""
        @R.function
        def main(x: {have}, f: R.Callable(({want},), R.Object)) -> R.Object:
            y = f(x)
            return y
    """, "W3001", "x"),
    "binding": ("""
        @R.function
        def main(x: {have}) -> R.Object:
            y: {want} = x
            return y
    """, "W3006", "y"),
    "output of a dataflow block": ("""
        @R.function
        def main(x: {have}) -> R.Object:
            with R.dataflow():
                y: {want} = x
                R.output(y)
            return y
    """, "W3006", "y"),
    "return": ("""
        @R.function
        def main(x: {have}) -> {want}:
            return x
    """, "W3007", "return x"),
    "return of a local function": ("""
        @R.function
        def main(x: {have}) -> R.Object:
            @R.function
            def f(a: {have}) -> {want}:
                return a
            y = f(x)
            return y
    """, "W3007", "return x"),
}  # fmt: skip


def warned(text):
    """The module of a text, and the warnings of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mod = parse(text)
    return mod, [str(w.message) for w in caught if issubclass(w.category, RelaxWarning)]


def program(kind, place):
    have, want = KINDS[kind]
    return PLACES[place][0].format(have=have, want=want)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_warned_of_once_with_its_place_and_the_way_to_silence_it(kind, place):
    _, code, underlined = PLACES[place]
    mod, [found] = warned(program(kind, place))
    assert f"warning[{code}]" in found
    assert "checked at run time" in found
    assert re.search(r"--> <string>:\d+:\d+", found)
    if underlined:
        line = next(line for line in found.splitlines() if "^" in line)
        assert line.count("^") == len(underlined)
    assert "help: to silence this, write " in found
    # Said once: what is in the module now has its check.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert normalize_module(mod) is mod


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_doing_what_the_warning_says_silences_it(kind, place):
    have, want = KINDS[kind]
    text = program(kind, place)
    _, [found] = warned(text)
    [cast] = re.findall(r"to silence this, write (\w+ = R\.match_cast\(.*\)) (?:before it|instead)", found)
    lines = textwrap.dedent(text).strip().splitlines()
    at = int(re.search(r"<string>:(\d+):", found).group(1)) - 2
    indent = re.match(" *", lines[at]).group()
    lines[at : at + ("instead" in found)] = [indent + cast]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse("\n".join(lines))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_under_the_strict_option_it_is_an_error(kind, place):
    with PassContext(config={"relax.strict": True}), pytest.raises(DiagnosticError) as caught:
        parse(program(kind, place))
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == PLACES[place][1].replace("W", "E")
    assert diagnostic.span is not None


def tensor(*shape, dtype="float32"):
    return relax.nd.array(np.zeros(shape, dtype))


RUNS = {
    # a value that fits, one that does not, what is said of it
    "dimension": (lambda: tensor(4), lambda: tensor(5), "dimension 0 is 5, expected 4"),
    "rank": (lambda: tensor(4), lambda: tensor(4, 4), "expected rank 1, found rank 2"),
    "shape": (lambda: tensor(4), lambda: tensor(0), "dimension 0 is 0, expected 4"),
    "dtype": (lambda: tensor(4), lambda: tensor(4, dtype="int8"), "expected dtype float32, found int8"),
    "anything": (lambda: tensor(4), lambda: 3, "expected a tensor, found"),
    "shape values": (lambda: relax.ShapeTuple([2, 3]), lambda: relax.ShapeTuple([2, 4]), "dimension 1 is 4"),
    "shape rank": (lambda: relax.ShapeTuple([2, 3]), lambda: relax.ShapeTuple([]), "found 0"),
    "number": (lambda: 3, lambda: 4, "the value is 4, expected 3"),
    "field": (lambda: (tensor(4), tensor(4)), lambda: (tensor(1), tensor(4)), "dimension 0 is 1, expected 4"),
}


@pytest.mark.parametrize("place", ["global call", "local call", "output of a dataflow block", "return"])
@pytest.mark.parametrize("kind", RUNS)
def test_the_check_is_made_at_run_time(kind, place):
    good, bad, message = RUNS[kind]
    mod, _ = warned(program(kind, place))
    main = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    main(good())
    with pytest.raises((TypeError, ValueError), match=message):
        main(bad())


FUNCTIONS = """
@I.ir_module
class M:
    @R.function
    def takes(f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32"))) -> R.Tensor((4,), "float32"):
        x = R.zeros((4,), "float32")
        y = f(x)
        return y

    @R.function
    def main(n: R.Prim("bool")) -> R.Object:
        @R.function
        def f(a: R.Tensor((4,), "float32")) -> R.Tensor({}, "float32"):
            return R.concat((a, R.zeros({}, "float32")))
        t: R.Tuple(R.Object) = (f,)
        g = t[0]
        y = M.takes(g)
        return y
"""


def test_a_functions_own_struct_info_is_checked_at_run_time():
    mod, [found] = warned(FUNCTIONS.format("(4,)", "(0,)"))
    assert "takes: argument 0 may not fit, it is checked at run time" in found
    relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"](True)
    mod, _ = warned(FUNCTIONS.format("(5,)", "(1,)"))
    with pytest.raises(TypeError, match=r"parameter f: the function .* does not fit: its result is"):
        relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"](True)


# -------------------------------------------------------------------------------- what is proved wrong


WRONG = {
    "dimension": ('R.Tensor((5,), "float32")', VECTOR, "dimension 0: expected 4, found 5"),
    "rank": ('R.Tensor(dtype="float32", ndim=2)', VECTOR, "rank: expected 1, found 2"),
    "dtype": ('R.Tensor((4,), "int8")', VECTOR, "dtype: expected float32, found int8"),
    "kind": ("R.Shape([4])", VECTOR, f"expected {VECTOR}, found R.Shape([4])"),
    "number": ('R.Prim("int64", value=2)', 'R.Prim("int64", value=3)', "value: expected 3, found 2"),
    "tuple length": (f"R.Tuple({VECTOR})", "R.Tuple()", "expected a tuple of 0, found a tuple of 1"),
    "field": ("R.Tuple(R.Shape(ndim=1))", "R.Tuple(R.Shape(ndim=2))", "field 0, rank: expected 2, found 1"),
    "purity": (
        f"R.Callable(({VECTOR},), R.Object, False)", f"R.Callable(({VECTOR},), R.Object)",
        "purity: expected a pure function, found an impure one",
    ),
    "parameter count": ("R.Callable((), R.Object)", f"R.Callable(({VECTOR},), R.Object)",
                        "expected 1 parameter, found 0"),
    "result": (F.format('R.Tensor((5,), "float32")'), F.format(VECTOR),
               "result, dimension 0: expected 4, found 5"),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", WRONG)
def test_what_is_proved_wrong_is_an_error_everywhere(kind, place):
    have, want, reason = WRONG[kind]
    text, code, _ = PLACES[place]
    with pytest.raises(DiagnosticError) as caught:
        parse(text.format(have=have, want=want))
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == code.replace("W", "E")
    assert diagnostic.message.endswith(reason)
    assert diagnostic.span is not None


# -------------------------------------------------------------------------------- conditions


CONDITION = """
@R.function
def main(c: {}, x: R.Tensor((4,), "float32")):
    {}
    if c:
        y = R.exp(x)
    else:
        y = x
    return y
"""


@pytest.mark.parametrize("have", ["R.Object", 'R.Tensor(dtype="bool")', 'R.Tensor((), "")'])
def test_a_condition_that_may_be_none_is_checked_when_it_is_asked(have):
    mod, [found] = warned(CONDITION.format(have, "pass"))
    assert "warning[W3010]" in found
    assert "<string>:5:8" in found
    hint = 'c = R.match_cast(c, R.Tensor((), "bool"))'
    assert f"to silence this, write {hint} before it" in found
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(CONDITION.format(have, hint))
    with PassContext(config={"relax.strict": True}), pytest.raises(DiagnosticError, match="E3010"):
        parse(CONDITION.format(have, "pass"))
    main = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    assert main(relax.nd.array(np.array(True)), tensor(4)).numpy().tolist() == [1, 1, 1, 1]
    assert main(relax.nd.array(np.array(False)), tensor(4)).numpy().tolist() == [0, 0, 0, 0]
    for wrong in (np.array([True]), np.array(1), np.array([], dtype=bool)):
        with pytest.raises((TypeError, ValueError), match="expected a bool scalar|expected rank|expected dtype"):
            main(relax.nd.array(wrong), tensor(4))
