"""What passes between Python and tvm-ffi: errors of any text, objects that stay what they are, values that nest."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import relax
from relax.runtime import register_func
from relax.script import ir as I
from relax.script import relax as R
from support import PLAIN_LOOPS


class Silent(ValueError):
    """An error whose message cannot be made."""

    def __str__(self):
        raise LookupError("no text")


raised: list[BaseException] = []
given: list[object] = []


@register_func("test.carried.fail", override=True)
def fail(x):
    raise raised[-1]


@register_func("test.carried.give", override=True)
def give(x):
    return given[-1]


@I.ir_module
class Program:
    @R.function(pure=False)
    def fails(x: R.Object) -> R.Object:
        r = R.call_packed("test.carried.fail", x, sinfo_args=R.Object)
        return r

    @R.function(pure=False)
    def gives(x: R.Object) -> R.Object:
        r = R.call_packed("test.carried.give", x, sinfo_args=R.Object)
        return r

    @R.function
    def same(x: R.Object) -> R.Object:
        return x

    @R.function
    def tensor(x: R.Tensor(("n",), "float32")):
        return R.add(x, x)


@pytest.fixture(scope="module", params=["bytecode", "compiled", "interpreter"])
def call(request):
    if request.param == "interpreter":
        return lambda name, *args: relax.interpret(Program, name, *args)
    vm = relax.VirtualMachine(relax.build(Program, PLAIN_LOOPS, exec_mode=request.param), relax.cpu())
    return lambda name, *args: vm[name](*args)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("\ud800 é"), ValueError, r"\ud800 é"),
        (OSError("no file \udcff"), RuntimeError, r"no file \udcff"),
        (Silent(), RuntimeError, "Silent, whose message is not to be had: its __str__ raises LookupError"),
        (ValueError("a\0b\n"), ValueError, "a\0b\n"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
)
def test_errors_of_any_text_pass(call, error, kind, message):
    """tvm-ffi ends the process where it cannot write a message."""
    raised.append(error)
    with pytest.raises(kind) as info:
        call("fails", 1)
    assert message in str(info.value)
    assert call("same", 3) == 3


@pytest.mark.parametrize("code", [None, 0, 3, "3", "no more \udcff"])
def test_an_exit_ends_the_program_with_its_code(call, code):
    raised.append(SystemExit(code))
    with pytest.raises(SystemExit) as info:
        call("fails", 1)
    assert info.value.code == code
    assert call("same", 3) == 3


def test_names_of_files_are_no_obstacle(call):
    scope: dict[str, object] = {}
    exec(compile("def fails(x):\n    raise ValueError('here')", "a\udcff.py", "exec"), scope)
    with pytest.raises(ValueError, match="here"):
        call("same", scope["fails"])(1)


class Letter(str, enum.Enum):
    A = "a"


@pytest.mark.parametrize("value", [Silent, ValueError("x"), "\ud800", (Silent, ("\ud800", 1))])
def test_objects_stay_what_they_are(call, value):
    given.append(value)
    assert call("same", value) == value
    assert call("gives", value) == value
    if not isinstance(value, tuple):
        assert call("same", value) is value
    with pytest.raises(
        TypeError, match="tensor: parameter x: expected a tensor, found (an object of|the string|a tup)"
    ):
        call("tensor", value)


@pytest.mark.parametrize(("value", "plain"), [(enum.IntEnum("E", "P Q").Q, 2), (Letter.A, "a"), (np.str_("s"), "s")])
def test_numbers_and_texts_of_other_classes_are_plain(call, value, plain):
    result = call("same", value)
    assert type(result) is type(plain)
    assert result == plain


def nested(make, depth):
    value = make(1)
    for _ in range(depth):
        value = make(value)
    return value


ring: list[object] = []
ring.append(ring)
mapping: dict[str, object] = {}
mapping["a"] = mapping


@pytest.mark.parametrize(
    "value",
    [nested(lambda v: (v,), 50_000), nested(lambda v: {"a": v}, 50_000), ring, mapping, (1, mapping), {"a": [ring]}],
)
def test_values_that_nest_without_end_are_refused(call, value):
    message = "tuples or dictionaries are nested more than 16000 deep, or one holds itself"
    with pytest.raises(ValueError, match=f"^same: parameter x: {message}"):
        call("same", value)
    given.append(value)
    with pytest.raises(ValueError, match=f"the result of a packed function: {message}"):
        call("gives", 1)


def test_values_may_nest_deeply(call):
    result = call("same", nested(lambda v: (v,), 3000))
    depth = 0
    while isinstance(result, tuple):
        (result,), depth = result, depth + 1
    assert (result, depth) == (1, 3001)


class Owner:
    """An array that its owner does not give away, as torch does with one that needs a gradient."""

    def __dlpack__(self, **_):
        raise RuntimeError("not now")

    def __dlpack_device__(self):
        return (1, 0)


def test_errors_of_conversions_name_the_parameter(call):
    with pytest.raises(RuntimeError, match="^tensor: parameter x: not now$"):
        call("tensor", Owner())
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, "float32"), (1 << 42,), (0,))
    with pytest.raises(MemoryError, match="^tensor: parameter x: out of memory"):
        call("tensor", huge)
