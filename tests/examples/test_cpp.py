"""examples/cpp: programs in C++ call libraries exported from the examples. They are compiled where there is a compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tvm_ffi import libinfo

import cross_level
import digits
import digits_model
import relax

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "examples" / "cpp"
COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: c++, g++, clang++")


@pytest.fixture
def compiled(tmp_path):
    """A function that compiles a program of examples/cpp and gives its path."""

    def compile_program(name):
        tvm_ffi_library = libinfo.find_libtvm_ffi()
        program = tmp_path / Path(name).name
        includes = [f"-I{SOURCES}", f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
        path = f"-Wl,-rpath,{Path(tvm_ffi_library).parent}"
        flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", *includes]
        command = [COMPILER, *flags, str(SOURCES / f"{name}.cpp"), tvm_ffi_library, path, "-ldl", "-o", str(program)]
        subprocess.run(command, check=True)
        return str(program)

    return compile_program


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_cross_level_program(tmp_path, compiled):
    library = tmp_path / "cross_level.so"
    relax.build(cross_level.CrossLevel, "llvm", exec_mode="compiled").export_library(library)
    done = run(compiled("cross_level"), str(library))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "before the packed functions are there: ValueError: the library calls the packed function"
    )
    assert [line.split(":")[0] for line in lines if "difference" in line] == [
        ", ".join(map(str, sizes)) for sizes in cross_level.SIZES
    ]
    message = "main: parameter y: dimension 0 is 4, expected n = 3 (n was bound by x, dimension 1)"
    assert lines[-1] == f"ValueError: {message}"


def test_the_digits_model(tmp_path, compiled):
    params = digits_model.load_weights()
    library, file = tmp_path / "digits.so", tmp_path / "images.bin"
    relax.build(digits.Digits, "llvm", params=params, exec_mode="compiled").export_library(library)
    images, _ = digits_model.load_images(held_out=True)
    program = compiled("digits")
    for count in (0, 1, 50):
        images[:count].astype("float32").tofile(file)
        done = run(program, str(library), str(file))
        assert (done.returncode, done.stderr) == (0, "")
        found = [line.split() for line in done.stdout.splitlines()]
        expected = digits_model.forward(images[:count], params)
        assert [int(digit) for digit, _ in found] == expected.argmax(-1).tolist()
        np.testing.assert_allclose([float(p) for _, p in found], expected.max(-1, initial=0), atol=1e-3)
    missing = run(program, str(tmp_path / "no.so"), str(file))
    assert missing.returncode == 1
    assert missing.stderr.startswith("OSError: ")


@pytest.mark.skipif(shutil.which("c++") is None, reason="the page calls c++")
def test_the_page(tmp_path):
    """docs/deploy-from-cpp.md: its program, built and run by the commands that it shows."""
    page = (ROOT / "docs" / "deploy-from-cpp.md").read_text(encoding="utf-8")
    [source] = re.findall(r"^```cpp\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    [commands] = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert commands.splitlines()[-1] == "./program"
    include, body = source.split("\n", 1)
    main = f"int main() {{ {body} return first == 0 ? 0 : 1; }}\n"  # of inputs that are zeros
    (tmp_path / "program.cpp").write_text(f"{include}\n{main}", encoding="utf-8")
    shutil.copy(SOURCES / "relax_library.h", tmp_path)

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((8, 784), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(relax.op.sin(x))
    relax.build(bb.get(), "llvm").export_library(tmp_path / "model.so")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # of tvm-ffi-config
    shell = ["sh", "-ec", commands]
    done = subprocess.run(shell, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


VALUES = """
#include <cassert>
#include "relax_library.h"
using relax_library::Value;
static_assert(!std::is_constructible<Value, int*>::value, "a pointer is no truth value");
int main() {
  assert(Value(3).integer() == 3 && Value(3u).integer() == 3 && Value(2.5f).real() == 2.5 && Value(true).truth());
  assert(Value("text").kind() != kTVMFFIBool && Value(std::string(100, 'a')).kind() == kTVMFFIStr);
  assert(Value::tuple({1, Value::shape({2, 3})}).fields()[1].sizes() == (std::vector<int64_t>{2, 3}));
  try {
    Value(~0ull);
    return 1;
  } catch (const relax_library::Error& error) {
    assert(error.kind() == "OverflowError");
  }
  auto echo = [](void*, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    *result = Value::tuple({Value::shared(args[0]), Value::shared(args[1]), count}).release();
    return 0;
  };
  auto fields = Value(relax_library::Function(echo)(std::string(100, 'b'), 7)).fields();
  assert(fields[0].kind() == kTVMFFIStr && fields[1].integer() == 7 && fields[2].integer() == 2);
}
"""


def test_values_of_the_header(tmp_path, compiled):
    source = tmp_path / "values.cpp"
    source.write_text(VALUES)
    done = run(compiled(tmp_path / "values"))
    assert (done.returncode, done.stderr) == (0, "")
