"""Whole programs in the cache: what is found again, what is another program, and that nothing there can break a build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

import relax
from relax.farm import background_writes, cache
from relax.ir.transform import PassContext, PassInstrument, module_pass
from relax.op import Operator
from relax.op.operator import operator
from relax.runtime import mapping, numpy_view
from relax.script import from_source
from relax.struct_info import TensorStructInfo
from relax.target import Target
from relax.vm import recall as programs
from support import PLAIN_LOOPS

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((160, 128)).astype("float32")
BIAS = RNG.standard_normal(128).astype("float32")


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty cache of the test's own that keeps programs, statistics that start at nothing, and plain loops."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("RELAX_CACHE", "RELAX_CACHE_PROGRAMS", "RELAX_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)
    cache.statistics.reset()
    with Target(PLAIN_LOOPS):
        yield tmp_path / "cache" / "kernels"


def perceptron(weights=WEIGHTS, bias=BIAS, last="R.nn.relu(b)"):
    """relu(x @ weights + bias) for any number of rows, or another last operator."""
    source = f"""
from relax.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 160), "float32"), w: R.Tensor((160, 128), "float32"), c: R.Tensor((128,), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.add(a, c)
            y = {last}
            R.output(y)
        return y
"""
    return relax.transform.BindParams("main", {"w": weights, "c": bias})(from_source(source))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A cache with `perceptron()`, its kernels included, for tests of what is done to it."""
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELAX_CACHE_DIR", str(folder))
        for name in ("RELAX_CACHE", "RELAX_CACHE_PROGRAMS", "RELAX_CACHE_SIZE"):
            patch.delenv(name, raising=False)
        relax.build(perceptron())
    return folder / "kernels"


@pytest.fixture
def packed(fresh):
    """The test's own cache, and schedules that pack constants: they are in the files of programs."""
    with Target("llvm"):
        yield fresh


@pytest.fixture
def kept(packed, built):
    """The test's own cache, in which there is `perceptron()`, scheduled."""
    packed.parent.mkdir(mode=0o700)
    shutil.copytree(built, packed)
    return packed


def tiny(last="R.nn.relu(x)"):
    """A program that takes little time to build, for tests that do not run it."""
    return from_source(
        "from relax.script import relax as R\n@R.function\n"
        f'def main(x: R.Tensor(("n",), "float32")):\n    return {last}\n'
    )


def run(executable, n=3):
    x = np.linspace(-1, 1, n * 160, dtype="float32").reshape(n, 160)
    return relax.VirtualMachine(executable, relax.cpu())["main"](x).numpy()


def wanted(weights=WEIGHTS, bias=BIAS, n=3):
    x = np.linspace(-1, 1, n * 160, dtype="float32").reshape(n, 160)
    return np.maximum(x @ weights + bias, 0)


def found(build):
    """What a build gives, and if it was in the cache."""
    before = cache.statistics.programs
    result = build()
    return result, cache.statistics.programs > before


def is_found(mod, **options):
    return found(lambda: relax.build(mod, **options))[1]


# ------------------------------------------------------------------------- what is kept and found


@pytest.mark.usefixtures("packed")
def test_a_second_build_is_loaded():
    first = relax.build(perceptron())
    assert (cache.statistics.programs, cache.statistics.programs_stored) == (0, 1)
    second, loaded = found(lambda: relax.build(perceptron()))
    assert loaded
    assert first.to_bytes() == second.to_bytes()
    for n in (0, 1, 3, 17):
        np.testing.assert_array_equal(run(first, n), run(second, n))
        np.testing.assert_allclose(run(second, n), wanted(n=n), rtol=1e-4, atol=1e-4)


def test_parameters_given_to_build_are_constants():
    source = from_source(
        "from relax.script import relax as R\n@R.function\n"
        'def main(x: R.Tensor(("n", 160), "float32"), w: R.Tensor((160, 128), "float32")):\n    return R.matmul(x, w)\n'
    )
    assert not is_found(source, params={"w": WEIGHTS})
    assert is_found(source, params={"w": WEIGHTS.copy()})
    assert not is_found(source, params={"w": WEIGHTS + 1})
    assert not is_found(source)


def test_what_is_loaded_has_names_for_profiles_and_errors():
    executables = [relax.build(perceptron()) for _ in range(2)]
    assert executables[0].as_text() == executables[1].as_text()
    assert executables[0].debug == executables[1].debug


def test_another_process_finds_it():
    """Though the first one, where a thread writes it, ends as soon as it has run it."""
    code = (
        "import numpy as np, relax\nfrom relax.codegen import cache\nfrom relax.script import relax as R\n"
        "relax.vm.recall._LATER = 0\n"
        "@R.function\ndef main(x: R.Tensor(('n',), 'float32')):\n    return R.exp(x)\n"
        "print(relax.VirtualMachine(relax.build(main, exec_mode='bytecode'), relax.cpu())['main'](np.zeros(2, 'float32')).numpy().sum())\n"
        "print(cache.statistics.programs)\n"
    )
    path = os.path.join(os.environ["RELAX_CACHE_DIR"], "program.py")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(code)
    runs = [subprocess.check_output([sys.executable, path], text=True).split() for _ in range(2)]
    assert runs == [["2.0", "0"], ["2.0", "1"]]


def test_constants_that_the_module_has_are_not_kept_twice(fresh):
    table = RNG.standard_normal((4096, 64)).astype("float32")
    source = from_source(
        "from relax.script import relax as R\n@R.function\n"
        'def main(i: R.Tensor(("n",), "int64"), t: R.Tensor((4096, 64), "float32")):\n    return R.take(t, i, axis=0)\n'
    )
    relax.build(source, params={"t": table})
    assert sum(path.stat().st_size for path in fresh.glob("*.program")) < table.nbytes // 4
    executable, loaded = found(lambda: relax.build(source, params={"t": table}))
    rows = np.array([0, 4095, 7])
    assert loaded
    result = relax.VirtualMachine(executable, relax.cpu())["main"](rows)
    np.testing.assert_array_equal(result.numpy(), table[rows])
    again = relax.runtime.Executable.from_bytes(executable.to_bytes())  # which has all of them
    np.testing.assert_array_equal(relax.VirtualMachine(again, relax.cpu())["main"](rows).numpy(), table[rows])


def test_the_names_of_passes_are_told_as_if_they_had_run():
    traces = []
    for _ in range(2):
        with PassContext() as context:
            relax.build(tiny())
        traces.append(context.trace)
    assert cache.statistics.programs == 1
    assert traces[0] == traces[1] != []


# ------------------------------------------------------------------------- what is another program


@pytest.mark.parametrize("edit", [
    lambda w: w + 0,
    lambda w: np.where(np.arange(w.size).reshape(w.shape) == w.size - 1, np.nextafter(w, 9), w),
    lambda w: w.reshape(128, 160).T,
    lambda w: np.where(w == w[5, 5], np.float32(np.nan), w),
], ids=["nothing", "the last element", "another order", "a NaN"])  # fmt: skip
@pytest.mark.usefixtures("kept")
def test_another_constant_is_another_program(edit):
    edited = np.ascontiguousarray(edit(WEIGHTS))
    executable, loaded = found(lambda: relax.build(perceptron(edited)))
    assert loaded == (edited.tobytes() == WEIGHTS.tobytes())
    np.testing.assert_allclose(run(executable), wanted(edited), rtol=1e-4, atol=1e-4)


def test_small_constants_count_to_the_sign_of_zero():
    for bias in (np.zeros(128, "float32"), np.full(128, -0.0, "float32")):
        assert not is_found(perceptron(bias=bias))


def test_the_dtype_and_the_shape_of_constants_count():
    data = RNG.integers(0, 9, (64, 512))
    arrays = [data.astype(dtype) for dtype in ("int16", "float16", ml_dtypes.bfloat16)]
    arrays += [array.reshape(512, 64) for array in arrays]
    for array in arrays:
        raw = np.full(array.shape, 3, "int16").view(array.dtype)  # the same bytes in all of them
        assert not is_found(relax.Function([], relax.const(raw)).with_attr("global_symbol", "main"))


def test_what_else_decides_a_program():
    variants = [
        {},
        {"target": "llvm -opt-level=2"},
        {"target": "llvm -num-cores=7"},
        {"pipeline": "unfused"},
        {"exec_mode": "bytecode"},
    ]
    for options in variants:
        assert not is_found(tiny(), **options)
    for options in variants:
        assert is_found(tiny(), **options)
    assert not is_found(tiny("R.tanh(x)"))


def test_options_of_the_context_count():
    for options in ({"opt_level": 0}, {"disabled_pass": ["FuseOps"]}, {"config": {"some.option": 1}}):
        for again in (False, True):
            with PassContext(**options):
                assert is_found(tiny()) == again


def test_places_in_the_source_count():
    """An error at run time names them."""
    lines = 'from relax.script import relax as R\n{}@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    return R.exp(x)\n'
    assert not is_found(from_source(lines.format("")))
    assert not is_found(from_source(lines.format("\n")))
    assert is_found(from_source(lines.format("")))


def test_an_edited_compiler_finds_nothing(monkeypatch):
    relax.build(tiny())
    monkeypatch.setattr(programs, "compiler_files", lambda rooms: "edited")
    assert not is_found(tiny())
    monkeypatch.setattr(programs, "compiler_files", lambda rooms: None)
    assert not is_found(tiny())
    assert "edited since they were loaded" in str(cache.statistics.programs_missed)


# ------------------------------------------------------------------------- what is built each time


@module_pass
def Nothing(mod, ctx):
    return mod


class Counter(PassInstrument):
    def __init__(self):
        self.passes = 0

    def run_after_pass(self, mod, info, changed):
        self.passes += 1


@pytest.mark.parametrize("pipeline", [
    relax.get_pipeline("default"), lambda mod: relax.get_pipeline("default")(mod)
], ids=["a pass", "a function"])  # fmt: skip
def test_what_no_key_describes_is_built_each_time(pipeline):
    for _ in range(2):
        assert not is_found(tiny(), pipeline=pipeline)
    assert cache.statistics.programs_stored == 0
    assert "its pipeline is not one of relax's own" in str(cache.statistics.programs_missed)


def test_instruments_see_every_build():
    relax.build(tiny())
    counts = []
    for _ in range(2):
        counter = Counter()
        with PassContext(instruments=[counter]):
            relax.build(tiny())
        counts.append(counter.passes)
    assert counts[0] == counts[1] > 20
    assert cache.statistics.programs == 0


class Watcher(Counter):
    needs_passes = False


def test_an_instrument_may_only_show_what_goes_on():
    counts, mod = [], tiny()
    for _ in range(2):
        watcher = Watcher()
        with PassContext(instruments=[watcher]):
            relax.build(mod)
        counts.append(watcher.passes)
    assert cache.statistics.programs == 1
    assert counts[1] == 0 < counts[0]


def test_a_program_for_another_machine_is_built_each_time(fresh):
    for _ in range(2):
        assert not is_found(tiny(), target="llvm -mtriple=aarch64-unknown-linux-gnu")
    assert list(fresh.glob("*.program")) == []


def test_operators_with_facts_from_elsewhere_are_built_each_time(monkeypatch):
    relax.build(tiny())
    op = relax.ir.Op.get("relax.nn.relu")
    monkeypatch.setitem(op.facts(), "FLegalize", lambda builder, call: relax.op.tanh(call.args[0]))
    for _ in range(2):
        assert not is_found(tiny())
    assert "something was registered for operator relax.nn.relu" in str(cache.statistics.programs_missed)


@operator("relax.testing.of_somebody")
class OfSomebody(Operator):
    """An operator that is registered, for the rest of the process, outside of relax."""

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return x


def test_an_operator_of_somebody_else_matters_where_it_is_used():
    relax.build(tiny())
    assert is_found(tiny())
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.Call(relax.ir.Op.get("relax.testing.of_somebody"), [x])))
    with pytest.raises(programs.NotDescribed, match="something was registered for operator relax.testing.of_somebody"):
        programs._described(bb.get())


