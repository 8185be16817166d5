"""Targets resolved: what LLVM and the system say of a machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import relax
from relax.codegen import resolve
from relax.farm import cache, host, llvm_queries

X86 = "llvm -mtriple=x86_64-unknown-linux-gnu"


def test_the_host():
    host = resolve("llvm")
    assert host.kind.name == "llvm"
    assert host.mcpu
    assert host.triple.endswith("-elf") or "linux" in host.triple
    assert host.num_cores >= 1
    assert host.vector_bits in (128, 256, 512)
    assert host.vector_lanes("float32") == host.vector_bits // 32
    assert host.vector_lanes("float8_e4m3fn") == host.vector_bits // 8
    assert host.keys == ("cpu",)
    assert resolve("llvm -mcpu=native").features == host.features
    assert host.machine.caches.l1 >= 8 * 1024
    assert host.machine.vector_registers in (16, 32)
    assert resolve(host) is host
    with host:
        assert resolve() is host


@pytest.mark.parametrize(
    "options, bits, fma, half",
    [
        ("", 128, False, False),
        ("-mcpu=haswell", 256, True, True),
        ("-mcpu=skylake-avx512", 512, True, True),
        ("-mcpu=skylake-avx512 -mattr=-avx512f", 256, True, True),
        ("-mcpu=haswell -mattr=-fma", 256, False, True),
        ("-mcpu=skylake-avx512 -vector-width=256", 256, True, True),
    ],
)
def test_what_an_x86_can_do(options, bits, fma, half):
    target = resolve(f"{X86} {options}")
    assert (target.vector_bits, target.has_fma, target.has_half_conversion) == (bits, fma, half)


def test_an_arm():
    target = resolve("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
    assert (target.vector_bits, target.has_fma, target.has_half_conversion) == (128, True, True)
    assert resolve("llvm -mtriple=arm64-apple-macosx14").triple == "arm64-apple-macosx14-elf"


@pytest.mark.parametrize(
    "options, dots, registers",
    [
        (f"{X86} -mcpu=haswell", set(), 16),
        (f"{X86} -mcpu=skylake-avx512", set(), 32),
        (f"{X86} -mcpu=cascadelake", {"u8s8"}, 32),
        (f"{X86} -mcpu=cooperlake", {"u8s8", "bf16"}, 32),
        ("llvm -mtriple=aarch64-linux-gnu", set(), 32),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", {"s8s8", "u8u8"}, 32),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n2", {"s8s8", "u8u8", "u8s8", "bf16"}, 32),
    ],
)
def test_dot_products_and_registers(options, dots, registers):
    machine = resolve(options).machine
    assert (machine.dot_products, machine.vector_registers) == (dots, registers)


def test_tiles_are_those_of_features_that_are_named():
    assert resolve(f"{X86} -mcpu=sapphirerapids").machine.tiles == frozenset()
    assert resolve(f"{X86} -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8").machine.tiles == {"int8"}
    assert resolve(f"{X86} -mcpu=arrowlake-s").machine.dot_products == {"u8s8"}  # converts bfloat16, no more


def test_options_describe_what_cannot_be_asked():
    machine = resolve(f"{X86} -l1-cache=49152 -l2-cache=2097152 -num-cores=3").machine
    assert (machine.caches.l1, machine.caches.l2, machine.caches.l3, machine.cores) == (49152, 2097152, 0, 3)


@pytest.mark.parametrize(
    "spelling, message",
    [
        ("llvm -mtriple=nothing", "target triple 'nothing'"),
        ("llvm -mtriple=i686-linux-gnu", "only 64-bit little-endian machines are supported"),
        ("llvm -mtriple=s390x-linux-gnu", "only 64-bit little-endian machines are supported"),
        (f"{X86} -mcpu=pentium9", "LLVM: 'pentium9' is not a recognized processor for this target"),
        (f"{X86} -mattr=+magic", "LLVM: '+magic' is not a recognized feature for this target"),
        (f"{X86} -mattr=-sse", "SSE register return with SSE disabled"),
        (f"{X86} -mattr=-sse2", "SSE2 register return with SSE2 disabled"),
        (f"{X86} -mcpu=znver4 -mattr=+soft-float", "LLVM cannot compile for znver4 +soft-float"),
        ("llvm -mtriple=powerpc64le-linux-gnu", "LLVM cannot compile for powerpc64le-linux-gnu"),
        ("llvm -vector-width=100", "target option -vector-width is '100', expected a power of two"),
        (f"{X86} -mcpu=help", "'help' is no processor or feature: LLVM's llc lists them"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=native", "is not a recognized"),
        (f"{X86} -mattr=avx2", "target feature 'avx2': write +name or -name"),
        (f"{X86} '-mcpu=a b'", "'a b' is not the name of a processor"),
    ],
)
def test_mistakes(spelling, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve(spelling)


BUILD = """
import json, sys
import numpy as np
import relax
from relax.farm.host import resolve
from relax.farm.versions import target_words
from relax.script import from_source

