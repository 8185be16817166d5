"""Programs in C++ that tests compile with the system's compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tvm_ffi import libinfo

import relax

ROOT = Path(__file__).parents[1]
COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: c++, g++, clang++")


def compile_program(source, folder, *flags):
    """Compile a program with the headers of relax and tvm-ffi into a folder; return its path."""
    library = libinfo.find_libtvm_ffi()
    program = folder / Path(source).stem
    headers = [relax.runtime.include_path(), libinfo.find_include_path(), libinfo.find_dlpack_include_path()]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", *(f"-I{path}" for path in headers), *flags]
    path = f"-Wl,-rpath,{Path(library).parent}"
    subprocess.run([COMPILER, *flags, str(source), library, path, "-ldl", "-o", str(program)], check=True)
    return str(program)


def run_commands(page, heading, folder):
    """Write the program of a page's section to program.cpp, and run the commands that the section shows."""
    text = page.read_text(encoding="utf-8").split(heading, 1)[1]
    source, commands = (
        re.search(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1] for kind in ("cpp", "sh")
    )
    (folder / "program.cpp").write_text(source, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # of tvm-ffi-config
    shell = ["sh", "-ec", commands]
    return subprocess.run(shell, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)


def run(*command, text="", env=None):
    """Run a program on an input text."""
    return subprocess.run(
        command, input=text, capture_output=True, encoding="utf-8", errors="replace", timeout=300, env=env
    )
