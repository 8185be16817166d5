"""examples/rust: a program in Rust calls a library exported from an example. It is compiled where there is rustc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tvm_ffi import libinfo

import digits
import digits_model
import relax
from relax.script import ir as I
from relax.script import relax as R

SOURCE = Path(__file__).parents[2] / "examples" / "rust" / "digits.rs"
COMPILER = shutil.which("rustc")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no rustc")


@I.ir_module
class Refuses:
    """A function that takes three images."""

    @R.function
    def main(x: R.Tensor((3, 1, 8, 8), "float32")):
        return x


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_digits_model(tmp_path):
    folder, program = str(Path(libinfo.find_libtvm_ffi()).parent), str(tmp_path / "digits")
    links = ["-L", f"native={folder}", "-l", "dylib=tvm_ffi", "-C", f"link-arg=-Wl,-rpath,{folder}"]
    compiled = run(COMPILER, "--edition", "2021", "-D", "warnings", str(SOURCE), *links, "-o", program)
    assert compiled.returncode == 0, compiled.stderr

    params = digits_model.load_weights()
    library, file = tmp_path / "digits.so", tmp_path / "images.bin"
    relax.build(digits.Digits, "llvm", params=params, exec_mode="compiled").export_library(library)
    images, _ = digits_model.load_images(held_out=True)
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
    refuses = tmp_path / "refuses.so"
    relax.build(Refuses, "llvm").export_library(refuses)
    refused = run(program, str(refuses), str(file))
    assert refused.returncode == 1
    assert refused.stderr == "ValueError: main: parameter x: dimension 0 is 50, expected 3\n"