def test_a_warning_is_told_again(monkeypatch):
    built = relax.vm.driver._built

    def warning(*arguments):
        relax.ir.emit_warning(relax.ir.Diagnostic("W0001", "told by a pass", level="warning"))
        return built(*arguments)

    monkeypatch.setattr(relax.vm.driver, "_built", warning)
    for _ in range(2):
        with pytest.warns(relax.ir.RelaxWarning, match="told by a pass"):
            relax.build(tiny())
    assert cache.statistics.programs_stored == 0


@pytest.mark.parametrize("variable", ["RELAX_CACHE", "RELAX_CACHE_PROGRAMS"])
def test_it_can_be_switched_off(monkeypatch, fresh, variable):
    relax.build(tiny())
    monkeypatch.setenv(variable, "0")
    assert not is_found(tiny())
    assert len(list(fresh.glob("*.program"))) == 1


def test_nothing_is_found_without_the_cache():
    with cache.disabled():
        for _ in range(2):
            assert not is_found(tiny())
    assert cache.statistics.programs_stored == 0


# ------------------------------------------------------------------------- what is damaged, or no file


def file_of(folder):
    (only,) = folder.glob("*.program")
    return only


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:40], lambda data: data[:-1], lambda data: data + b"x",
    lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    lambda data: data[:-70] + bytes([data[-70] ^ 1]) + data[-69:],
])  # fmt: skip
def test_a_damaged_file_is_built_again(kept, damage):
    path = file_of(kept)
    intact = path.read_bytes()
    path.write_bytes(damage(intact))
    executable, loaded = found(lambda: relax.build(perceptron()))
    assert not loaded
    np.testing.assert_allclose(run(executable), wanted(), rtol=1e-4, atol=1e-4)
    assert cache.statistics.programs_missed["its entry is corrupted"] == 1
    assert path.read_bytes() == intact
    assert is_found(perceptron())


