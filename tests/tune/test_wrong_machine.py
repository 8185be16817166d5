"""A wrong description of the machine: the rules choose other loops, and the space of tuning has the right ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tuned_kernels import product

import relax
from relax import te, topi
from relax.codegen import resolve
from relax.farm.tuning_records import Database, Record, key_of
from relax.schedules import schedule
from relax.schedules.cpu import RULES
from relax.target import Caches
from relax.tune import shown_records
from relax.tune.candidates import Candidates
from relax.tune.design_spaces import Choice
from relax.tune.kernels import Kernel
from relax.vm.tuned import with_records

RIGHT = resolve("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -l1-cache=32768 -l2-cache=1048576 -l3-cache=33554432")
WRONG = RIGHT.with_machine(
    replace(RIGHT.machine, caches=Caches(16384, 524288, 16777216), vector_registers=16, vector_bits=256)
)
"""Half of each cache, half of the registers, and vectors of half the width."""

REPAIRED = Choice("Described", '{"caches": 2.0, "registers": 32, "vectors": 512}')


def convolution(size, stride=1):
    x, w = te.placeholder((1, 32, 28, 28), "float32", "X"), te.placeholder((64, 32, size, size), "float32", "W")
    return te.create_prim_func([x, w, topi.nn.conv2d(x, w, stride, size // 2, 1, "NCHW")])


def softmax():
    x = te.placeholder((64, 500), "float32", "X")
    return te.create_prim_func([x, topi.nn.softmax(x)])


KERNELS = {
    "product": Kernel("product", product(300, 200, 1500)),
    "product of packed weights": Kernel("product", product(300, 200, 1500), (1,)),
    "convolution of 3 × 3": Kernel("conv2d", convolution(3), (1,)),
    "convolution of 5 × 5 with strides": Kernel("conv2d", convolution(5, 2)),
    "pointwise convolution": Kernel("conv2d", convolution(1), (1,)),
    "softmax": Kernel("softmax", softmax()),
}


@pytest.fixture(params=KERNELS.values(), ids=KERNELS)
def pair(request):
    """Candidates of a kernel for the right and for the wrong description."""
    return [Candidates(request.param, target, RULES) for target in (RIGHT, WRONG)]


def test_the_default_for_the_wrong_description_is_another_one(pair):
    right, wrong = pair
    assert right.default.digest != wrong.default.digest


def test_tuning_reaches_the_loops_for_the_right_description(pair):
    right, wrong = pair
    repaired = wrong.make(REPAIRED)
    assert repaired.digest == right.default.digest


def test_other_descriptions_are_among_the_first_candidates():
    first = Candidates(KERNELS["product"], WRONG, RULES).first(12, random.Random(0), lambda: True)
    assert {str(c) for c in first} >= {"Described(caches=2.0)", "Described(registers=32)", "Described(vectors=512)"}


def described(parameters):
    key = key_of(product(), RIGHT)
    return Record(key, "Described", parameters, ({},), (1e-3,), (2e-3,), 0.01, True, "product")


def test_what_was_learnt_about_the_description_in_words(tmp_path):
    database = Database(tmp_path / "tuning.sqlite")
    database.add(described(REPAIRED.values))
    assert shown_records(database, RIGHT) == (
        "product: 2.00 times as fast (1 ms instead of 2 ms) by the rules' loops for another description of the processor "
        "(caches × 2, 32 vector registers, vectors of 512 bits)"
    )


def test_a_record_with_a_description_that_no_processor_has(tmp_path):
    """It is shown as it is, and no build uses it."""
    database = Database(tmp_path / "tuning.sqlite")
    database.add(described({"caches": "a lot", "registers": [10**400], "ports": {}}))
    assert "(caches × a lot, [1000" in shown_records(database, RIGHT)
    mod = relax.IRModule({"main": product()})
    assert "relax.schedule" not in with_records(mod, RIGHT, RULES, database)["main"].attrs


def test_a_build_uses_the_record_of_another_description(tmp_path):
    database = Database(tmp_path / "tuning.sqlite")
    database.add(described({"registers": 16}))
    mod = with_records(relax.IRModule({"main": product()}), RIGHT, RULES, database)
    few = RIGHT.with_machine(replace(RIGHT.machine, vector_registers=16))
    assert str(schedule(mod["main"], RIGHT, RULES).body) == str(schedule(product(), few, RULES).body)
