"""Tuning of functions and programs, from the call to the record that a build uses."""

from __future__ import annotations

import numpy as np
import pytest
from tuned_kernels import LONG, TARGET, product, record

import relax
from relax import te, tir, tune
from relax.farm.tuning_records import key_of
from relax.ir import DiagnosticError
from relax.schedules import ApplyDefaultSchedule
from relax.schedules.cpu import RULES
from relax.script import ir as I
from relax.script import relax as R
from relax.tune.profile import origin_of, profiled

QUICK = {"seconds": LONG, "max_trials_global": 3}


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 40), "float32"), w: R.Tensor((40, 64), "float32")):
        with R.dataflow():
            h = R.matmul(x, w)
            y = R.nn.softmax(h)
            R.output(y)
        return y


W = np.random.default_rng(1).standard_normal((40, 64)).astype("float32")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A model that was tuned, and the states of its progress."""
    states = []
    folder = tmp_path_factory.mktemp("tuned")
    database = tune.tune_relax(
        Model, {"w": W}, "llvm", folder, sizes=[{"n": 3}, {"n": 32}], progress=states.append, **QUICK
    )
    return database, states


def test_a_model_has_records_at_its_sizes(tuned):
    database, _ = tuned
    names = {r.name: r for r in database.records()}
    assert "matmul" in names
    assert names["matmul"].key.constants == (1,)
    assert [dict(sizes) for sizes in names["matmul"].sizes] == [{"n": 3}, {"n": 32}]
    assert database.path.name == "tuning.sqlite"


def test_progress(tuned):
    _, states = tuned
    assert states[0].outcome.kernel.name == "matmul"
    assert (states[0].number, states[0].count) == (1, 2)
    assert states[-1].is_last
    assert 0 <= states[-1].left <= states[0].left <= LONG
    assert states[-1].gain >= 1.0


def test_the_tuned_model_computes_the_same(tuned):
    database, _ = tuned
    x = np.random.default_rng(2).standard_normal((7, 40)).astype("float32")
    executable = tune.compile_relax(database, Model, "llvm", {"w": W})
    result = relax.VirtualMachine(executable)["main"](x).numpy()
    expected = relax.VirtualMachine(relax.build(Model, "llvm", {"w": W}))["main"](x).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_the_profile_names_kernels_before_their_constants_are_packed():
    mod = relax.transform.BindParams("main", {"w": W})(Model)
    profile = profiled(mod, TARGET, {"matmul", "softmax"}, [{"n": 5}], [], None, 0)
    assert set(profile.seconds) == {"matmul", "softmax"}
    assert profile.share("matmul") + profile.share("softmax") == pytest.approx(1)
    assert profile.sizes_of("matmul", product(rows=te.var("m", "int64"))) == [{"m": 5}]


def test_names_of_packed_kernels():
    kernels = {"matmul", "conv_packed"}
    names = ("matmul", "matmul_packed", "matmul_packed_", "conv_packed", "conv_packed_packed", "other_packed")
    assert [origin_of(name, kernels) for name in names] == [
        "matmul", "matmul", "matmul", "conv_packed", "conv_packed", "other_packed",
    ]  # fmt: skip


def rows_in_tiles(sch):
    i, _, _ = sch.get_loops(sch.get_block("C"))
    tile = sch.sample_categorical([2, 4], [0.5, 0.5])
    sch.split(i, [None, tile])


def test_a_function_with_a_space_of_its_own(tmp_path):
    database = tune.tune_tir(product(), TARGET, tmp_path, space=tune.ScheduleFn(rows_in_tiles), rules=[], **QUICK)
    (found,) = database.records()
    assert found.rule in ("Traced", "default")
    assert found.key == key_of(product(), TARGET)
    outcome = tune.TuneContext(product(), target=TARGET, space_generator=rows_in_tiles)
    assert any("i_0" in str(func) for func in outcome.generate_design_space(40))


def test_a_context_schedules_by_a_rule():
    context = tune.TuneContext(product(), target="llvm")
    several = context.generate_design_space(4)
    assert len({str(func) for func in several}) == 4
    assert context.scheduled("Product", tile=[4, 2], strassen=False).attrs["tir.is_scheduled"]
    with pytest.raises(ValueError, match="a TuneContext has one PrimFunc, the module has 0"):
        tune.TuneContext(relax.IRModule({}))
    with pytest.raises(ValueError, match=r"main has no parameter -1: constants=\[-1\]"):
        tune.TuneContext(product(), target="llvm", constants=[-1])


def test_passes_in_the_spelling_of_tvm(tmp_path):
    mod = relax.IRModule({"product": product(), "other": product(5)})
    with TARGET:
        same = relax.transform.MetaScheduleTuneIRMod({}, tmp_path, op_names=["product"], **QUICK)(mod)
        assert same is mod
        assert relax.transform.MetaScheduleTuneTIR(tmp_path, **QUICK)(mod) is mod
        database = tune.Database(tmp_path / "tuning.sqlite")
        assert {r.name for r in database.records()} <= {"product", "other"}
        database.add(record())
        applied = relax.transform.MetaScheduleApplyDatabase(tmp_path)(mod)
        assert applied["product"].attrs["relax.schedule"]["rule"] == "Product"
        scheduled = ApplyDefaultSchedule(*RULES)(applied)
    assert scheduled["product"].attrs["tir.is_scheduled"]
    empty = tune.Database(tmp_path / "empty.sqlite")
    with database:
        inside = relax.transform.MetaScheduleApplyDatabase()(mod)
        assert relax.transform.MetaScheduleApplyDatabase(database=empty)(mod)["product"] is mod["product"]
    assert inside["product"].attrs["relax.schedule"] == applied["product"].attrs["relax.schedule"]


def test_what_was_learnt_in_words(tmp_path):
    database = tune.Database(tmp_path / "tuning.sqlite")
    assert tune.shown_records(database, TARGET) == f"no records in {database.path}"
    database.add(record(rule="default", parameters={}, taken=False))  # of an earlier search
    database.add(record(sizes=({"n": 1}, {"n": 16})))
    database.add(record(key_of(product(5), TARGET), "default", {}, taken=False, name="small"))
    database.add(record(key_of(product(6), TARGET)._replace(version="older"), name="old"))
    database.add(record(key_of(product(7), TARGET)._replace(target="larger caches"), name="elsewhere"))
    database.add(record(key_of(product(8), TARGET), "Traced", {"trace": "edited"}, name="traced"))
    assert tune.shown_records(database, TARGET).splitlines() == [
        "product: 2.00 times as fast (1 ms instead of 2 ms and 1 ms instead of 2 ms) by Product with "
        "strassen=False, tile=[4, 2] at n=1; n=16",
        "small: the default schedule; nothing was faster by more than 1.0%",
        "traced: 2.00 times as fast (1 ms instead of 2 ms) by loops of a schedule with the decisions ?",
        "2 of another target or version of relax, which are not used",
    ]


def refusal(call):
    with pytest.raises(DiagnosticError, match="E4112") as caught:
        call()
    return str(caught.value)


def test_what_cannot_be_tuned(tmp_path, monkeypatch):
    other = "llvm -mtriple=aarch64-linux-gnu"
    assert "candidates are measured on this machine" in refusal(lambda: tune.tune_tir(product(), other, tmp_path))
    empty = relax.IRModule({})
    assert "no PrimFunc that can be tuned" in refusal(lambda: tune.tune_tir(empty, TARGET, tmp_path))
    assert "main has no size 'm'" in refusal(lambda: tune.tune_relax(Model, None, TARGET, tmp_path, sizes=[{"m": 1}]))
    assert "there is no entry point 'forward'" in refusal(
        lambda: tune.tune_relax(Model, None, TARGET, tmp_path, entry="forward")
    )
    rows = product(rows=te.var("n", "int64"))
    assert "the module has no size 'm'" in refusal(lambda: tune.tune_tir(rows, TARGET, tmp_path, sizes=[{"m": 1}]))
    assert "a number from 0, not -1" in refusal(lambda: tune.tune_tir(rows, TARGET, tmp_path, sizes=[{"n": -1}]))
    monkeypatch.setenv("RELAX_TUNE_DATABASE", "")
    assert "there is no database to write records to" in refusal(lambda: tune.tune_tir(product(), TARGET))
    with pytest.raises(ValueError, match="there is no space 'wide'"):
        tune.tune_tir(product(), TARGET, tmp_path, space="wide")
    with pytest.raises(ValueError, match=r"main has no parameter 3: constants=\[1, 3\]"):
        tune.tune_tir(product(), TARGET, tmp_path, constants=[1, 3])
    with pytest.raises(TypeError, match="tune_relax: expected an IRModule or a Function, found PrimFunc"):
        tune.tune_relax(product(), None, TARGET, tmp_path)
    with pytest.raises(ValueError, match=r"expected positive .*threads=0"):
        tune.Conditions(threads=0)


@pytest.mark.parametrize("name", ["tuning.sqlite", "tuning.jsonl"])
def test_records_that_cannot_be_written_are_refused_before_the_search(tmp_path, name):
    (tmp_path / "file").touch()
    states = []
    with pytest.raises(DiagnosticError, match="E4111"):
        tune.tune_tir(product(), TARGET, database=tmp_path / "file" / name, progress=states.append, **QUICK)
    assert states == []


def test_a_schedule_that_is_final_is_left_alone(tmp_path):
    final = tir.PrimFunc.with_attr(product(), "tir.is_scheduled", True)
    assert "no PrimFunc that can be tuned" in refusal(lambda: tune.tune_tir(final, TARGET, tmp_path))