def test_the_file_of_another_program_is_not_run(kept):
    first = file_of(kept)
    relax.build(perceptron(bias=BIAS + 1))
    (second,) = set(kept.glob("*.program")) - {first}
    second.write_bytes(first.read_bytes())
    np.testing.assert_allclose(run(relax.build(perceptron(bias=BIAS + 1))), wanted(bias=BIAS + 1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(run(relax.build(perceptron())), wanted(), rtol=1e-4, atol=1e-4)
    assert cache.statistics.programs == 1


@pytest.mark.parametrize("note", [
    b"", b"{}", b"[1]", b"null", b"\xff", b'{"file": 1}', b'{"file": "zz", "constants": {}, "passes": []}',
    b'{"file": "00", "constants": {"99": "00"}, "passes": []}', b'{"file": "00", "constants": {}, "passes": []}',
])  # fmt: skip
@pytest.mark.usefixtures("kept")
def test_a_damaged_note_is_built_again(note):
    mod = perceptron()
    memory = programs.recall_program(mod, relax.codegen.resolve(), "default", "compiled")
    assert cache.note(memory.key, note)
    executable, loaded = found(lambda: relax.build(mod))
    assert not loaded
    np.testing.assert_allclose(run(executable), wanted(), rtol=1e-4, atol=1e-4)
    assert is_found(mod)


@pytest.mark.skipif(os.name != "posix", reason="special files")
@pytest.mark.parametrize("make", [
    os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path.name),
    lambda path: (path.touch(), os.truncate(path, 1 << 40)), lambda path: path.touch(),
], ids=["fifo", "directory", "link to a device", "link to itself", "a terabyte", "empty file"])  # fmt: skip
def test_what_is_no_file_fails_no_build(kept, make):
    path = file_of(kept)
    path.unlink()
    make(path)
    executable, loaded = found(lambda: relax.build(perceptron()))
    assert not loaded
    np.testing.assert_allclose(run(executable), wanted(), rtol=1e-4, atol=1e-4)


def test_a_file_that_is_gone_is_written_again(fresh):
    relax.build(tiny())
    file_of(fresh).unlink()
    assert not is_found(tiny())
    assert cache.statistics.programs_missed["its file is not there any more"] == 1
    assert is_found(tiny())


@pytest.mark.parametrize("call", ["os.replace", "tempfile.mkstemp"])
def test_a_full_disk_fails_no_build_and_leaves_nothing(fresh, monkeypatch, call):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"relax.farm.store.{call}", full)
    np.testing.assert_allclose(run(relax.build(perceptron())), wanted(), rtol=1e-4, atol=1e-4)
    assert list(fresh.iterdir()) == []
    assert cache.statistics.programs_stored == 0


