"""Tuning on a Ray cluster of two nodes: workers schedule and measure, one that dies is replaced, the driver resumes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tuned_kernels import LONG, PATIENT, TARGET, backwards, doubled, product, variant

from relax import tune
from relax.codegen import resolve
from relax.farm.tuning_records import Database, records_version
from relax.ir import DiagnosticError
from relax.schedules.cpu import RULES
from relax.script import tir as T
from relax.tune import cluster as cluster_module
from relax.tune.candidates import Candidates
from relax.tune.cluster import Cluster, Worker, processor_resource
from relax.tune.kernels import Kernel
from relax.tune.measuring import Measurement


@T.prim_func
def wrong(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(1000):
        B[i] = A[i]


@T.prim_func
def kills_its_worker(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    T.evaluate(T.call_extern("int32", "kill", T.call_extern("int32", "getppid"), 9))
    T.evaluate(T.call_extern("int32", "sleep", 2))


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", "avx512-vnni"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", "avx512"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", "avx2"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "neon-dotprod"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", "neon"),
    ],
)
def test_the_resource_names_the_processor(target, name):
    assert processor_resource(target) == name


def test_without_ray(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs the package ray: pip install relax\[ray\]"):
        tune.tune_tir(product(), TARGET, tmp_path, cluster="auto")


@pytest.mark.parametrize(
    ("target", "version", "reason"),
    [
        (TARGET, records_version(), ""),
        (TARGET, "0" * 32, "it has another version of relax"),
        (resolve("llvm -l2-cache=4096"), records_version(), ""),
        (resolve("llvm -mtriple=aarch64-linux-gnu"), records_version(), "it cannot run code for"),
    ],
)
def test_a_worker_compares_its_machine(target, version, reason):
    said = Worker().fitness(target, target.machine, version).reason
    assert said.startswith(reason)
    assert bool(said) == bool(reason)


def test_a_worker_with_another_processor():
    larger = resolve("llvm -l2-cache=4096").machine
    assert Worker().fitness(TARGET, larger, records_version()).reason == "its processor differs"


@pytest.fixture(scope="module")
def ray_cluster():
    """Two nodes, each of which offers the processor once."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install relax[ray]")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 1, "resources": {processor_resource(TARGET): 1}}
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args=node)
    nodes.add_node(**node)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="warning")
    try:
        yield nodes.address
    finally:
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture(scope="module")
def workers(ray_cluster):
    with Cluster(ray_cluster, TARGET, PATIENT) as cluster:
        while len(cluster.processes) < 2:
            list(cluster.answers([]))
            time.sleep(0.1)
        yield cluster


def test_all_workers_measure(workers):
    assert len({process for _, process in workers.processes}) == 2
    with workers.measurer(Kernel("doubled", doubled), variant(doubled)) as measurer:
        assert measurer.seconds[0] > 0
        requests = [(bytes([number]), variant(wrong if number == 2 else backwards), ()) for number in range(5)]
        results = dict(measurer.measure_all(requests, 4))
    assert sorted(results) == [digest for digest, *_ in requests]
    assert results[b"\x02"].reason.startswith("wrong result: at [0] it computes ")
    assert [len(results[b"\x00"].warm[0]), len(results[b"\x04"].warm[0])] == [4, 4]


def test_workers_make_the_candidates_of_this_process(workers):
    kernel = Kernel("product", product())
    here, there = (Candidates(kernel, TARGET, RULES, (), b) for b in (None, workers.builder(kernel, RULES)))
    expected, found = (one.first(5, random.Random(1), lambda: True) for one in (here, there))
    assert [c.digest for c in found] == [c.digest for c in expected]
    assert [c.choice for c in found] == [c.choice for c in expected]


def test_a_dead_worker_is_replaced_and_nothing_is_lost(workers):
    replaced = workers.replaced
    with workers.measurer(Kernel("doubled", doubled), variant(doubled)) as measurer:
        results = {}
        for digest, result in measurer.measure_all([(bytes([n]), variant(backwards), ()) for n in range(8)], 4):
            if not results:
                _, first = workers.processes[0]
                os.kill(first, signal.SIGKILL)
            results[digest] = result
    assert len(results) == 8
    assert all(isinstance(result, Measurement) for result in results.values())
    assert workers.replaced == replaced + 1
    assert first not in [process for _, process in workers.processes]


def test_a_candidate_at_which_workers_die_is_dropped(workers, monkeypatch):
    monkeypatch.setattr(cluster_module, "ATTEMPTS", 1)
    with workers.measurer(Kernel("doubled", doubled), variant(doubled)) as measurer:
        requests = [(b"bad", variant(kills_its_worker), ()), (b"good", variant(backwards), ())]
        results = dict(measurer.measure_all(requests, 2))
    assert results[b"bad"].reason == "1 workers died at it"
    assert isinstance(results[b"good"], Measurement)


def test_no_node_offers_the_processor(ray_cluster):
    other = resolve("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -vector-width=128")
    with pytest.raises(DiagnosticError) as caught, Cluster(ray_cluster, other):
        pass
    text = str(caught.value)
    assert "E4112" in text
    assert "no node offers the resource" in text
    assert """ray start --resources='{"sse": 1}'""" in text


DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
from tuned_kernels import LONG, PATIENT, TARGET, product
from relax import tune
tune.tune_tir(product(), TARGET, seconds=LONG, database=sys.argv[2], cluster=sys.argv[3], conditions=PATIENT)
"""


def test_a_killed_driver_is_resumed(ray_cluster, workers, tmp_path):
    workers.__exit__(None, None, None)  # the driver takes the workers' places
    database = Database(tmp_path / "tuning.sqlite")
    words = [sys.executable, "-c", DRIVER, str(Path(__file__).parent), str(database.path), ray_cluster]
    driver = subprocess.Popen(words)
    try:
        while len(database) < 5 and driver.poll() is None:
            time.sleep(0.1)
    finally:
        driver.kill()
        driver.wait()
    before = {(r.rule, repr(r.parameters)): r.created for r in database.records()}
    assert len(before) >= 5
    assert "kernels whose search did not end" in tune.shown_records(database, TARGET)
    states = []
    tune.tune_tir(
        product(), TARGET, None, 6, seconds=LONG, database=database, cluster=ray_cluster, conditions=PATIENT,
        progress=states.append,
    )  # fmt: skip
    after = {(r.rule, repr(r.parameters)): r.created for r in database.records()}
    assert before.keys() <= after.keys()
    assert states[-1].is_last
    assert states[-1].outcome.tried == 6
    new = after.keys() - before.keys() - {("default", "{}")}
    assert len(new) == 2  # four of the first run were measured again, the others are known
    assert "did not end" not in tune.shown_records(database, TARGET)
