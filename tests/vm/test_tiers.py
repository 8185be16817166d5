"""Tier "auto": a program changes from tier "now" to "full" between two calls."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import relax
from relax.farm import cache
from relax.frontend.onnx import from_onnx
from relax.ir.transform import PassContext
from relax.runtime.numerics import NumericsError
from relax.runtime.upgrade import Upgrade, UpgradeWarning
from relax.target import Target
from relax.transform import BindParams
from relax.vm import driver, full_build
from support import PLAIN_LOOPS, main, same, wait_until

SECONDS = 300
"""Bound of each wait, far above the time that a build takes."""
PARAMS = 'x: R.Tensor(("n", 4), "float32")'
BODY = """
with R.dataflow():
    y = R.nn.relu(R.subtract(x, R.const(1.0)))
    R.output(y)
return y
"""
X = np.arange(8, dtype="float32").reshape(2, 4)
Y = np.maximum(X - 1, 0)


@pytest.fixture(autouse=True)
def keeps_programs(tmp_path, monkeypatch):
    """A cache that keeps programs: programs of their own, and plain loops."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RELAX_CACHE_PROGRAMS", "1")
    with Target(PLAIN_LOOPS):
        yield


class Held:
    """A full build that ends when it is told to: `now` lets it end, with an executable or an error."""

    def __init__(self, monkeypatch):
        self.go, self.error, self.requests = threading.Event(), None, []
        held = self

        class Build:
            def __init__(self, request, memory):
                held.requests.append(request)
                self.request = request

            def __call__(self):
                assert held.go.wait(SECONDS)
                if held.error is not None:
                    raise held.error
                with cache.disabled():
                    return driver._built(self.request.module, self.request.target, "default", self.request.exec_mode)

        monkeypatch.setattr(driver, "full_build", types.SimpleNamespace(
            FullBuild=Build, Request=full_build.Request, context_of=full_build.context_of))  # fmt: skip

    def now(self, vm):
        self.go.set()
        assert vm.wait_full(SECONDS), vm.executable.upgrade.error


@pytest.fixture
def held(monkeypatch):
    """See `Held`."""
    return Held(monkeypatch)


@contextlib.contextmanager
def upgrade_warning(text):
    """The build that ends inside of the block warns with this text."""
    with pytest.warns(UpgradeWarning, match=text):
        yield


def auto(mod=None, **options):
    """A machine of a program of tier auto."""
    return relax.VirtualMachine(relax.build(mod or main(BODY, PARAMS), tier="auto"), **options)


# ---------------------------------------------------------------------------------------- tier now


@pytest.mark.parametrize("tier", ["now", "auto"])
def test_a_pipeline_of_ones_own_has_no_other_tier(tier):
    with pytest.raises(ValueError, match=f"tier '{tier}' has a pipeline of its own"):
        relax.build(main(BODY, PARAMS), pipeline="unfused", tier=tier)
    with pytest.raises(ValueError, match="tier 'soon' is not known; there is: full, now, auto"):
        relax.build(main(BODY, PARAMS), tier="soon")


# --------------------------------------------------------------------------------------- tier auto


def test_another_process_builds_it_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(full_build.tempfile, "tempdir", str(tmp_path))
    vm = auto()
    same(vm["main"](X), Y)
    assert vm.wait_full(SECONDS)
    assert vm.tier == "full"
    same(vm["main"](X), Y)
    wait_until(lambda: not any(thread.name == "relax upgrade" for thread in threading.enumerate()))
    assert not list(tmp_path.glob("relax-*"))
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        names = [Path(f"/proc/{pid}/cmdline").read_text() for pid in children.read_text().split()]
        assert not any("full_build_process" in name for name in names)
    assert relax.build(main(BODY, PARAMS), tier="auto").tier == "full"