def test_threads_that_cannot_be_started_fail_no_build(monkeypatch):
    def refused(*arguments, **options):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(programs.ThreadPoolExecutor, "submit", refused)
    np.testing.assert_allclose(run(relax.build(perceptron())), wanted(), rtol=1e-4, atol=1e-4)


def test_a_miss_is_explained():
    relax.build(tiny())
    relax.build(tiny(), "llvm -opt-level=2")
    relax.build(tiny("R.tanh(x)"))
    elsewhere = "it was built for another target, with other options or by another version"
    assert cache.statistics.programs_missed == {"this program was not built before": 2, elsewhere: 1}


# ------------------------------------------------------------------------- what is written later


@pytest.fixture
def late(monkeypatch):
    """Every program is written by a thread, as large ones are, which waits until this event is set."""
    go, store = threading.Event(), cache.store_program
    monkeypatch.setattr(programs, "_LATER", 0)
    monkeypatch.setattr(cache, "store_program", lambda *arguments: go.wait(60) and store(*arguments))
    yield go
    go.set()
    background_writes.wait_for_all()


def test_a_program_can_run_before_it_is_written(fresh, late):
    np.testing.assert_allclose(run(relax.build(perceptron())), wanted(), rtol=1e-4, atol=1e-4)
    assert list(fresh.glob("*.program")) == []
    late.set()
    background_writes.wait_for_all()
    assert file_of(fresh)


def test_the_next_build_waits_until_it_is_written(late):
    relax.build(perceptron())
    threading.Timer(0.2, late.set).start()
    assert is_found(perceptron())


