"""Decorated programs where Python keeps no text: the command line, standard input, the prompt."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relax.ir.python_source import _texts_at_start

PROGRAM = """
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

print(M["main"].body.blocks[0].bindings[0].value, twice.params)
"""
EXPECTED = "R.add(x, x) (x,)"
README = Path(__file__).parents[2] / "README.md"
OWN_PROGRAM = README.read_text(encoding="utf-8").partition("\n## A program of your own\n")[2]
EXAMPLE = OWN_PROGRAM.partition("```python\n")[2].partition("```")[0]
SAID = "\nprint('all', 'right')\n"
WRONG = """
from relax.script import relax as R

@R.function
def main(x: R.Tensor((4,), "float32")):
    return R.matmull(x)
"""


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def python(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, env=BUFFERED, **options
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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the buffer of standard input is looked up in glibc")
def test_a_short_program_in_a_pipe():
    done = python("-", input=PROGRAM)
    assert EXPECTED in done.stdout, done.stderr
    for end in ("", "\n", "# the end", "# lines\n" * 7):
        assert "  --> <stdin>:6:12\n" in python("-", input=WRONG + end).stderr


def test_what_stood_in_a_buffer_before_is_no_text():
    blocks = {
        b"": [""],
        b"a\n": ["a\n"],
        b"a\nb\n\0\0": ["a\nb\n", "a\n"],
        b"a\nb\xc3": ["a\nb", "a\n"],
        b"a\n\x7fELF\n": ["a\n"],
        b"\n" * 99: ["\n" * i for i in range(99, 91, -1)],
    }
    for block, texts in blocks.items():
        assert list(_texts_at_start(block)) == texts


def test_a_long_pipe_is_read_once():
    done = python("-", input="# a long program\n" * 1000 + PROGRAM)
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


NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
import sys
shell = InteractiveShell()
shell.colors = "nocolor"
result = shell.run_cell(open(sys.argv[1]).read())
"""


def start(how: str, folder: Path) -> str:
    """What the example of the README says when it is started in this way."""
    text = EXAMPLE + SAID
    file = folder / "test_example.py"
    file.write_text(text, encoding="utf-8")
    if how == "prompt":
        return typed(text.splitlines(), folder).replace(SAID.strip(), "")
    if how == "notebook":
        pytest.importorskip("IPython")
        return python("-c", NOTEBOOK, str(file)).stdout
    if how == "pytest":
        file.write_text(text + "def test_it():\n    assert vm\n", encoding="utf-8")
        return python("-m", "pytest", "-s", "-p", "no:cacheprovider", str(file), cwd=folder).stdout
    if how == "stdin":
        with file.open() as stdin:
            return python("-", stdin=stdin).stdout
    return python(*([str(file)] if how == "script" else ["-c", text])).stdout


@pytest.mark.parametrize("how", ["script", "-c", "stdin", "prompt", "notebook", "pytest"])
def test_the_example_of_the_readme(how, tmp_path):
    assert "all right" in start(how, tmp_path)


def test_an_error_in_a_notebook(tmp_path):
    pytest.importorskip("IPython")
    file = tmp_path / "cell.py"
    file.write_text(WRONG, encoding="utf-8")
    said = python("-c", NOTEBOOK, str(file)).stdout
    assert "error[E1003]: `R` has no member `matmull`" in said
    assert "|     return R.matmull(x)\n" in said
    assert "relax/script" not in said
    assert "interactiveshell.py" not in said


def test_at_the_prompt(tmp_path):
    screen = typed(PROGRAM.strip().splitlines(), tmp_path)
    assert f"\n{EXPECTED}\n" in screen, screen


def test_an_error_at_the_prompt(tmp_path):
    screen = typed([*WRONG.strip().splitlines(), ""], tmp_path)
    assert "  --> <stdin>:3:12\n" in screen, screen
    assert "dialect.py" not in screen