def test_handles_saved_calls_and_kept_arguments_stay(held):
    vm, out = auto(), np.zeros((2, 4), "float32")
    handle = vm["main"]
    vm.save_function("main", "kept", X)
    vm.set_input("main", X)
    vm.set_outputs("main", out)
    assert vm.tier == "now"
    same(handle(X), Y)
    held.now(vm)
    assert vm.tier == "full"
    same(handle(X), Y)
    same(handle(x=X), Y)
    same(vm["kept"](), Y)
    vm.invoke_stateful("main")
    same(vm.get_outputs("main"), Y)
    same(out, Y)
    with pytest.raises(TypeError, match="main"):
        handle()
    assert vm.memory_stats().peak >= 0
    assert vm.release_memory() >= 0


def test_instruments_and_tracers_watch_the_full_program(held):
    vm, seen, traced = auto(), [], []
    vm.set_instrument(lambda func, name, before, value, *args: seen.append(name))
    held.now(vm)
    vm["main"](X)
    assert any("fused" in name for name in seen)
    vm.set_instrument(None)
    seen.clear()
    vm.set_tracer(lambda call: traced.append(call.name))
    vm["main"](X)
    assert not seen
    assert any("fused" in name for name in traced)


def test_profiles_and_checks_of_numerics(held):
    vm = auto(profile=True, check_numerics="nan")
    held.now(vm)
    assert "fused" in str(vm.profile("main", X))
    with pytest.raises(NumericsError):
        auto(main("y = R.add(R.log(x), R.const(1.0))\nreturn y", PARAMS), check_numerics="nan")["main"](-1 - X)


def test_all_machines_of_an_executable_change_and_later_ones_begin_so(held):
    executable = relax.build(main(BODY, PARAMS), tier="auto")
    machines = [relax.VirtualMachine(executable) for _ in range(3)]
    held.now(machines[0])
    later = relax.VirtualMachine(executable)
    assert {vm.tier for vm in (*machines, later)} == {"full"}
    for vm in (*machines, later):
        same(vm["main"](X), Y)