def test_what_is_written_to_a_constant_in_the_meantime_makes_a_damaged_file(late):
    mod = relax.Function([], relax.op.add(relax.const(WEIGHTS), relax.const(1.0))).with_attr("global_symbol", "main")
    first = relax.build(mod)
    (constant,) = [value for value in first.constants if isinstance(value, tvm_ffi.Tensor)]
    np.from_dlpack(constant)[...] = 0
    late.set()
    executable, loaded = found(lambda: relax.build(mod))
    assert not loaded
    assert cache.statistics.programs_missed["its entry is corrupted"] == 1
    again = relax.VirtualMachine(executable, relax.cpu())["main"]()
    np.testing.assert_array_equal(again.numpy(), WEIGHTS + 1)


def test_a_disk_that_is_full_later_fails_nothing(fresh, monkeypatch, late):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    relax.build(perceptron())
    monkeypatch.setattr("relax.farm.store.os.replace", full)
    late.set()
    background_writes.wait_for_all()
    assert list(fresh.glob("*.program")) == []
    assert cache.statistics.problems == 1
    assert not is_found(perceptron())


# ------------------------------------------------------------------------- room


def test_programs_leave_room_for_kernels(packed, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_SIZE", "1M")
    for i in range(8):
        mod = perceptron(WEIGHTS + i, last=f"R.add(b, R.const({i}.0))")
        relax.build(mod)
        assert is_found(mod)
        os.utime(file_of_newest(packed), (1e9 + i,) * 2)
        cache.prune()
        sizes = [path.stat().st_size for path in packed.glob("*.program")]
        assert 0 < sum(sizes) <= 3 << 18
    assert is_found(mod)
    assert len(list(packed.iterdir())) > 8  # kernels and notes are small, and all there


def file_of_newest(folder):
    return max(folder.glob("*.program"), key=lambda path: path.stat().st_mtime)


def test_a_program_without_room_is_not_kept(packed, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_SIZE", "60K")
    relax.build(perceptron())
    assert "its constants take" in str(cache.statistics.programs_missed)
    assert list(packed.glob("*.program")) == []


_BUILD = """
import sys
import numpy as np, relax
from relax.codegen import cache
from relax.script import relax as R
@R.function
def main(x: R.Tensor(("n", 1, 64), "float32"), w: R.Tensor((64, 64), "float32")):
    return R.exp(R.multiply(x, w))
for i in range(6):
    if i % 3 == 2:
        cache.clear()
    executable = relax.build(main, "llvm -opt-level=1", params={"w": np.full((64, 64), i % 2, "float32")})
    out = relax.VirtualMachine(executable, relax.cpu())["main"](np.zeros((2, 1, 64), "float32"))
    assert (out.numpy() == 1).all()
"""


def test_concurrent_builders(tmp_path):
    """Processes that write, read and remove the same programs at the same time."""
    path = tmp_path / "program.py"
    path.write_text(_BUILD)
    workers = [subprocess.Popen([sys.executable, str(path)], stderr=subprocess.PIPE) for _ in range(3)]
    for worker in workers:
        _, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors.decode()


def test_memory_of_a_loaded_program_is_its_own():
    """What somebody writes to a result that is a constant changes neither the module nor the file."""
    mod = relax.Function([], relax.const(WEIGHTS)).with_attr("global_symbol", "main")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"]()
        np.testing.assert_array_equal(result.numpy(), WEIGHTS)
        np.from_dlpack(result)[...] = 0
    assert cache.statistics.programs == 1


def test_constants_of_a_large_program_are_in_its_file(packed, monkeypatch):
    """And stay what they are when the file is removed, or somebody writes to them."""
    monkeypatch.setattr(mapping, "_FAULTS", 1 << 20)  # also where the system has no large pages for files
    weights = RNG.standard_normal((1024, 1500)).astype("float32")
    source = from_source(
        "from relax.script import relax as R\n@R.function\n"
        'def main(x: R.Tensor(("n", 1024), "float32"), w: R.Tensor((1024, 1500), "float32")):\n    return R.matmul(x, w)\n'
    )
    relax.build(source, params={"w": weights})
    before = file_of(packed).read_bytes()
    executables = [relax.build(source, params={"w": weights}) for _ in range(2)]
    assert cache.statistics.programs == 2
    for constant in executables[0].constants:
        if isinstance(constant, tvm_ffi.Tensor):
            numpy_view(constant)[...] = 0
    assert file_of(packed).read_bytes() == before
    cache.clear()
    x = RNG.standard_normal((3, 1024)).astype("float32")
    result = relax.VirtualMachine(executables[1], relax.cpu())["main"](x).numpy()
    np.testing.assert_allclose(result, x @ weights, rtol=1e-3, atol=1e-3)
