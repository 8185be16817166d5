"""Builds with a database: kernels get the schedules of its records, and programs in the cache are built again."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from tuned_kernels import TARGET, product, record

import relax
from relax.farm import cache
from relax.farm.tuning_records import Database, key_of
from relax.ir import DiagnosticError
from relax.schedules.cpu import RULES
from relax.script import ir as I
from relax.script import relax as R
from relax.vm.lowering import unscheduled
from relax.vm.tuned import with_records


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((48, 40), "float32"), w: R.Tensor((40, 64), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y


@I.ir_module
class Open:
    @R.function
    def main(x: R.Tensor(("n", 40), "float32"), w: R.Tensor((40, 64), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y


X, W = (np.random.default_rng(1).standard_normal(shape).astype("float32") for shape in ((48, 40), (40, 64)))


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "tuning.sqlite")


def schedules_of(mod, database, params=None):
    """The attribute ``relax.schedule`` of each kernel of a module."""
    bound = relax.transform.BindParams("main", params)(mod) if params else mod
    applied = with_records(unscheduled(bound, TARGET), TARGET, RULES, database)
    return {
        global_var.name_hint: func.attrs.get("relax.schedule")
        for global_var, func in applied.functions.items()
        if isinstance(func, relax.tir.PrimFunc)
    }


def matmul_key(mod, params=None):
    """The key of the matmul of a module."""
    bound = relax.transform.BindParams("main", params)(mod) if params else mod
    return key_of(unscheduled(bound, TARGET)["matmul"], TARGET, (1,) if params else ())


def run(executable, *args):
    return relax.VirtualMachine(executable)["main"](*args).numpy()


@pytest.mark.parametrize("mod", [Model, Open])
def test_a_kernel_has_the_schedule_of_its_record(mod, database):
    database.add(record(matmul_key(mod), parameters={"tile": [3, 1], "strassen": False}))
    wanted = {"rule": "Product", "parameters": {"tile": (3, 1), "strassen": False}}
    assert schedules_of(mod, database) == {"matmul": wanted}
    with database:
        tuned = relax.build(mod, "llvm")
    np.testing.assert_allclose(run(tuned, X, W), X @ W, rtol=1e-4, atol=1e-4)
    assert tuned.native != relax.build(mod, "llvm").native


def test_constants_are_packed_for_the_schedule(database):
    database.add(record(matmul_key(Model, {"w": W}), parameters={"tile": [5, 2], "strassen": False}))
    assert schedules_of(Model, database)["matmul"] is None  # there it is called with two variables
    assert schedules_of(Model, database, {"w": W})["matmul"]["parameters"]["tile"] == (5, 2)
    with database:
        tuned = relax.build(Model, "llvm", params={"w": W})
    np.testing.assert_allclose(run(tuned, X), X @ W, rtol=1e-4, atol=1e-4)


def test_a_formula_has_the_record_of_the_operator(database):
    database.add(record(key_of(product(), TARGET)))
    assert schedules_of(Model, database)["matmul"]["rule"] == "Product"


@pytest.mark.parametrize(
    ("rule", "parameters"),
    [("Product", {"tile": [99, 99]}), ("Product", {"unknown": 1}), ("NoRule", {}), ("Traced", {"trace": 7})],
)
def test_a_record_that_no_rule_has_is_ignored(database, rule, parameters):
    database.add(record(matmul_key(Model), rule, parameters))
    assert schedules_of(Model, database) == {"matmul": None}


def test_a_trace_that_does_not_apply_is_ignored(database):
    database.add(record(matmul_key(Model), "Traced", {"trace": '[[["Import", ["os"], []]], []]'}))
    with database:
        tuned = relax.build(Model, "llvm")
    np.testing.assert_allclose(run(tuned, X, W), X @ W, rtol=1e-4, atol=1e-4)


def test_the_environment_names_the_database(database, monkeypatch):
    key = matmul_key(Model)
    database.add(record(key))
    monkeypatch.setenv("RELAX_TUNE_DATABASE", str(database.path))
    tuned = relax.build(Model, "llvm").native
    monkeypatch.setenv("RELAX_TUNE_DATABASE", "")
    assert relax.build(Model, "llvm").native != tuned
    monkeypatch.setenv("RELAX_TUNE_DATABASE", str(database.path.with_name("missing.sqlite")))
    assert relax.build(Model, "llvm").native != tuned


def test_a_build_refuses_a_file_of_somebody_else(tmp_path, monkeypatch):
    path = tmp_path / "letter.sqlite"
    path.write_text("Dear reader, " * 500, encoding="utf-8")
    monkeypatch.setenv("RELAX_TUNE_DATABASE", str(path))
    with pytest.raises(DiagnosticError, match=r"E4111.*cannot use the tuning records in .*letter.sqlite"):
        relax.build(Model, "llvm")


def test_a_program_in_the_cache_is_built_again_for_a_new_record(database, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RELAX_CACHE_PROGRAMS", "1")
    caplog.set_level(logging.DEBUG, "relax.farm.cache")
    key = matmul_key(Model)

    def messages():
        caplog.clear()
        with database:
            relax.build(Model, "llvm")
        return [r.getMessage() for r in caplog.records if r.getMessage().startswith("program main")]

    database.add(record(key, "default", {}, taken=False))
    assert cache.keeps_programs()
    assert messages() == ["program main: built, since this program was not built before"]
    assert messages() == ["program main: found"]
    database.add(record(key))
    assert messages() == ["program main: built, since tuning has found other schedules since"]
    assert messages() == ["program main: found"]
