"""The runtime without the compiler: as relax-runtime installs it, and with every other package out of reach."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import relax
from relax.script import ir as I
from relax.script import relax as R
from support import RUNTIME, packed_runtime

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = RUNTIME.parents[1]
PROJECT = tomllib.loads((RUNTIME / "pyproject.toml").read_text(encoding="utf-8"))
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

ALLOWED = {"numpy", "ml_dtypes", "tvm_ffi", "typing_extensions"}
"""What relax-runtime installs: its dependencies, and the one that tvm-ffi has."""

NOTHING_ELSE = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in {ALLOWED | {"relax"}!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
"""Makes an interpreter refuse to import any other package."""

USE = """
import sys
import numpy as np
from relax import runtime

vm = runtime.VirtualMachine(runtime.load_executable(sys.argv[1]), runtime.cpu())
print(vm["main"](np.zeros((2, 4), "float32")).numpy().tolist())

import relax
print(relax.VirtualMachine is runtime.VirtualMachine, hasattr(relax, "_repr_html_"), "build" in dir(relax))
for name in ("build", "transform"):
    try:
        getattr(relax, name)
    except ImportError as error:
        print(error)
try:
    from relax import BlockBuilder
except ImportError as error:
    print(error)
"""


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.matmul(x, w))
            R.output(y)
        return y


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.relax"
    relax.build(Model, "llvm", params={"w": np.ones((4, 2), "float32")}).save(path)
    return path


@pytest.fixture
def packed(tmp_path):
    return packed_runtime(tmp_path / "packed")


def says(python, program, *arguments, **environment):
    """The lines that a program prints in an interpreter of its own."""
    done = subprocess.run(
        [str(python), "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(lines):
    """The output of USE."""
    assert lines[:2] == ["[[0.5, 0.5], [0.5, 0.5]]", "True False False"]
    for name, line in zip(("build", "transform", "BlockBuilder"), lines[2:], strict=True):
        assert line == (
            f"relax.{name} belongs to the compiler, and only its runtime is installed here (relax-runtime). "
            "Compile on a machine with the package relax, or install it in place of the runtime: "
            "pip uninstall relax-runtime; pip install relax"
        )


def test_a_model_runs_where_nothing_else_can_be_imported(model, packed):
    check(says(sys.executable, NOTHING_ELSE + USE, model, PYTHONPATH=str(packed)))


@I.ir_module
class OfAnyRank:
    @R.function
    def main(x: R.Tensor):
        y = R.exp(x)
        return y


def test_kernels_that_are_chosen_at_run_time(tmp_path, packed):
    """Those compiled beforehand run, and others are an error that says how to get them."""
    path = tmp_path / "model.relax"
    with relax.transform.PassContext(config={"relax.LegalizeOps.combinations": [("float32", 1)]}):
        relax.build(OfAnyRank).save(path)
    program = """
import sys
import numpy as np
from relax import runtime

run = runtime.VirtualMachine(runtime.load_executable(sys.argv[1]))["main"]
print(run(np.zeros(2, "float32")).numpy().tolist())
try:
    run(np.zeros((2, 0), "float32"))
except RuntimeError as error:
    print(str(error).partition(";")[0])
"""
    assert says(sys.executable, NOTHING_ELSE + program, path, PYTHONPATH=str(packed)) == [
        "[1.0, 1.0]",
        'no kernel was compiled beforehand for operands R.Tensor("float32", ndim=2), and the compiler is not installed',
    ]


@pytest.mark.parametrize("name", ["llvmlite", "rich", "relax.ir", "relax.script"])
def test_other_packages_are_out_of_reach(name, packed):
    with pytest.raises(AssertionError, match=f"No module named '{re.escape(name)}'"):
        says(sys.executable, f"{NOTHING_ELSE}import {name}", PYTHONPATH=str(packed))


def test_the_runtime_needs_what_the_compiler_needs_at_most():
    needs = {str(Requirement(r)) for r in PROJECT["project"]["dependencies"]}
    assert {canonicalize_name(Requirement(r).name) for r in needs} == {"numpy", "ml-dtypes", "apache-tvm-ffi"}
    assert needs <= {str(Requirement(r)) for r in WHOLE["project"]["dependencies"]}
    assert PROJECT["project"]["requires-python"] == WHOLE["project"]["requires-python"]


def test_both_distributions_have_one_version():
    """The runtime reads its version from the package; the compiler declares it."""
    path = PROJECT["tool"]["hatch"]["version"]["path"]
    source = (RUNTIME / path).read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.*)"$', source, re.M) == [WHOLE["project"]["version"]]


@pytest.mark.slow
def test_an_environment_with_the_distribution_alone(model, tmp_path):
    """pip builds the wheel and installs it with what it says it needs; the model runs there."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheels = tmp_path / "wheels"
    source = str(RUNTIME)
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(wheels), source], check=True)
    [wheel] = wheels.glob("relax_runtime-*.whl")
    assert wheel.stat().st_size < 500_000

    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "-q", str(wheel)], check=True)
    listed = subprocess.run(
        [*pip, "--python", str(python), "list", "--format=freeze"], capture_output=True, text=True, check=True
    )
    installed = {canonicalize_name(line.partition("==")[0]) for line in listed.stdout.splitlines()}
    assert installed == {"relax-runtime", "numpy", "ml-dtypes", "apache-tvm-ffi", "typing-extensions"}
    check(says(python, USE, model, PYTHONPATH=""))
