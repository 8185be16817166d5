"""Python's own print, called in a script."""

from __future__ import annotations

import warnings

import pytest

from relax.ir import RelaxWarning
from relax.script import relax as R
from relax.script import tir as T


def test_print_in_a_relax_function_warns_and_names_the_operator(capsys):
    with pytest.warns(RelaxWarning) as caught:

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.exp(x)
            print("y is", y)
            return y

    (warning,) = caught
    text = str(warning.message)
    assert "warning[W1011]: print runs while the program is read, not when it runs" in text
    assert 'print("y is", y)' in text
    assert "help: R.print(x) prints when the program runs" in text
    assert capsys.readouterr().out == "y is y\n"


def test_print_in_a_prim_func_warns():
    with pytest.warns(RelaxWarning, match="T.call_packed calls a packed function, which may print"):

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            print(A[0])
            A[0] = T.float32(0)


def test_print_of_what_is_no_value_of_the_program_is_a_note_of_its_writer(capsys):
    width = 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            print("width", width)
            return x

    assert capsys.readouterr().out == "width 4\n"