def test_threads_call_while_the_tier_changes():
    mod = main(BODY, PARAMS)
    now, full = relax.build(mod, tier="now"), relax.build(mod)
    vm, stop, wrong = relax.VirtualMachine(now), threading.Event(), []
    handle = vm["main"]

    def call(number):
        x = X + number
        while not stop.is_set():
            try:
                same(handle(x), np.maximum(x - 1, 0))
            except BaseException as error:  # noqa: BLE001
                wrong.append(error)
                return

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for i in range(100):
        vm.take_over((full, now)[i % 2])
    stop.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_goes_on_and_can_wait():
    """In a process of its own, without the test's threads: the child builds for itself."""
    text = f"""
import os, sys
import numpy as np
import relax
from relax.script import from_source
from support import main
vm = relax.VirtualMachine(relax.build(main({BODY!r}, {PARAMS!r}), {PLAIN_LOOPS!r}, tier="auto"))
x = np.ones((2, 4), "float32")
pid = os.fork()
if not pid:
    vm["main"](x)
    good = vm.wait_full({SECONDS}) and vm.tier == "full" and not vm["main"](x).numpy().any()
    os._exit(0 if good else 3)
assert vm.wait_full({SECONDS})
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=2 * SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


def test_builds_of_one_process_take_turns(monkeypatch):
    running, most = [], []
    run = subprocess.run

    def counted(*args, **options):
        running.append(args)
        most.append(len(running))
        try:
            return run(*args, **options)
        finally:
            running.pop()

    monkeypatch.setattr(full_build.subprocess, "run", counted)
    vms = [
        relax.VirtualMachine(relax.build(main(BODY.replace("1.0", f"{i}.0"), PARAMS), tier="auto")) for i in range(3)
    ]
    assert all(vm.wait_full(SECONDS) for vm in vms)
    assert most == [1, 1, 1]


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions share processors by processes here")
def test_the_process_lets_other_sessions_come_first():
    text = (
        "from relax.vm import full_build_process as p; p._yield_to_others(); print(open('/proc/self/autogroup').read())"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stdout.split()[-2:] == ["nice", str(full_build.NICENESS)]


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process ended with -9"),
        ("import sys; sys.exit('error[E4001]: no kernel')", "E4001"),
        ("print()", "its process ended with 0"),
    ],
)
def test_a_build_that_fails_is_a_warning(monkeypatch, program, text):
    monkeypatch.setattr(full_build, "_START", program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vm = auto()
        assert not vm.wait_full(SECONDS)
    (warning,) = [w for w in caught if w.category is UpgradeWarning]
    assert "the program stays at tier 'now', because its full build failed" in str(warning.message)
    assert text in str(warning.message)
    assert vm.tier == "now"
    same(vm["main"](X), Y)


def test_a_missing_interpreter_is_a_warning(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with upgrade_warning("No such file"):
        vm = auto()
        assert not vm.wait_full(SECONDS)
    same(vm["main"](X), Y)


def test_an_error_of_the_build_is_kept(held):
    held.error = RuntimeError("no memory")
    vm = auto()
    with upgrade_warning("no memory"):
        held.go.set()
        assert not vm.wait_full(SECONDS)
    assert vm.executable.upgrade.error is held.error


def test_a_machine_that_cannot_change_does_not_keep_others_from_it():
    mod = main(BODY, PARAMS)
    now, full = relax.build(mod, tier="now"), relax.build(mod)
    go = threading.Event()
    now.upgrade = Upgrade(lambda: go.wait(SECONDS) and full)
    machines = [relax.VirtualMachine(now) for _ in range(4)]

    def fail(executable):
        raise OSError("no room")

    machines[1].take_over = fail
    with upgrade_warning("no room"):
        go.set()
        now.upgrade.wait(SECONDS)
    assert [vm.tier for vm in machines] == ["full", "now", "full", "full"]
    assert [vm.wait_full(SECONDS) for vm in machines] == [True, False, True, True]


def test_a_wait_ends(held):
    vm = auto()
    assert vm.wait_full(0) is False
    held.now(vm)
    assert relax.VirtualMachine(relax.build(main(BODY, PARAMS), tier="now")).wait_full(1) is False


def test_without_a_cache_it_is_full_at_once(monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_PROGRAMS", "0")
    vm = auto()
    assert vm.tier == "full"
    assert vm.executable.upgrade is None
    same(vm["main"](X), Y)


def test_the_build_has_the_pass_context(held):
    with PassContext(opt_level=1, disabled_pass=["FuseOps"]):
        vm = auto()
    context = held.requests[0].in_context()
    assert (context.opt_level, list(context.disabled_pass)) == (1, ["FuseOps"])
    held.now(vm)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_constants_in_memory(dtype):
    """Large ones are mapped by the other process; one of them is used twice, and one is no compact array."""
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    weights = np.random.default_rng(0).integers(0, 2, (300, 300)).astype(kind)
    mod = main(
        "return (R.where(c, R.equal(x, w), c), R.equal(w, v))",
        f'x: R.Tensor((300, 300), "{dtype}"), c: R.Tensor((300, 300), "bool"), w: R.Tensor((300, 300), "{dtype}"), '
        f'v: R.Tensor((300, 300), "{dtype}")',
    )
    vm = auto(BindParams("main", {"w": weights, "v": weights.T})(mod))
    cond = np.ones((300, 300), bool)
    expected = [weights == weights.T, weights == weights.T]
    same(vm["main"](np.ascontiguousarray(weights.T), cond), expected)
    assert vm.wait_full(SECONDS), vm.executable.upgrade.error
    same(vm["main"](np.ascontiguousarray(weights.T), cond), expected)


def test_constants_in_files(tmp_path):
    onnx = pytest.importorskip("onnx")
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 64])],
        [helper.make_tensor_value_info("y", 1, [2, 64])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "model.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path), save_as_external_data=True, size_threshold=0)
    vm = auto(from_onnx(str(path)))
    x = np.ones((2, 64), "float32")
    same(vm["main"](x), x @ weights, 1e-4, 1e-4)
    assert vm.wait_full(SECONDS), vm.executable.upgrade.error
    same(vm["main"](x), x @ weights, 1e-4, 1e-4)
