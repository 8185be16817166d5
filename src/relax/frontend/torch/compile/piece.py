"""CompiledPiece: a piece of a graph, imported, built at its first call, and called with tensors of torch."""

from __future__ import annotations

import os
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, cast
from weakref import WeakValueDictionary

from tvm_ffi import Shape

from .... import op
from ....expr import Function, Tuple
from ....ir import DiagnosticError, IRModule, structural_equal, structural_hash
from ....runtime.devices import cpu
from ....runtime.entry_point import EntryPoint
from ....runtime.forks import hold_at_fork
from ....runtime.threads import num_threads, set_num_threads
from ....runtime.vm import VirtualMachine
from ....struct_info import ShapeStructInfo
from ....transform import ConvertToDataflow
from ....vm.driver import build
from ...unexpected import summary
from ..pairs import has_complex_dtype, joined_parts
from ..reader import GraphReader
from .layout import border_order, inverse
from .options import BackendOptions
from .pieces import Piece, bound_symbols, symbols_of_sizes
from .warning import warn


class NotImported(Exception):
    """A node of a piece is not supported; `node` is that of the piece's graph."""

    def __init__(self, node: Any, message: str) -> None:
        super().__init__(message)
        self.node = node


def import_piece(piece: Piece, owner: Any) -> tuple[IRModule, list[int]]:
    """Return the program of a piece, and the positions of the inputs that it takes.

    An input or an output that lies dense in another order is one of the permuted dimensions (`border_order`). One of
    complex numbers has a trailing axis of 2. Raises NotImported for a node that the importer refuses.
    """
    placeholders = [node for node in piece.graph.nodes if node.op == "placeholder"]
    nonnegative = _nonnegative(piece.graph)
    reader = GraphReader(nonnegative)
    emitter = reader.emitter
    try:
        for node in placeholders:
            reader.declare(node.meta.get("val"))
        orders = [_input_order(node.meta.get("val")) for node in placeholders]
        pairs = list(zip(placeholders, orders, strict=True))
        sizes = nonnegative & symbols_of_sizes(piece.graph)
        taken = [
            index
            for index, (node, order) in enumerate(pairs)
            if reader.read_input(node, order or None, is_size=not sizes.isdisjoint(bound_symbols(node)))
        ]
        with emitter.builder.function("main", reader.inputs, {"num_input": len(reader.inputs)}):
            for node, order in pairs:
                if order:
                    with emitter.at(node, 0):
                        value = op.permute_dims(reader.names[node.name], inverse(order))
                        reader.names[node.name] = emitter.emit(value)
            reader.split_inputs()
            results = reader.read_nodes(_Graph(owner, piece.graph), reader.names)
            values = [emitter.tensor(joined_parts(emitter, result)) for result in results]
            for index, node in enumerate(piece.outputs):
                order = border_order(node.meta["val"])
                if order is not None:
                    values[index] = emitter.emit(op.permute_dims(values[index], order))
            emitter.builder.emit_func_output(emitter.builder.emit(Tuple(values)))
        return ConvertToDataflow()(emitter.builder.get()), taken
    except DiagnosticError as error:
        node = reader.node
        raise NotImported(node, error.diagnostics[0].message) from error


class _Graph:
    """A graph, and where its attributes are."""

    def __init__(self, owner: Any, graph: Any) -> None:
        self._owner, self.graph = owner, graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)


def _nonnegative(graph: Any) -> frozenset[str]:
    """Names of the symbols of sizes of which torch knows that they are at least 0."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for number in getattr(value, "shape", (value,)):
            if hasattr(number, "node"):
                ranges = number.node.shape_env.var_to_range.items()
                return frozenset(str(symbol) for symbol, limits in ranges if limits.lower >= 0)
    return frozenset()


class Built:
    """A program, and its entry point once it is built; pieces that compute the same share one."""

    def __init__(self, program: IRModule) -> None:
        self.program, self.lock = program, threading.RLock()
        self.run: Callable[..., Any] | None = None
        self.machine: VirtualMachine | None = None
        """The machine of a program of tier "now" whose full build is under way."""

    def build(self, options: BackendOptions) -> None:
        """Build the program."""
        executable = build(self.program, options.target, tier=options.tier)
        machine = VirtualMachine(executable, cpu())
        self.run = _entry(machine)
        self.machine = None if executable.upgrade is None else machine

    def faster(self, machine: VirtualMachine) -> Callable[..., Any]:
        """Return what runs the program now: the full build's entry point if that is ready."""
        if machine.tier == "full":
            self.run, self.machine = _entry(machine), None
        return cast("Callable[..., Any]", self.run)


def _entry(machine: VirtualMachine) -> Callable[..., Any]:
    function = machine["main"]
    return function.exchange if isinstance(function, EntryPoint) else function


_BUILT: WeakValueDictionary[tuple[int, str, str], Built] = WeakValueDictionary()
_BUILT_LOCK = threading.Lock()


def _forget_builders() -> None:
    """Free the locks of programs that a thread of the parent was building when this process was forked."""
    for built in _BUILT.values():
        built.lock = threading.RLock()


hold_at_fork(_BUILT_LOCK)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_builders)


def shared(program: IRModule, options: BackendOptions) -> Built:
    """Return the program as other pieces have it, which threads and graph breaks make of the same code."""
    key = structural_hash(program, map_free_vars=True), str(options.target), options.tier
    with _BUILT_LOCK:
        known = _BUILT.get(key)
        if known is None or not structural_equal(known.program, program, map_free_vars=True):
            known = _BUILT[key] = Built(program)
        return known


