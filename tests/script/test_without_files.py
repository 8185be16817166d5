"""Decorated programs where Python keeps no text: the command line, standard input, the prompt."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import relax
from relax.script import ir as I, relax as R

@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y

@R.function
def twice(x: R.Tensor((4,), "float32")):
    return R.add(x, x)

print(relax.interpret(M, "main", np.ones((1, 4), "float32")).numpy(), twice.params)
"""
EXPECTED = "[[2. 2. 2. 2.]] (x,)"
WRONG = """
from relax.script import relax as R

@R.function
def main(x: R.Tensor((4,), "float32")):
    return R.matmull(x)
"""


def python(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, **options
    )


def test_on_the_command_line():
    for arguments in (["-c", PROGRAM], ["-Bc", PROGRAM], ["-B", "-c" + PROGRAM]):
        done = python(*arguments)
        assert EXPECTED in done.stdout, done.stderr


def test_a_file_as_standard_input(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    for arguments in ([], ["-"]):
        with file.open() as stdin:
            assert EXPECTED in python(*arguments, stdin=stdin).stdout


def test_errors_point_into_the_text():
    assert (
        """error[E1003]: `R` has no member `matmull`
  --> <string>:6:12
  |
6 |     return R.matmull(x)
  |            ^^^^^^^^^
"""
        in python("-c", WRONG).stderr
    )


def test_code_that_only_shares_the_name_of_the_file():
    inner = PROGRAM.replace("R.add(x, x)\n            R", "R.exp(x)\n            R")
    done = python("-c", f"exec({inner!r})\n{PROGRAM}")
    assert "the source of class `M` cannot be found" in done.stderr


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python keeps the text itself")
def test_a_pipe_is_read_once():
    done = python("-", input=PROGRAM)
    assert "the source of class `M` cannot be found" in done.stderr
    assert "Python does not keep what it reads from a pipe" in done.stderr


def typed(lines: list[str], home: Path) -> str:
    """The screen after lines are typed at Python's prompt."""
    pty = pytest.importorskip("pty")
    pytest.importorskip("readline")
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "TERM": "dumb", "HOME": str(home), "PYTHON_BASIC_REPL": "1"}
        os.execve(sys.executable, [sys.executable, "-i", "-q"], environment)
    for line in [*lines, "exit()"]:
        os.write(terminal, f"{line}\n".encode())
    screen, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says so when the child has ended
            break
        if not part:
            break
        screen += part
    os.waitpid(child, 0)
    return screen.decode().replace("\r\n", "\n")


def test_at_the_prompt(tmp_path):
    screen = typed(PROGRAM.strip().splitlines(), tmp_path)
    assert f"\n{EXPECTED}\n" in screen, screen


def test_an_error_at_the_prompt(tmp_path):
    screen = typed([*WRONG.strip().splitlines(), ""], tmp_path)
    assert "  --> <stdin>:3:12\n" in screen, screen
    assert "dialect.py" not in screen
