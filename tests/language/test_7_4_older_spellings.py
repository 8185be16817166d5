"""Section 7.4: older spellings, which mean what newer ones do.

Whole programs of the older documents are in tests/seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from programs import floats, module, ones, packed

import relax
from relax.ir import structural_equal
from support import PLAIN_LOOPS


@packed("language.older.double")
def _double(source, target):
    target.copyfrom(source.numpy() * 2)


OLDER = {
    "R.Tensor[(n, m), dtype]": (
        """
        @R.function
        def main(x: R.Tensor[(n, m), "float32"]) -> R.Tensor[(n, m), "float32"]:
            y = R.add(x, x)
            return y
        """,
        """
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
            y = R.add(x, x)
            return y
        """,
        (ones(1, 2),),
        [[2, 2]],
    ),
    "R.Tensor[_, dtype]": (
        """
        @R.function
        def main(x: R.Tensor[_, "float32"]) -> R.Tensor[_, "float32"]:
            return x
        """,
        """
        @R.function
        def main(x: R.Tensor("float32")) -> R.Tensor("float32"):
            return x
        """,
        (ones(2),),
        [1, 1],
    ),
    "undeclared variables in a signature": (
        """
        @R.function
        def main(x: R.Tensor[(n, k), "float32"], w: R.Tensor[(k, m), "float32"]) -> R.Tensor[(n, m), "float32"]:
            y = R.matmul(x, w)
            return y
        """,
        """
        @R.function
        def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")) -> R.Tensor(
            ("n", "m"), "float32"
        ):
            y = R.matmul(x, w)
            return y
        """,
        (ones(1, 3), ones(3, 2)),
        [[3, 3]],
    ),
    "R.match_shape of a tensor": (
        """
        @R.function
        def main(x: R.Tensor[_, "float32"]) -> R.Shape:
            y = R.match_shape(x, (m, n))
            return R.shape([m + n])
        """,
        """
        @R.function
        def main(x: R.Tensor("float32")) -> R.Shape:
            m, n = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((m, n), "float32"))
            return R.shape([m + n])
        """,
        (ones(1, 4),),
        (5,),
    ),
    "R.match_shape of a shape": (
        """
        @R.function
        def main(s: R.Shape) -> R.Shape:
            R.match_shape(s, (m, n))
            return R.shape([m * n])
        """,
        """
        @R.function
        def main(s: R.Shape) -> R.Shape:
            m, n = T.int64(), T.int64()
            R.match_cast(s, R.Shape([m, n]))
            return R.shape([m * n])
        """,
        ((3, 4),),
        (12,),
    ),
    "R.outputs": (
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(a, a)
                R.outputs(b)
            return b
        """,
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(a, a)
                R.output(b)
            return b
        """,
        (floats(1),),
        [4],
    ),
    "call_tir with a shape and a dtype": (
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            y = R.call_dps_packed("language.older.double", (x,), (n,), dtype="float32")
            return y
        """,
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            y = R.call_dps_packed("language.older.double", (x,), R.Tensor((n,), "float32"))
            return y
        """,
        (floats(1, 2),),
        [2, 4],
    ),
    "@R.func": (
        "@R.func\ndef main(x: R.Object) -> R.Object:\n    return x\n",
        "@R.function\ndef main(x: R.Object) -> R.Object:\n    return x\n",
        (3,),
        3,
    ),
}


def plain(value):
    return value.numpy().tolist() if isinstance(value, relax.NDArray) else value


@pytest.mark.parametrize("older, newer, args, value", OLDER.values(), ids=OLDER)
def test_an_older_spelling_means_the_newer(run, older, newer, args, value):
    """An older spelling parses, runs, and means what the newer one does."""
    assert plain(run(older, "main", *args)) == value
    assert plain(run(newer, "main", *args)) == value


@pytest.mark.parametrize("name", [name for name in OLDER if "match_shape" not in name])
def test_an_older_spelling_makes_the_same_program(name):
    """An older spelling makes the same program as the newer one."""
    older, newer, _, _ = OLDER[name]
    assert structural_equal(module(older)["main"], module(newer)["main"], map_free_vars=True)


@pytest.mark.parametrize("name", OLDER)
def test_an_older_spelling_is_printed_in_the_newer(name):
    """What is printed is the newer spelling, which parses back."""
    mod = module(OLDER[name][0])
    text = mod.script()
    for old in ("R.Tensor[", "match_shape", "R.outputs", "R.func\n", "dtype=)"):
        assert old not in text
    relax.ir.assert_structural_equal(relax.script.from_source(text), mod)


CALL_TIR = """
@I.ir_module
class M:
    @T.prim_func
    def double(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] + A[i]

    @R.function
    def main(x: R.Tensor((n,), "float32")):
        y = R.call_tir(double, (x,), (n,), dtype="float32")
        return y
"""


@pytest.mark.parametrize("size", [0, 1, 3])
def test_the_older_call_tir(run, size):
    """call_tir(f, args, shape, dtype=…) is a call_tir with that tensor for an output."""
    assert run(CALL_TIR, "main", ones(size)).numpy().tolist() == [2] * size


def test_the_older_build():
    """relax.vm.build is relax.build."""
    mod = module(OLDER["@R.func"][0])
    vm = relax.VirtualMachine(relax.vm.build(mod, PLAIN_LOOPS), relax.cpu())
    assert vm["main"](np.array(3)).numpy() == 3
