"""examples/cpp: programs in C++ call libraries exported from the examples. They are compiled where there is a compiler."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import cross_level
import digits
import digits_model
import relax
from cpp_programs import ROOT, compile_program, needs_compiler, run, run_commands

SOURCES = ROOT / "examples" / "cpp"

pytestmark = needs_compiler


@pytest.fixture
def compiled(tmp_path):
    """A function that compiles a program of examples/cpp and gives its path."""
    return lambda name: compile_program(SOURCES / f"{name}.cpp", tmp_path)


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
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((8, 784), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(relax.op.sin(x))
    relax.build(bb.get(), "llvm").export_library(tmp_path / "model.so")
    done = run_commands(ROOT / "docs" / "deploy-from-cpp.md", "## Call it", tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0\n")  # of inputs that are zeros


VALUES = """
#include <cassert>
#include <relax/library.h>
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
