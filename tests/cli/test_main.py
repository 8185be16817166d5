"""The command itself: its surface, exit status, errors, and what it costs to start."""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import relax
from relax.cli.arguments import named_dims, several_sizes
from relax.cli.execution import error_text, parser_of
from relax.cli.failures import ProgramError, running_program
from relax.cli.main import COMMANDS, main

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(relax.__file__).parents[1])}


def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, summary in COMMANDS.items():
        assert f"{name} " in out
        assert summary in out
    assert "exit status: 0 success" in out


def test_help_imports_nothing_that_takes_time():
    code = (
        "import sys; from relax.cli.main import main; main(['--help']); main(['--version']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    loaded = set(done.stderr.split())
    assert {"relax", "relax.cli", "relax.cli.main"} <= loaded
    assert {name for name in loaded if name.startswith("relax.")} == {"relax.cli", "relax.cli.main"}
    assert not {"numpy", "tvm_ffi", "rich", "llvmlite", "onnx"} & loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name, capsys):
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: relax {name} ")
    assert f"\nexamples:\n  relax {name} " in out


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_are_commands_that_parse(name):
    module = importlib.import_module(f"relax.cli.{name}")
    parser = parser_of(name, module)
    lines = [line.strip() for line in module.EXAMPLES.splitlines() if line.strip().startswith("relax ")]
    assert lines
    for line in lines:
        words = shlex.split(line.split("   ")[0].split(" > ")[0])
        assert words[:2] == ["relax", name]
        parser.parse_args(words[2:])


@pytest.mark.parametrize(
    "words, status, out, err",
    [
        (["--version"], 0, relax.__version__, ""),
        (["--explain", "E3102"], 0, "E3102: shapes that do not fit each other", ""),
        (["--explain", "E2012"], 0, "E2012: rule 12: a module has an entry point", ""),
        (["--explain", "E9"], 2, "", "'E9' is no diagnostic code"),
        (["explain", "e3102"], 0, "E3102: shapes that do not fit each other", ""),
        (["explain", "E3120"], 2, "", "'E3120' is no diagnostic code; there are E31"),
        ([], 2, "", "a command is missing"),
        ([], 2, "", "usage: relax [--help]"),
        (["cmpile"], 2, "", "there is no command 'cmpile'; did you mean 'compile'?"),
        (["--frobnicate"], 2, "", "unrecognized arguments: --frobnicate"),
        (["run"], 2, "", "the following arguments are required: model"),
        (["run", "m.py", "--size", "n"], 2, "", "'n' is not of the form NAME=N, such as n=4"),
        (["run", "m.py", "--size", "n=1,=2"], 2, "", "'n=1,=2' is not of the form NAME=N, such as n=4"),
        (["run", "m.py", "--size", "1,n=2"], 2, "", "'1,n=2' is not of the form NAME=N, such as n=4"),
        (["run", "m.py", "--size", "m=3,n=1,2"], 2, "", "'n=1,2' gives 2 sizes, expected one"),
        (["run", "m.py", "--size", "n=1,2"], 2, "", "'n=1,2' gives 2 sizes, expected one"),
        (["run", "m.py", "--shape", "x=-1"], 2, "", "'x=-1' is not of the form NAME=DIMS"),
        (["run", "m.py", "--jobs", "0"], 2, "", "0 is too few"),
        (["bench", "m.py", "--runs", "x"], 2, "", "'x' is not an integer from 0 on"),
        (["run", "m.py"], 1, "", "error[E7001]: cannot read m.py: no such file or directory"),
        (["profile", "m.py", "--by", "name"], 2, "", "invalid choice: 'name'"),
    ],
)
def test_status_and_messages(command, words, status, out, err):
    said = command(*words)
    assert said.status == status
    assert out in said.out
    assert err in said.err
    assert bool(said.err) == (status != 0)