def wait_full(timeout: float | None = None) -> bool:
    """Wait at most `timeout` seconds until the full builds of all graphs that torch.compile has made run their calls.

    Builds begin when a graph is first called. Returns False if one takes longer, or failed.
    """
    end = None if timeout is None else time.monotonic() + timeout
    machines = [built.machine for built in list(_BUILT.values())]
    left = (None if end is None else max(0.0, end - time.monotonic()) for _ in machines)
    return all(machine is None or machine.wait_full(rest) for machine, rest in zip(machines, left, strict=True))


class CompiledPiece:
    """A piece that is built at its first call; if that fails, eager torch runs it, with a warning."""

    def __init__(
        self, name: str, piece: Piece, owner: Any, program: IRModule, taken: Sequence[int], options: BackendOptions
    ) -> None:
        self.__name__ = name
        self.piece, self.owner, self.options, self.built = piece, owner, options, shared(program, options)
        torch: Any = sys.modules["torch"]
        self.torch, self.from_dlpack, self.get_num_threads = torch, torch.from_dlpack, torch.get_num_threads
        self.tensor = torch.Tensor
        self.profiler_enabled = torch._C._autograd._profiler_enabled
        calls = [node for node in piece.graph.nodes if node.op == "call_function"]
        targets = dict.fromkeys(str(node.target).removeprefix("aten.") for node in calls)
        self.title = f"relax: {', '.join(list(targets)[:4])}{', ...' if len(targets) > 4 else ''}"
        examples = [piece.inputs[index].meta["val"] for index in taken]
        dtypes: list[Any] = [getattr(example, "dtype", None) for example in examples]
        self.taken = list(zip(taken, map(_input_order, examples), dtypes, strict=True))
        infos = [param.struct_info for param in cast(Function, program["main"]).params]
        self.sizes = [index for index, info in enumerate(infos) if isinstance(info, ShapeStructInfo)]
        """Positions of the parameters that are sizes, as shapes of one dimension."""
        results = [node.meta["val"] for node in piece.outputs]
        orders = [border_order(result) for result in results]
        self.orders = [None if order is None else inverse(order) for order in orders]
        self.complex_results = list(map(has_complex_dtype, results))
        self.run: Callable[..., Any] | None = None
        self.eager: Any = None

    def build(self) -> None:
        """Build the program, or make the graph module that torch runs instead."""
        with self.built.lock:
            if self.built.run is None and self.eager is None:
                try:
                    self.built.build(self.options)
                except Exception as error:
                    if not self.options.fallback:
                        raise
                    calls = [node for node in self.piece.graph.nodes if node.op == "call_function"]
                    names = ", ".join(dict.fromkeys(str(node.target) for node in calls[:5]))
                    warn(f"a piece runs in eager torch, for its build failed: {summary(error)} ({names}, ...)")
                    self.eager = self.torch.fx.GraphModule(self.owner, self.piece.graph)
            self.run = self.built.run

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Results of the piece, as tensors that share no memory with inputs."""
        run = self.run
        if run is None:
            if self.eager is None:
                self.build()
                return self(*inputs)
            return self.eager(*inputs)
        machine = self.built.machine
        if machine is not None:
            self.run = run = self.built.faster(machine)
        if self.profiler_enabled():
            with self.torch.profiler.record_function(self.title):
                return self._run(run, inputs)
        return self._run(run, inputs)

    def _run(self, run: Callable[..., Any], inputs: Sequence[Any]) -> Sequence[Any]:
        threads = self.get_num_threads()
        if threads != num_threads():
            set_num_threads(threads)
        passed: list[Any] = []
        for index, order, dtype in self.taken:
            item = inputs[index]
            if order != []:
                item = item if item.dtype is dtype else item.to(dtype)  # a kernel of torch unlike its meta function
                if item.is_neg() or item.is_conj():
                    item = item.resolve_neg().resolve_conj()
                item = self.torch.view_as_real(item) if dtype.is_complex else item
                item = item if order is None else item.permute(order)
                item = item if item.is_contiguous() else item.contiguous()
            passed.append(item)
        for index in self.sizes:
            passed[index] = Shape((passed[index],))
        starts, ends = _memory([item for item in passed if hasattr(item, "data_ptr")])
        results: list[Any] = []
        returned: set[int] = set()
        for result, order, is_complex in zip(run(*passed), self.orders, self.complex_results, strict=True):
            tensor = result if isinstance(result, self.tensor) else self.from_dlpack(result)
            address = tensor.data_ptr()
            if address in returned or _inside(address, starts, ends):
                tensor = tensor.clone()
            returned.add(address)
            tensor = tensor if order is None else tensor.permute(order)
            results.append(self.torch.view_as_complex(tensor) if is_complex else tensor)
        return results


def _input_order(example: Any) -> list[int] | None:
    """Return the order of an input in memory; an empty one for a number."""
    return border_order(example) if hasattr(example, "shape") else []


def _memory(tensors: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return the first addresses of tensors in order, and the greatest end of each tensor and those before it.

    Tensors may overlap: one input may be a view of another one.
    """
    ranges = sorted((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in tensors)
    return [start for start, _ in ranges], list(accumulate((end for _, end in ranges), max))


def _inside(address: int, starts: Sequence[int], ends: Sequence[int]) -> bool:
    """True if an address is in the memory of a tensor; see `_memory`."""
    place = bisect_right(starts, address) - 1
    return place >= 0 and address < ends[place]