mod = from_source('''
@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    with R.dataflow():
        y = R.exp(x)
        R.output(y)
    return y
''')
result = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"](np.zeros(3, "float32")).numpy().tolist()
words = [target_words(resolve("llvm")), relax.farm.versions.compiler_version()]
print(json.dumps(["llvmlite.binding" in sys.modules, result, words]))
"""


def built(folder, **settings):
    """True if a process that builds a program loaded LLVM, the program's result, and what is known of the machine."""
    environment = {**os.environ, "RELAX_CACHE_DIR": str(folder), **settings}
    done = subprocess.run([sys.executable, "-c", BUILD], env=environment, check=True, capture_output=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not describe their processors in a file")
def test_a_program_that_was_built_before_needs_no_llvm(tmp_path):
    first, again = built(tmp_path / "cache"), built(tmp_path / "cache")
    assert first == [True, [1.0, 1.0, 1.0], again[2]]
    assert again[:2] == [False, [1.0, 1.0, 1.0]]
    assert built(tmp_path / "cache", RELAX_CACHE="0") == first


def test_the_machine_is_asked_of_llvm_once_for_each_triple_processor_and_features(monkeypatch, tmp_path):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    words = ("x86_64-unknown-linux-gnu", "skylake-avx512", "+avx512vnni")
    (tmp_path / "cache" / "kernels").mkdir(parents=True)  # where there is none, answers wait for the first kernel
    host.described.cache_clear()
    asked = host.described(*words)
    assert asked == host.probe(*words)
    assert "u8s8" in asked.dot_products

    monkeypatch.setattr(host, "probe", None)
    host.described.cache_clear()
    assert host.described(*words) == asked
    with pytest.raises(TypeError):
        host.described(*words[:2], "-avx512vnni")
    host.described.cache_clear()


def test_an_answer_waits_for_the_first_object(monkeypatch, tmp_path):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    key, other = llvm_queries.question("something"), llvm_queries.question("an object")
    llvm_queries.answer(key, [1])
    assert not (tmp_path / "cache").exists()
    assert llvm_queries.answered(key) is None
    cache.store(other, b"object")
    assert llvm_queries.answered(key) == [1]


def test_an_answer_of_another_form_is_asked_for_again(monkeypatch, tmp_path):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    key = llvm_queries.question("something")
    assert llvm_queries.answered(key) is None
    cache.note(key, b"no JSON")
    assert llvm_queries.answered(key) is None
    llvm_queries.answer(key, [1, "two"])
    assert llvm_queries.answered(key) == [1, "two"]
    assert llvm_queries.answered(None) is None


def test_a_foreign_processor_is_resolved_where_only_sys_path_leads_to_relax(tmp_path):
    """Another package `relax` stands first for processes that are told nothing."""
    (tmp_path / "relax").mkdir()
    (tmp_path / "relax" / "__init__.py").write_text("raise ImportError('this is another relax')")
    source = str(Path(relax.__file__).parents[1])
    foreign = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"
    code = (
        f"import sys; sys.path.insert(0, {source!r}); import relax.farm.host as m; print(m.resolve({foreign!r}).mcpu)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "RELAX_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.stdout, done.returncode) == ("neoverse-n1\n", 0), done.stderr
