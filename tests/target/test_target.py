"""Targets: as text, as dicts, as values."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

from relax.target import Machine, Target


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
def test_spellings(spelling):
    target = Target(spelling)
    assert str(target) == "llvm -mcpu=skylake-avx512 -num-cores=4"
    assert target == Target(str(target))
    assert hash(target) == hash(Target(str(target)))
    assert target.attrs["num-cores"] == 4
    assert target.attrs["mcpu"] == "skylake-avx512"


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


def test_an_unresolved_target_has_no_machine():
    target = Target("llvm -mcpu=haswell")
    assert not target.is_resolved
    with pytest.raises(ValueError, match="is not resolved; relax.codegen.resolve"):
        _ = target.vector_bits


def test_a_described_target():
    machine = Machine("aarch64-linux-gnu", "cortex-a76", "", vector_registers=32, fma=True, cores=4)
    target = Target("llvm").with_machine(machine)
    assert target.machine is machine
    assert Target(target).machine is machine
    assert target == Target("llvm")  # a target is its text
    assert (target.vector_lanes("float32"), target.has_fma, target.num_cores) == (4, True, 4)
    with target:
        assert Target.current().machine is machine
