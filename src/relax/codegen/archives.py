"""Archives of kernels' objects: what is compiled, and what was compiled before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final

from ..farm.kernel_text import KernelText
from ..farm.objects import compiled_objects, machine_of
from ..farm.recall import NOTHING, Recall
from ..farm.worker_processes import Compilers
from ..runtime.archive import write_archive
from ..runtime.forks import hold_at_fork
from ..runtime.native import CELLS
from ..runtime.records import dataclass
from ..runtime.threads import LAUNCH
from ..target import Target
from .support_objects import any_processor, cell_support, keep_shared, kernel_support, library_support, thread_pool


@dataclass
class CompileStatistics:
    """Counts of compilations since the start of the process (or `reset`)."""

    modules: int = 0
    """Modules built into an archive, compiled or taken from the cache."""
    functions: int = 0
    llvm_runs: int = 0
    """Objects compiled by LLVM because they were not in the cache."""
    seconds: float = 0.0
    """Seconds spent building archives: compiling, and most of writing LLVM IR."""

    def reset(self) -> None:
        """Reset all counts."""
        self.__init__()


statistics: Final = CompileStatistics()
_lock = threading.Lock()
hold_at_fork(_lock)


def compile_count() -> int:
    """Number of kernel modules compiled or taken from the cache so far. Running compiled code does not change it."""
    return statistics.modules


def compile_texts(
    texts: Iterable[KernelText],
    target: Target,
    compilers: Compilers,
    order: Sequence[str] = (),
    remembered: Recall = NOTHING,
) -> bytes:
    """Return an archive of the objects of kernels: compiled from their texts, or `remembered`, and of support code.

    They are in the `order` of their functions.
    """
    start = time.perf_counter()
    made, compiled = compiled_objects(texts, target, compilers)
    keep_shared(compilers, target)
    remembered.remember(made)
    units = [(unit.data, unit.kernel.names, remembered.messages(unit.kernel)) for unit in made]
    units += [(data, kernel.names, kernel.messages) for kernel, data in remembered.recalled.values()]
    if order:  # texts come in the order in which they were written
        places = {name: place for place, name in enumerate(order)}
        units.sort(key=lambda unit: places[unit[1][0]])
    functions = sum(len(names) for _, names, _ in units)
    symbols = {symbol for unit in made for symbol in unit.kernel.support}
    symbols.update(symbol for kernel, _ in remembered.recalled.values() for symbol in kernel.support)
    support = kernel_support(machine_of(target)).data
    if LAUNCH in symbols:
        units.append((thread_pool(machine_of(target)).data, (), ()))
    if CELLS in symbols:
        units.append((cell_support(any_processor(target)).data, (), ()))
        units.append((library_support(any_processor(target)).data, (), ()))
    data = write_archive([(support, (), ()), *units])
    with _lock:
        statistics.modules += 1
        statistics.functions += functions
        statistics.llvm_runs += compiled
        statistics.seconds += time.perf_counter() - start
    return data
