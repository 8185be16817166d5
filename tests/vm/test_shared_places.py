"""Values that hold a tuple in very many places: they are matched by objects, with the messages of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import from_source
from support import MODES, PLAIN_LOOPS, plain_machine


def nested(innermost, levels=40):
    """Pairs of pairs: few objects, 2**levels places."""
    value = innermost
    for _ in range(levels):
        value = (value, value)
    return value


def matching(parts, levels=40):
    """A module whose main takes pairs of pairs of a tuple of `parts`, and a vector whose length they may mention."""
    n = relax.tir.SizeVar("n", "int64")
    info = relax.TupleStructInfo([part(n) for part in parts])
    for _ in range(levels):
        info = relax.TupleStructInfo([info, info])
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((n,), "float32"))
    value = relax.Var("value", info)
    with bb.function("main", [value, x]):
        bb.emit_func_output(x)
    return bb.finalize()


def tensor(*dims, dtype="float32"):
    return lambda n: relax.TensorStructInfo([dim(n) if callable(dim) else dim for dim in dims], dtype)


PARTS = [
    tensor(lambda n: n, 4),
    lambda n: relax.ShapeStructInfo([n, n * 2]),
    lambda n: relax.PrimStructInfo("float32"),
    lambda n: relax.TupleStructInfo([]),
    lambda n: relax.ObjectStructInfo(),
]


def fitting(n=3):
    return np.ones((n, 4), "float32"), relax.ShapeTuple((n, 2 * n)), 0.5, (), "anything"


def arguments():
    """What is right, and what is wrong in one place of many."""
    good = fitting()
    sound = nested(good, 38)
    yield nested(good), 3
    yield nested(fitting(0)), 0
    for position, wrong in [
        (0, np.ones((2, 4), "float32")),
        (0, np.ones((3, 5), "float32")),
        (0, np.ones((3, 4), "float64")),
        (0, np.ones((3,), "float32")),
        (0, 7),
        (1, relax.ShapeTuple((3, 7))),
        (1, relax.ShapeTuple((3,))),
        (2, "text"),
        (3, (1,)),
    ]:
        bad = (*good[:position], wrong, *good[position + 1 :])
        below = nested(bad, 37)
        yield ((sound, sound), (sound, (below, nested(good, 37)))), 3
        yield nested(bad), 3
    yield ((sound, sound), (sound, (nested(good, 36), nested(good, 37)))), 3
    yield ((sound, sound), (sound, good)), 3
    yield ((sound, sound), (sound, (sound, sound, sound))), 3


def outcome(call):
    try:
        return call().numpy().tolist()
    except (TypeError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("mode", MODES)
def test_arguments_are_matched_as_in_the_interpreter(mode):
    module = matching(PARTS)
    executable = relax.Executable.from_bytes(relax.build(module, PLAIN_LOOPS, exec_mode=mode).to_bytes())
    main = relax.VirtualMachine(executable, relax.cpu())["main"]
    found = []
    for value, n in arguments():
        x = np.arange(n, dtype="float32")
        expected = outcome(lambda value=value, x=x: relax.interpret(module, "main", value, x))
        assert outcome(lambda value=value, x=x: main(value, x)) == expected
        found.append(expected)
    assert found[:2] == [[0, 1, 2], []]
    assert not any(isinstance(each, list) for each in found[2:])


CLOSURE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        a0 = R.reshape(x, (n,))
{lines}
        @R.function
        def inner(y: R.Tensor(("m",), "float32")):
            m = T.int64()
            b0 = (a40, y)
{inner_lines}
            return b40
        return inner(x)
"""


@pytest.mark.parametrize("mode", MODES)
def test_what_a_closure_captures_and_gives(mode):
    """Both are matched where the closure is called, with the size that it captured."""
    lines = "\n".join(f"        a{i + 1} = (a{i}, a{i})" for i in range(40))
    module = from_source(
        CLOSURE.format(lines=lines, inner_lines=lines.replace("a", "b").replace("        ", "            "))
    )
    main = plain_machine(module, mode)["main"]
    value = main(np.arange(3, dtype="float32"))
    for _ in range(81):
        value = value[0]
    assert value.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_sizes_whose_computation_may_fail(mode):
    """The product of two sizes may overflow; it is computed once."""
    lines = "\n".join(f"            a{i + 1} = (a{i}, a{i})" for i in range(40))
    module = from_source(f"""from relax.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(ndim=1)):
        n = T.int64()
        m = T.int64()
        @R.function
        def inner(a0: R.Tensor((n * m,), "float32")):
{lines}
            return a40
        return inner(y)
""")
    main = plain_machine(module, mode)["main"]
    value = main(np.ones((2, 3), "float32"), np.arange(6, dtype="float32"))
    for _ in range(40):
        value = value[1]
    assert value.numpy().tolist() == list(range(6))
    with pytest.raises(ValueError, match=r"dimension 0 is 5, expected n \* m = 6"):
        main(np.ones((2, 3), "float32"), np.arange(5, dtype="float32"))
