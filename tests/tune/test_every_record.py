"""Every schedule in a database of records computes what the kernel's formula does, at all sizes, with guards around
the arrays.

The database is made by quick searches, and has all candidates that were measured: in use are those that are taken, but
which these are depends on the machine. Results are compared with those of the loops as the formula has them.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from tuned_kernels import LONG, PATIENT, TARGET, product

from relax import te, topi
from relax.codegen import build_module
from relax.farm.tuning_records import Database, Record, key_of
from relax.schedules.choice import SCHEDULE
from relax.schedules.cpu import RULES
from relax.schedules.variants import VARIANTS
from relax.tune.candidates import scheduled_variant
from relax.tune.design_spaces import Choice
from relax.tune.differences import difference
from relax.tune.kernels import Kernel, copied, guards_hold, random_arguments
from relax.tune.loop_nests import loop_nests
from relax.tune.search import SearchOptions, search
from relax.tune.variants import sizes_around

TRIALS = 10
"""Candidates that are measured for each kernel."""


def n():
    return te.var("n", "int64")


def product_and_relu():
    m = n()
    a, b, c = te.placeholder((m, 40)), te.placeholder((40, 100)), te.placeholder((100,))
    k = te.reduce_axis((0, 40), "k")
    value = te.compute((m, 100), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    return te.create_prim_func([a, b, c, topi.nn.relu(topi.add(value, c))])


def product_of_bytes():
    m = n()
    a, b, k = te.placeholder((m, 33), "int8"), te.placeholder((33, 50), "int8"), te.reduce_axis((0, 33))
    value = te.compute((m, 50), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k))
    return te.create_prim_func([a, b, value])


def two_sums():
    m = n()
    a, b, c = te.placeholder((m, 5)), te.placeholder((5, 6)), te.placeholder((6, 20))
    k, l = te.reduce_axis((0, 5)), te.reduce_axis((0, 6))
    value = te.compute((m, 20), lambda i, j: te.sum(a[i, k] * b[k, l] * c[l, j], axis=[k, l]))
    return te.create_prim_func([a, b, c, value])


def convolution(size):
    x, w = te.placeholder((n(), 16, 13, 11)), te.placeholder((24, 16, size, size))
    return te.create_prim_func([x, w, topi.nn.conv2d(x, w, 1, size // 2, 1, "NCHW")])


def softmax():
    x = te.placeholder((n(), 77))
    return te.create_prim_func([x, topi.nn.softmax(x)])


SIZES = ({"n": 7}, {"n": 64})
KERNELS = {
    "product": Kernel("product", product(rows=n()), (), SIZES),
    "product of packed weights": Kernel("product", product(rows=n()), (1,), SIZES),
    "product of doubles": Kernel("product", product(rows=n(), dtype="float64"), (), SIZES),
    "product and relu": Kernel("product", product_and_relu(), (1,), SIZES),
    "product of bytes": Kernel("product", product_of_bytes(), (), SIZES),
    "two sums": Kernel("two_sums", two_sums(), (), SIZES),
    "convolution": Kernel("conv2d", convolution(3), (), ({"n": 1}, {"n": 3})),
    "pointwise convolution": Kernel("conv2d", convolution(1), (1,), ({"n": 1}, {"n": 3})),
    "softmax": Kernel("softmax", softmax(), (), SIZES),
}


def noted(database, kernel, choice, measurement):
    ours, theirs = measurement.seconds
    key = key_of(kernel.func, TARGET, kernel.constants)
    database.add(
        Record(key, choice.rule, choice.values, kernel.sizes, ours, theirs, measurement.noise, name=kernel.name)
    )


def with_variants(database, kernel, choices, measurement):
    """Add a record with two choices, for small and large sizes."""
    first, second = ({"rule": choice.rule, "parameters": choice.values} for choice in choices)
    parameters = {"size": 0, "name": "n", "variants": [{"at_most": 16, **first}, second]}
    noted(database, kernel, Choice(VARIANTS, json.dumps(parameters)), measurement)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Records of all candidates of a quick search of each kernel, and variants of pairs of them."""
    database = Database(tmp_path_factory.mktemp("records") / "tuning.sqlite")
    for kernel in KERNELS.values():
        found = []
        options = SearchOptions(
            seconds=LONG, trials=TRIALS, conditions=PATIENT, noted=lambda *pair, found=found: found.append(pair)
        )
        outcome = search(kernel, TARGET, RULES, [loop_nests], options)
        assert outcome.reason == ""
        assert not [why for why in outcome.failures.values() if why.startswith("wrong result")]
        choices = [(candidate.choice, measurement) for candidate, measurement in found]
        for choice, measurement in choices:
            noted(database, kernel, choice, measurement)
        for (one, measurement), (other, _) in zip(choices[::4], choices[1::4], strict=False):
            with_variants(database, kernel, (one, other), measurement)
    return database


def compiled(func):
    return build_module({"kernel": func.without_attr("global_symbol")}, TARGET)["kernel"]


def results(kernel, call, packings, sizes, seed):
    """Results of a compiled function for random arguments, with the constants in its layout."""
    arguments = random_arguments(kernel.func, sizes, seed)
    for position, packing in packings.items():
        arguments[position] = packing(arguments[position])
    arguments = copied(arguments)
    call(*arguments)
    assert all(guards_hold(array) for array in arguments if isinstance(array, np.ndarray))
    return arguments[-1]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_every_record_computes_what_the_formula_does(database, kernel):
    records = database.measured(key_of(kernel.func, TARGET, kernel.constants))
    assert VARIANTS in {record.rule for record in records}
    plain, expected = compiled(kernel.func), {}
    for record in records:
        choice = Choice(record.rule, json.dumps(dict(record.parameters)))
        asked = kernel.func.with_attr(SCHEDULE, choice.attribute_for(kernel.func))
        variant = scheduled_variant(asked, TARGET, RULES, kernel.constants)
        assert variant.func.attrs["tir.is_scheduled"]
        call = compiled(variant.func)
        for sizes in (*record.sizes, {"n": 0}, {"n": 1}, *kernel.edges(), *sizes_around(kernel, choice)):
            size = sizes["n"]
            for seed in (0, 1):
                if (size, seed) not in expected:
                    expected[size, seed] = results(kernel, plain, {}, sizes, seed)
                wrong = difference(results(kernel, call, variant.packings, sizes, seed), expected[size, seed])
                assert wrong == "", f"{choice} at n={size}: {wrong}"
