"""The rule ``Described``: the other rules choose loops for another description of the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relax import te
from relax.codegen import resolve
from relax.ir import DiagnosticError
from relax.optimize.pack_constants import packed_variant
from relax.schedules import schedule
from relax.schedules.cpu import RULES
from relax.schedules.described import Described
from relax.target import Caches

MODEL = resolve("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -l1-cache=32768 -l2-cache=1048576 -l3-cache=33554432")


def described_as(caches=(32768, 1048576, 33554432), registers=32, bits=512):
    """The processor of `MODEL` by another description."""
    machine = replace(MODEL.machine, caches=Caches(*caches), vector_registers=registers, vector_bits=bits)
    return MODEL.with_machine(machine)


def product(rows=300, depth=1500, columns=200):
    a, b = te.placeholder((rows, depth), "float32", "A"), te.placeholder((depth, columns), "float32", "B")
    k = te.reduce_axis((0, depth), "k")
    value = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    return te.create_prim_func([a, b, value])


def asked(func, **parameters):
    return func.with_attr("relax.schedule", {"rule": "Described", "parameters": parameters})


CHANGES = [
    ({"caches": 0.5}, described_as((16384, 524288, 16777216))),
    ({"caches": 2.0}, described_as((65536, 2097152, 67108864))),
    ({"registers": 16}, described_as(registers=16)),
    ({"vectors": 256}, described_as(bits=256)),
    ({"caches": 0.25, "registers": 16, "vectors": 256}, described_as((8192, 262144, 8388608), 16, 256)),
]


@pytest.mark.parametrize(("parameters", "other"), CHANGES)
def test_loops_are_those_for_the_other_description(parameters, other):
    loops = str(schedule(asked(product(), **parameters), MODEL, RULES).body)
    assert loops == str(schedule(product(), other, RULES).body)
    assert loops != str(schedule(product(), MODEL, RULES).body)


@pytest.mark.parametrize(("parameters", "other"), CHANGES)
def test_constants_are_packed_for_the_other_description(parameters, other):
    variant = packed_variant(asked(product(), **parameters), MODEL, RULES, (1,))
    expected = packed_variant(product(), other, RULES, (1,))
    assert str(variant.func.body) == str(expected.func.body)
    assert variant.packings == expected.packings


def test_the_space_has_what_processors_of_the_architecture_have():
    assert dict(Described().space(MODEL).fields) == {
        "caches": (1.0, 2.0, 4.0, 0.5, 0.25),
        "registers": (None, 16),
        "vectors": (None, 256, 128),
    }
    arm = resolve("llvm -mtriple=aarch64-linux-gnu")
    assert dict(Described().space(arm).fields) == {
        "caches": (1.0, 2.0, 4.0, 0.5, 0.25), "registers": (None,), "vectors": (None,),
    }  # fmt: skip


def test_it_may_be_one_of_several_variants():
    m = te.var("m", "int64")
    parts = [
        {"at_most": {"m": 20}, "rule": "Described", "parameters": {"registers": 16}},
        {},
    ]  # fmt: skip
    scheduled = schedule(product(rows=m).with_attr("relax.schedule", parts), MODEL, RULES)
    assert "if m <= 20:" in scheduled.script()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"caches": 3.0}, "caches cannot be 3.0"),
        ({"registers": 64}, "registers cannot be 64"),
        ({"ports": 2}, "there is no parameter 'ports'"),
    ],
)
def test_descriptions_that_no_processor_has_are_rejected(parameters, message):
    with pytest.raises(DiagnosticError, match=f"E4110.*{message}"):
        schedule(asked(product(), **parameters), MODEL, RULES)
