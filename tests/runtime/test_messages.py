"""The messages of matching: as errors of Python, as formats of printf, and in pieces for machine code that writes them."""

from __future__ import annotations

from relax.runtime.messages import IS, KIND, RANK, counted_arguments


def test_a_message_is_an_error_a_format_or_its_parts():
    error = RANK(context="main: parameter x", expected=2, found=1, shape=(3,))
    assert isinstance(error, ValueError)
    assert str(error) == "main: parameter x: expected rank 2, found rank 1 (shape (3,))"
    assert KIND.printf(context="argument A", expected="a tensor", found="%s") == (
        "TypeError",
        "argument A: expected a tensor, found %s",
    )
    assert list(IS.parts()) == [("", "context"), (": ", "place"), (" is ", "found"), (", expected ", "expected")]


def test_arguments_are_counted():
    assert counted_arguments(2) == "2 arguments"
    assert counted_arguments(1, ["x"]) == "1 argument (x)"
    assert counted_arguments(0, []) == "0 arguments ()"
