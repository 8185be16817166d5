"""Uncaught errors of a user's program show the user's frames, not this package's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from relax import DiagnosticError
from relax.script import from_source

PROGRAM = """
from relax.script import from_source

def mine():
    from_source("@R.function\\ndef f(x: R.Object):\\n    return y")

mine()
"""


def stderr(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment
    )
    return done.stderr


def test_in_a_terminal():
    text = stderr(PROGRAM)
    assert "line 5, in mine" in text
    assert "error[E1002]" in text
    assert "relax/script" not in text


def test_all_frames_if_asked_for():
    assert "relax/script" in stderr(PROGRAM, RELAX_FULL_TRACEBACK="1")


def test_other_errors_keep_their_frames():
    assert 'relax/__init__.py"' in stderr("import relax\nrelax.no_such_name")


def test_a_hook_set_before_is_called_for_other_errors():
    program = "import sys\nsys.excepthook = lambda *error: print('mine', file=sys.stderr)\n"
    assert stderr(f"{program}import relax.ir\n1 // 0") == "mine\n"
    assert stderr(f"{program}{PROGRAM}").startswith("Traceback")


@pytest.mark.parametrize("everything", ["", "1"])
def test_in_a_notebook(monkeypatch, everything):
    monkeypatch.setenv("RELAX_FULL_TRACEBACK", everything)
    with pytest.raises(DiagnosticError) as caught:
        from_source("@R.function\ndef f(x: R.Object):\n    return y")
    text = "\n".join(caught.value._render_traceback_())
    assert "error[E1002]" in text
    assert ("relax/script" in text) is bool(everything)
