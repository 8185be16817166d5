"""What editors and type checkers see: stubs, completion, `dir`. (tools/check_types.py runs pyright; make check does.)"""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T

ROOT = Path(__file__).parents[1]
HEAD = "import relax\nfrom relax.script import ir as I, relax as R, tir as T\n"


def test_stubs_are_as_they_would_be_written():
    command = [sys.executable, str(ROOT / "tools" / "make_stubs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stale_stub_is_found(monkeypatch, tmp_path):
    import make_stubs

    texts = {tmp_path / "a.pyi": "a\n", tmp_path / "b.pyi": "b\n", tmp_path / "c.pyi": "c\n"}
    monkeypatch.setattr(make_stubs, "stubs", lambda: texts)
    monkeypatch.setattr(make_stubs, "PACKAGE", tmp_path)
    (tmp_path / "a.pyi").write_text("a\n")
    (tmp_path / "b.pyi").write_text("older\n")
    (tmp_path / "op" / "_signatures").mkdir(parents=True)
    (tmp_path / "op" / "_signatures" / "gone.pyi").touch()
    assert [path.name for path in make_stubs.stale()] == ["b.pyi", "c.pyi", "gone.pyi"]


def test_a_member_that_no_stub_describes_is_an_error(monkeypatch):
    import make_stubs

    monkeypatch.setattr(T, "surprise", object(), raising=False)
    monkeypatch.setattr(T, "__dir__", lambda: ["surprise"])
    with pytest.raises(make_stubs.StubError, match=r"tir.pyi lacks the form surprise"):
        make_stubs.tir_stub()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is an extra of developers")
def test_a_type_checker_reports_the_mistakes_and_nothing_else():
    import check_types

    assert check_types.problems() == []


INSTALLED = """\
import relax
from relax import build, const, op
from relax.script import ir as I, relax as R

relax.build, relax.VirtualMachine, relax.transform.FuseOps, relax.frontend, build, const, op, I.ir_module, R.add
relax.biuld
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is an extra of developers")
def test_names_of_an_installed_package_are_public(tmp_path):
    """In the site-packages of a fresh environment, as a wheel puts them: there, only what `__all__` lists is exported."""
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    shutil.copytree(ROOT / "src" / "relax", packages / "relax", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "program.py").write_text(INSTALLED)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "basic"}')
    python = tmp_path / "venv" / "bin" / "python"
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python), "-p", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [(d["range"]["start"]["line"], d["message"]) for d in json.loads(done.stdout)["generalDiagnostics"]]
    errors = [(line, message) for line, message in found if "accessed" not in message and "Expression" not in message]
    assert errors == [(5, '"biuld" is not a known attribute of module "relax"')]


# --------------------------------------------------------------------------------------------- completion


@functools.cache
def project():
    jedi = pytest.importorskip("jedi")
    environment = jedi.InterpreterEnvironment()
    return jedi, jedi.Project(ROOT, sys_path=[str(ROOT / "src"), *sys.path]), environment


def script(text):
    jedi, where, environment = project()
    return jedi.Script(HEAD + text, project=where, environment=environment)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("relax.bui", {"build"}),
        ("relax.Virt", {"VirtualMachine"}),
        ("relax.transform.FuseO", {"FuseOps", "FuseOpsByPattern"}),
        ("relax.op.matm", {"matmul"}),
        ("relax.op.nn.soft", {"softmax", "softplus"}),
        ("relax.op.image.resize", {"resize", "resize2d"}),
        ("relax.op.add(1, 2).struct_i", {"struct_info", "struct_info_"}),
        ("R.matm", {"matmul"}),
        ("R.Tens", {"Tensor"}),
        ("R.nn.soft", {"softmax", "softplus"}),
        ("R.memory.al", {"alloc_storage", "alloc_tensor"}),
        ("R.dataf", {"dataflow"}),
        ("T.match_", {"match_buffer"}),
        ("T.axis.sp", {"spatial"}),
        ("T.float3", {"float32"}),
        ("T.match_buffer(None, (4,)).vlo", {"vload"}),
        ("I.ir_", {"ir_module"}),
    ],
)
def test_completion(text, expected):
    completed = {name.name for name in script(text).complete()}
    assert expected <= completed
    assert len(completed) <= len(expected) + 6


def test_a_call_shows_its_parameters_and_what_it_does():
    (signature,) = script("R.nn.softmax(").get_signatures()
    assert signature.to_string() == "softmax(data: TensorLike, axis: int=-1) -> Call"
    assert "one axis" in signature.docstring(raw=True)
    (signature,) = script("T.serial(").get_signatures()
    assert [parameter.name for parameter in signature.params] == ["start", "stop", "annotations", "step"]


# ---------------------------------------------------------------------------------------------------- dir


@pytest.mark.parametrize(
    "namespace, some",
    [
        (relax, {"build", "op", "VirtualMachine", "frontend"}),
        (relax.op, {"add", "nn", "call_tir"}),
        (relax.op.nn, {"softmax"}),
        (relax.op.grad, {"no_grad"}),
        (R, {"add", "nn", "Tensor", "function"}),
        (T, {"exp", "block", "int64"}),
        (I, {"ir_module"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_dir_lists_what_is_public(namespace, some):
    names = set(dir(namespace))
    assert some <= names
    assert not names & {"annotations", "Any", "TYPE_CHECKING", "importlib", "binary", "operator_member"}
    assert [name for name in names if name.startswith("_")] in ([], ["__version__"])
    assert all(hasattr(namespace, name) for name in names)
