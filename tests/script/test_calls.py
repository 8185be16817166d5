"""What a call gives is known while the program is read: to literals beside it, and to sizes of -1."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import from_source
from relax.script import relax as R
from support import module

HALVES = """
    @R.function(private=True)
    def half(x: R.Tensor(("n", "m"), "int64")) -> R.Tensor(("n", "m // 2"), "int64"):
        n, m = T.int64(), T.int64()
        return R.strided_slice(x, [1], [0], [m // 2])
"""


@pytest.mark.parametrize("first", [True, False])
def test_a_function_of_the_module_is_known_wherever_it_stands(first):
    main = """
        @R.function
        def main(x: R.Tensor(("k", 6), "int64")) -> R.Tensor(("3 * k",), "int64"):
            k = T.int64()
            return R.reshape(cls.half(x), (-1,)) * 2
        """
    mod = module(main, HALVES) if first else module(HALVES, main)
    given = np.arange(12).reshape(2, 6)
    np.testing.assert_array_equal(relax.interpret(mod, "main", given).numpy(), given[:, :3].ravel() * 2)


def test_a_recursive_function_has_sizes_of_its_own():
    """In its own body, n is one size; in a call of it, what the argument says."""
    mod = module(
        """
            @R.function
            def rest(x: R.Tensor(("n",), "int64")) -> R.Tensor(("n",), "int64"):
                n = T.int64()
                if R.prim_value(n <= 1):
                    r = x
                else:
                    half = cls.rest(R.strided_slice(x, [0], [0], [n // 2]))
                    flat = R.reshape(half, (-1,))
                    r = R.concat([flat, R.zeros((n - n // 2,), "int64")], axis=0)
                return r
            """
    )
    assert "R.reshape(half, R.shape([n // 2]))" in mod.script()
    result = relax.interpret(mod, "rest", np.arange(1, 5)).numpy()
    np.testing.assert_array_equal(result, [1, 0, 0, 0])


@pytest.mark.parametrize("returns", ["", ' -> R.Tensor((n, "k + 1"), "float16")'])
def test_a_local_function_is_known_by_what_it_declares_or_does(returns):
    mod = module(
        f"""
            @R.function
            def main(x: R.Tensor(("n", 4), "float16")) -> R.Tensor(("n * 5",), "float16"):
                n = T.int64()
                @R.function
                def wider(y: R.Tensor((n, "k"), "float16")){returns}:
                    k = T.int64()
                    one = R.zeros((n, 1), "float16")
                    both = R.concat([y, one], axis=1)
                    return both
                return R.reshape(wider(x), (-1,)) + 1
            """
    )
    given = np.ones((2, 4), "float16")
    expected = np.array([2, 2, 2, 2, 1] * 2, "float16")
    np.testing.assert_array_equal(relax.interpret(mod, "main", given).numpy(), expected)


def test_what_a_local_function_binds_is_not_known_outside():
    """m is the function's own, so nothing is known of the size."""
    with pytest.raises(DiagnosticError, match="the -1 in shape needs the shape of x, which is not known"):
        module(
            """
                @R.function
                def main(x: R.Tensor(("n",), "int64")):
                    @R.function
                    def nonzeros(y: R.Tensor(ndim=1, dtype="int64")):
                        m = T.int64()
                        found = R.match_cast(R.nonzero(y), R.Tensor((1, m), "int64"))
                        return found
                    return R.reshape(nonzeros(x), (-1,))
                """
        )


def test_a_parameter_that_is_a_function_is_known_by_its_annotation():
    mod = module(
        """
            @R.function
            def main(f: R.Callable((R.Tensor(("k",), "uint8"),), R.Tensor(("k",), "uint8")), x: R.Tensor((3,), "uint8")):
                return R.reshape(f(x), (1, -1)) + 1
            """
    )
    assert "R.shape([1, 3])" in mod.script()
    assert 'R.const(1, "uint8")' in mod.script()


def test_a_function_of_the_surrounding_program_is_known():
    @R.function
    def doubled(x: R.Tensor(("n",), "int8")) -> R.Tensor(("n",), "int8"):
        return R.add(x, x)

    mod = from_source(
        """
        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor((4,), "int8")):
                return R.reshape(doubled(x), (2, -1)) * 3
        """,
        {"doubled": doubled},
    )
    assert "R.shape([2, 2])" in mod.script()


def test_errors_in_what_is_declared_are_told_once():
    with pytest.raises(DiagnosticError) as caught:
        module(
            """
                @R.function
                def main(x: R.Tensor((4,), "int8")):
                    return cls.f(x)

                @R.function
                def f(x: R.Tensor((4,), "int9")) -> R.Tensor((q,), "int8"):
                    return x
                """
        )
    assert [d.message for d in caught.value.diagnostics] == ["unknown dtype 'int9'", "`q` is not defined"]


def test_arguments_that_do_not_fit_are_told_of_as_everywhere():
    with pytest.raises(DiagnosticError, match="half: argument 0"):
        module(
            HALVES,
            """
                @R.function
                def main(x: R.Tensor((4,), "int64")):
                    return cls.half(x)
                """,
        )
