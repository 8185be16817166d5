"""Targets: as text, as dicts, as values; what they say of a machine."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

from relax.target import Target

X86 = "llvm -mtriple=x86_64-unknown-linux-gnu"


def test_the_host():
    host = Target("llvm")
    assert host.kind.name == "llvm"
    assert host.mcpu
    assert host.triple.endswith("-elf") or "linux" in host.triple
    assert host.num_cores >= 1
    assert host.vector_bits in (128, 256, 512)
    assert host.vector_lanes("float32") == host.vector_bits // 32
    assert host.vector_lanes("float8_e4m3fn") == host.vector_bits // 8
    assert host.keys == ("cpu",)
    assert Target("llvm -mcpu=native").features == host.features


@pytest.mark.parametrize(
    "spelling",
    [
        "llvm -mcpu=skylake-avx512 -num-cores=4",
        "llvm  -num-cores 4 --mcpu=skylake-avx512",
        {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 4},
        '{"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": "4"}',
        Target("llvm -mcpu=skylake-avx512 -num-cores=4"),
    ],
)
@pytest.mark.skipif("not __import__('relax').target.Target('llvm').triple.startswith('x86_64')")
def test_spellings(spelling):
    target = Target(spelling)
    assert str(target) == "llvm -mcpu=skylake-avx512 -num-cores=4"
    assert target == Target(str(target))
    assert hash(target) == hash(Target(str(target)))
    assert target.num_cores == 4
    assert target.attrs["mcpu"] == "skylake-avx512"


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
    target = Target(f"{X86} {options}")
    assert (target.vector_bits, target.has_fma, target.has_half_conversion) == (bits, fma, half)


def test_an_arm():
    target = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
    assert (target.vector_bits, target.has_fma, target.has_half_conversion) == (128, True, True)
    assert Target("llvm -mtriple=arm64-apple-macosx14").triple == "arm64-apple-macosx14-elf"


@pytest.mark.parametrize(
    "spelling, error, message",
    [
        ("cuda", ValueError, "unknown target kind 'cuda'; this compiler has: llvm"),
        ({}, ValueError, "unknown target kind None"),
        ("", ValueError, "a target cannot be empty; write for example 'llvm'"),
        ("llvm mcpu=x", ValueError, "expected an option such as -mcpu=…, found 'mcpu=x'"),
        ("llvm -mcpu=a -mcpu=b", ValueError, "option -mcpu is given twice"),
        ("llvm -cpu=x", ValueError, "target kind llvm has no option 'cpu'; its options: device"),
        ("llvm -num-cores=many", ValueError, "target option -num-cores is 'many', expected a number"),
        ("llvm -opt-level=9", ValueError, "target option -opt-level is '9', expected a number from 0 to 3"),
        ("llvm 'unfinished", ValueError, "No closing quotation"),
        ("{not json", ValueError, "is not JSON"),
        ({"kind": "llvm", "mcpu": 3}, ValueError, "target option -mcpu is 3, expected text"),
        (7, TypeError, "a target is a string, a dict or a Target, found int"),
        ("llvm -mtriple=nothing", ValueError, "target triple 'nothing'"),
        ("llvm -mtriple=i686-linux-gnu", ValueError, "only 64-bit little-endian machines are supported"),
        ("llvm -mtriple=s390x-linux-gnu", ValueError, "only 64-bit little-endian machines are supported"),
        (
            f"{X86} -mcpu=pentium9",
            ValueError,
            "LLVM: 'pentium9' is not a recognized processor for this target",
        ),
        (f"{X86} -mattr=+magic", ValueError, "LLVM: '+magic' is not a recognized feature for this target"),
        (f"{X86} -mattr=avx2", ValueError, "target feature 'avx2': write +name or -name"),
        (f"{X86} '-mcpu=a b'", ValueError, "'a b' is not the name of a processor"),
    ],
)
def test_mistakes(spelling, error, message):
    with pytest.raises(error) as caught:
        Target(spelling)
    assert message in str(caught.value)


def test_the_current_target():
    assert Target.current() is None
    with pytest.raises(ValueError, match="no target is set here"):
        Target.current(allow_none=False)
    outer, inner = Target("llvm -num-cores=1"), Target("llvm -num-cores=2")
    with outer:
        assert Target.current() is outer
        with inner:
            assert Target.current(allow_none=False) is inner
        assert Target.current() is outer
        seen = []
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
        assert seen == [None]  # each thread has its own
    assert Target.current() is None


def test_a_target_is_a_value():
    target = Target({"kind": "llvm", "keys": ["fast"], "num-cores": 3}, host="llvm -num-cores=1")
    assert target.host == Target("llvm -num-cores=1")
    for other in (copy.deepcopy(target), pickle.loads(pickle.dumps(target)), Target(target.export())):
        assert other == target
    assert target != Target(target.export() | {"num-cores": 4})
    assert repr(target) == "Target('llvm -keys=fast -num-cores=3')"
    assert target.keys == ("fast", "cpu")
    assert Target.list_kinds() == ["llvm"]
