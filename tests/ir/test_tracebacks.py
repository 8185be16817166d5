"""Uncaught errors of a user's program show the user's frames, not this package's."""

from __future__ import annotations

import subprocess
import sys

import pytest

import relax
from relax import DiagnosticError
from relax.ir.tracebacks import install
from relax.script import from_source

PROGRAM = """
from relax.script import from_source

def mine():
    from_source("@R.function\\ndef f(x: R.Object):\\n    return y")

mine()
"""


def test_in_a_terminal():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, env={})
    assert "line 5, in mine" in done.stderr
    assert "error[E1002]" in done.stderr
    assert "relax/script" not in done.stderr


def uncaught(capsys, program: str) -> str:
    """What Python prints of an error that ends a program."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the program raises
        exec(program, {"relax": relax})
    sys.excepthook(caught.type, caught.value, caught.tb)
    return capsys.readouterr().err


def test_all_frames_if_asked_for(capsys, monkeypatch):
    assert "relax/script" not in uncaught(capsys, PROGRAM)
    monkeypatch.setenv("RELAX_FULL_TRACEBACK", "1")
    assert "relax/script" in uncaught(capsys, PROGRAM)


def test_other_errors_keep_their_frames(capsys):
    assert 'relax/__init__.py"' in uncaught(capsys, "relax.no_such_name")


def test_a_hook_set_before_is_called_for_other_errors(capsys, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", lambda *error: print("mine", file=sys.stderr))
    install(DiagnosticError)
    assert uncaught(capsys, "1 // 0") == "mine\n"
    assert uncaught(capsys, PROGRAM).startswith("Traceback")


@pytest.mark.parametrize("everything", ["", "1"])
def test_in_a_notebook(monkeypatch, everything):
    monkeypatch.setenv("RELAX_FULL_TRACEBACK", everything)
    with pytest.raises(DiagnosticError) as caught:
        from_source("@R.function\ndef f(x: R.Object):\n    return y")
    text = "\n".join(caught.value._render_traceback_())
    assert "error[E1002]" in text
    assert ("relax/script" in text) is bool(everything)