@pytest.mark.parametrize(
    "text, sizes",
    [
        ("n=4", [("n", (4,))]),
        ("n=1,16", [("n", (1, 16))]),
        ("n=4,m=8", [("n", (4,)), ("m", (8,))]),
        ("n=1,16,m=8", [("n", (1, 16)), ("m", (8,))]),
    ],
)
def test_sizes_of_several_dimensions_in_one_word(text, sizes):
    assert several_sizes(text) == sizes


@pytest.mark.parametrize(
    "text, dims",
    [
        ("x=1,n", [("x", (1, "n"))]),
        ("x=(1, n)", [("x", (1, "n"))]),
        ("x=1,n,w=4", [("x", (1, "n")), ("w", (4,))]),
        ("x=[1,n],w=[4]", [("x", (1, "n")), ("w", (4,))]),
        ("x=", [("x", ())]),
    ],
)
def test_shapes_of_several_inputs_in_one_word(text, dims):
    assert named_dims(text) == dims


def test_as_a_module_and_in_a_pipe(folder):
    """In a process of its own: nothing but the result on stdout, and nothing on stderr."""
    command = [sys.executable, "-m", "relax", "run", "model.py", "--size", "n=2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stderr == ""
    assert done.stdout.startswith("name ")
    assert "\x1b" not in done.stdout


def test_a_reader_that_has_seen_enough(folder):
    command = f"{sys.executable} -m relax show model.py | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT)
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


def test_an_error_of_the_running_program(command, folder):
    (folder / "model.py").write_text(
        """
from relax.script import ir as I, relax as R

@I.ir_module
class Model:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        _ = R.assert_op(c, format="the flag is off")
        y: R.Tensor((3,), "float32") = R.match_cast(x, R.Tensor((3,), "float32"))
        return y
""",
        encoding="utf-8",
    )
    said = command("run", "model.py", "--size", "n=2", "--seed", "1")
    assert said.status == 1
    first, *places = said.err.splitlines()
    assert first.startswith("error: ")
    assert all(place.startswith("  = ") for place in places)
    assert any("in Relax function main (model.py:" in place for place in places)


def test_errors_as_text():
    with pytest.raises(ProgramError) as caught, running_program():
        raise IndexError("main: index 7 is out of bounds\n  in Relax function main")
    assert error_text(caught.value) == "error: main: index 7 is out of bounds\n  = in Relax function main"
    assert error_text(FileNotFoundError(2, "No such file", "a.npz")) == "error: a.npz: no such file"
    assert error_text(MemoryError()) == "error: not enough memory"
    text = error_text(KeyError("lv"))
    assert text.startswith("error: internal error: KeyError: 'lv'\n")
    assert "RELAX_TRACEBACK=1" in text


def test_a_mistake_of_relax_is_said_to_be_one(folder, capsys, monkeypatch):
    def broken(*_):
        raise KeyError("lv")

    monkeypatch.setattr("relax.cli.show.read_program", broken)
    assert main(["show", "model.py"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: internal error: KeyError: 'lv'\n")
    assert "Traceback" not in err
    monkeypatch.setenv("RELAX_TRACEBACK", "1")
    assert main(["show", "model.py"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interruption(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("relax.cli.show.read_program", interrupted)
    assert main(["show", "model.py"]) == 130


def test_warnings_are_diagnostics(command, folder):
    (folder / "model.py").write_text(
        """
from relax.script import ir as I, relax as R

@I.ir_module
class Model:
    @R.function(private=True)
    def scale(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.multiply(x, R.const(2, "float32"))

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        y = Model.scale(x)
        return y
""",
        encoding="utf-8",
    )
    said = command("run", "model.py", "--size", "n=4")
    assert said.status == 0
    assert said.err.startswith("warning[W3001]: scale: argument 0 may not fit")
    assert "RelaxWarning" not in said.err
    checked = command("check", "model.py")
    assert checked.status == 0
    assert "model.py: 1 warning\n" in checked.out
    assert command("check", "--strict", "model.py").status == 1
