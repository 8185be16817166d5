"""How complaints look, and how they are collected."""

from __future__ import annotations

import warnings

import pytest

from relax.ir import Diagnostic, DiagnosticContext, DiagnosticError, RelaxWarning, Source, Span, emit_warning

TEXT = "def main(x, w):\n    h = R.matmul(x, w)\n\treturn h\n"
SOURCE = Source("mlp.py", TEXT, first_line=13)
SPAN = Span(SOURCE, 14, 9, 14, 23)


def test_an_error_with_everything():
    diagnostic = Diagnostic(
        "E3102",
        "matmul: the reduced dimensions differ",
        SPAN,
        label="in main, inside a dataflow block",
        notes=('x: R.Tensor((n, 784), "float32")      last dimension 784', "w: ..."),
        hint="transpose w",
    )
    assert diagnostic.render() == (
        "error[E3102]: matmul: the reduced dimensions differ\n"
        "   --> mlp.py:14:9\n"
        "   |\n"
        "14 |     h = R.matmul(x, w)\n"
        "   |         ^^^^^^^^^^^^^^ in main, inside a dataflow block\n"
        '   = x: R.Tensor((n, 784), "float32")      last dimension 784\n'
        "   = w: ...\n"
        "   = help: transpose w"
    )
    assert str(diagnostic) == diagnostic.render()


def test_without_a_span():
    assert Diagnostic("E0001", "message").render() == "error[E0001]: message"
    assert (
        Diagnostic("W0001", "message", label="main", level="warning").render() == "warning[W0001]: message\n  --> main"
    )


@pytest.mark.parametrize(
    "text, columns, expected",
    [
        ("\tx = 1", (2, 3), "  | \t^"),  # a tab keeps its width
        ("日本 = 1", (6, 7), "  |        ^"),  # wide characters take two cells
        ("日本 = 1", (1, 3), "  | ^^^^"),
        ("x", (1, 1), "  | ^"),  # an empty span still points
        ("x = (", (5, 99), "  |     ^"),
        ("e\u0301 = 1", (6, 7), "  |     ^"),  # combining marks take none
    ],
)
def test_carets_stand_under_what_they_mean(text, columns, expected):
    span = Span(Source("<string>", text), 1, columns[0], 1, columns[1])
    assert Diagnostic("E0001", "m", span).render().splitlines()[4] == expected


def test_a_span_of_several_lines_underlines_the_first():
    span = Span(SOURCE, 13, 1, 15, 3)
    assert Diagnostic("E0001", "m", span).render().splitlines()[4] == "   | ^^^^^^^^^^^^^^^"


def test_a_line_that_is_not_there():
    span = Span(SOURCE, 99, 1, 99, 2)
    assert Diagnostic("E0001", "m", span, label="here").render() == ("error[E0001]: m\n   --> mlp.py:99:1\n   = here")


def test_spans():
    assert str(SPAN) == "mlp.py:14:9"
    assert SPAN.to(Span(SOURCE, 15, 2, 15, 8)) == Span(SOURCE, 14, 9, 15, 8)
    assert SOURCE.line(13) == "def main(x, w):"
    assert SOURCE.line(12) == SOURCE.line(99) == ""


def test_an_error_holds_all_its_diagnostics():
    error = DiagnosticError([Diagnostic("E0001", "one"), Diagnostic("E0002", "two", SPAN)])
    assert [d.code for d in error.diagnostics] == ["E0001", "E0002"]
    assert str(error).startswith("\nerror[E0001]: one\n\nerror[E0002]: two\n   --> mlp.py:14:9")
    assert DiagnosticError(Diagnostic("E0001", "one")).diagnostics[0].message == "one"


def test_collecting():
    context = DiagnosticContext()
    with context.collect():
        raise DiagnosticError(Diagnostic("E0001", "one"))
    with context.collect():
        pass
    context.emit(Diagnostic("E0002", "two"))
    context.emit(Diagnostic("W0001", "careful", level="warning"))
    assert [d.code for d in context.errors] == ["E0001", "E0002"]
    with pytest.warns(RelaxWarning, match="careful"), pytest.raises(DiagnosticError) as caught:
        context.finish()
    assert [d.code for d in caught.value.diagnostics] == ["E0001", "E0002"]
    context.finish()  # nothing is left


def test_other_errors_are_not_collected():
    context = DiagnosticContext()
    with pytest.raises(KeyError), context.collect():
        raise KeyError("x")


def test_warnings_alone_do_not_raise():
    context = DiagnosticContext()
    context.emit(Diagnostic("W0001", "careful", level="warning"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        context.finish()
    assert [w.category for w in caught] == [RelaxWarning]


def test_warnings_can_be_turned_into_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RelaxWarning)
        with pytest.raises(RelaxWarning, match=r"warning\[W0001\]: careful"):
            emit_warning(Diagnostic("W0001", "careful", level="warning"))


# ------------------------------------------------------------------------- lines of any length, characters of any kind


@pytest.mark.parametrize("start", [0, 1, 49, 50, 51, 5000, 9800, 9990, 9999])
@pytest.mark.parametrize("length", [1, 30, 9000])
def test_a_long_line_is_shown_around_its_mark(start, length):
    line = "".join(chr(97 + i % 26) for i in range(10_000))
    end = min(start + length, len(line))
    span = Span(Source("x.py", line), 1, start + 1, 1, end + 1)
    *_, shown, marked = Diagnostic("E1001", "wrong", span, label="here").render().splitlines()
    shown, marked = shown.removeprefix("1 | "), marked.removeprefix("  | ").removesuffix(" here")
    assert len(shown) <= 202
    first, last = marked.index("^"), len(marked)
    part = shown[first:last].removesuffix("…")
    assert part
    assert line[start:end].startswith(part)
    assert len(marked) <= len(shown) + 1


def test_a_short_line_is_shown_whole():
    line = "x" * 200
    assert f"1 | {line}\n" in Diagnostic("E1001", "wrong", Span(Source("x", line), 1, 3, 1, 5)).render()


def test_what_commands_a_terminal_is_not_repeated():
    line = "y = 1  # \x1b[2J \x07 \x00 \u202e \t \x7f"
    text = Diagnostic("E1001", "wrong", Span(Source("x", line), 1, 1, 1, 2)).render()
    assert "1 | y = 1  # �[2J � � � \t �\n" in text


def test_long_messages_notes_and_hints_are_cut():
    long = "x" * 10_000
    text = Diagnostic("E1001", f"wrong {long}\nshort", None, "", (long, "short"), long).render()
    assert max(map(len, text.splitlines())) < 2100
    assert "\nshort" in text
    assert " … " in text


def test_a_hint_for_python_and_one_for_a_shell():
    both = Diagnostic("E6005", "a size is open", hint='shape_dict={"x": [N]}', shell_hint="--shape x=N")
    one = Diagnostic("E3102", "the dimensions differ", hint="transpose w")
    error = DiagnosticError([both, one])
    in_a_shell = "error[E6005]: a size is open\n  = help: --shape x=N\n\n"
    assert error.render(shell=True) == in_a_shell + "error[E3102]: the dimensions differ\n  = help: transpose w"
    assert str(error).startswith('\nerror[E6005]: a size is open\n  = help: shape_dict={"x": [N]}\n')
    with pytest.warns(RelaxWarning) as caught:
        emit_warning(both)
    assert caught[0].message.diagnostic is both
