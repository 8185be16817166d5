"""Keys of kernels: the files that generate kernels are listed, and no others count."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import import_graph
import make_homes
import relax
from relax import codegen, tir
from relax.farm import _generator, cache, versions
from relax.script import ir as I
from relax.script import relax as R

PACKAGE = Path(relax.__file__).parent


@I.ir_module
class Model:
    """Kernels with parallel loops, tiles, elementary functions, and checks of sizes."""

    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 64), "float32"), i: R.Tensor(("n",), "int64")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(R.erf(a))
            c = R.take(R.floor(b), i, axis=0)
            d = R.sort(R.astype(c, "float16"))
            R.output(d)
        return d


GENERATE = """
import pickle, sys
name, func, target, machine, llvm = pickle.load(sys.stdin.buffer)
from relax.codegen.module import kernel_texts
from relax.farm.worker import LLVMTarget, emit_object
from relax.ir import IRModule
from relax.ir.provided import provide
from relax.tir import PrimFunc
from relax.tir.transform.lower import lower
provide("printer", None)  # a few messages show expressions, in the printer's words
target = target.with_machine(machine)
lowered = lower(IRModule({name: func}), target).functions.items()
for kernel in kernel_texts({g.name_hint: f for g, f in lowered if isinstance(f, PrimFunc)}, target):
    assert emit_object(kernel.text, LLVMTarget(*llvm))
import json
print(json.dumps({n: m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "relax"}))
"""


@pytest.fixture(scope="module")
def scheduled():
    """The scheduled kernels of `Model`, by name."""
    with pytest.MonkeyPatch.context() as patch:
        found = {}
        look = codegen.KernelMemory.recall
        patch.setattr(codegen.KernelMemory, "recall", lambda self, mod: found.update(mod.functions) or look(self, mod))
        with cache.disabled():
            relax.build(Model, "llvm")
    return {g.name_hint: func for g, func in found.items() if isinstance(func, tir.PrimFunc)}


def test_the_list_has_all_modules_that_generating_loads(scheduled):
    """Modules are loaded when they are used, so a process of its own generates the kernels, from their pickles."""
    target = codegen.resolve()
    llvm = (target.triple, target.mcpu, target.features, target.opt_level)
    loaded = {}
    for name, func in scheduled.items():
        job = pickle.dumps((name, func, target, target.machine, llvm))
        done = subprocess.run([sys.executable, "-c", GENERATE], input=job, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        loaded |= json.loads(done.stdout)
    files = {Path(file).relative_to(PACKAGE).as_posix() for file in loaded.values()}
    code = {name for name in files if not name.endswith(("__init__.py", "_homes.py"))}
    code = {name for name in code if not name.startswith("runtime/")}  # a room that is loaded as a whole
    code -= {"farm/cache.py", "farm/store.py"}  # a name of `relax.codegen`
    assert len(code) > 100
    assert code <= set(_generator.FILES)


def test_the_list_has_only_what_is_imported():
    assert set(_generator.FILES) == make_homes.generator_files()
    rooms = {name.partition("/")[0] for name in _generator.FILES}
    assert rooms == {"ir", "target", "prim", "tir", "native", "farm", "codegen", "runtime"}
    for room in ("tir/schedule/primitives", "codegen/support/", "farm/store.py", "farm/recall.py", "runtime/vm.py"):
        assert not [name for name in _generator.FILES if name.startswith(room)]


def test_needed_modules_are_found_through_packages(tmp_path):
    files = {
        "__init__": "",
        "start": "from .rooms import b, Late, shown\nfrom .rooms.deep import deeper",
        "rooms/__init__": "from .own import x\ndef shown(): pass",
        "rooms/b": "import relax.alone",
        "rooms/own": "",
        "rooms/late": "if TYPE_CHECKING:\n    from .. import typed",
        "rooms/deep/__init__": "",
        "rooms/deep/found": "def f():\n    from .. import unused",
        "rooms/unused": "",
        "alone": "",
        "typed": "",
        "other": "from . import start",
    }
    for name, text in files.items():
        path = tmp_path / "relax" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    homes = {"relax.rooms": {"Late": ".late"}, "relax.rooms.deep": {"deeper": ".found:deep"}}
    found = import_graph.needed(tmp_path / "relax", ["relax.start"], homes)
    inside = {"start", "rooms", "rooms.b", "rooms.own", "rooms.late", "rooms.deep.found", "rooms.unused", "alone"}
    assert found == {f"relax.{name}" for name in inside}


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the package's files, which a test may edit as another version would."""
    for name in (*_generator.FILES, "transform/legalize_ops.py", "farm/recall.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((PACKAGE / name).read_bytes())
    monkeypatch.setattr(versions, "_ROOT", tmp_path)
    monkeypatch.setattr(versions, "_LOADED", float("inf"))
    versions.compiler_files.cache_clear()
    yield tmp_path
    versions.compiler_files.cache_clear()


def edited(folder, name):
    """The digest of the generator's files after an edit."""
    path = folder / name
    path.write_text(path.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
    versions.compiler_files.cache_clear()
    return versions.generator_files()


def test_another_version_with_the_same_generator_has_the_same_keys(copied):
    before = versions.generator_files()
    assert before is not None
    assert edited(copied, "transform/legalize_ops.py") == before
    assert edited(copied, "farm/recall.py") == before
    for name in ("tir/transform/vectorize_loop.py", "codegen/stmt.py", "farm/worker.py", "runtime/messages.py"):
        after = edited(copied, name)
        assert after not in (before, None)
        before = after


def test_without_its_files_there_is_no_key(copied):
    (copied / "codegen/stmt.py").unlink()
    versions.compiler_files.cache_clear()
    assert versions.generator_files() is None
    assert not versions.generator_unedited()


def test_files_are_read_again_only_if_they_were_modified(copied, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    cache.store(cache.key_of("an object", "there is a cache"), b"")
    read, contents = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or contents(path))
    before = versions.generator_files()
    assert len(read) == len(_generator.FILES)
    versions.compiler_files.cache_clear()
    assert versions.generator_files() == before
    assert len(read) == len(_generator.FILES)
    assert edited(copied, "codegen/stmt.py") != before
