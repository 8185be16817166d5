"""Graph modules of torch.fx: `from_fx`, and `relax_dynamo`, a backend for torch.compile.

Both export the graph module with torch.export, and import the program.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...ir import Diagnostic, DiagnosticError, IRModule
from ...ir.transform import Pass
from ...runtime.devices import cpu
from ...runtime.vm import VirtualMachine
from ...vm.driver import build
from .decompositions import rejected
from .importer import from_exported_program


def from_fx(
    model: Any,
    input_info: Sequence[tuple[Sequence[int], str]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """An IRModule of a ``torch.fx.GraphModule``, for inputs of these shapes and dtypes.

    ``main`` returns a tensor if the module does. For sizes that vary, export the module with ``torch.export.export``
    and call `from_exported_program`, which says what the options mean. Raises TypeError for what is no GraphModule, and
    what that function raises.
    """
    if not hasattr(model, "graph"):
        raise TypeError(f"from_fx: expected a torch.fx.GraphModule, found {type(model).__name__}")
    torch = sys.modules["torch"]
    examples = tuple(torch.zeros(tuple(shape), dtype=getattr(torch, dtype)) for shape, dtype in input_info)
    program = _exported(torch, model, examples)
    return from_exported_program(
        program,
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple or program.call_spec.out_spec.is_leaf(),
        no_bind_return_tuple=no_bind_return_tuple,
    )


def _exported(torch: Any, module: Any, examples: Sequence[Any], shapes: Any = None) -> Any:
    """Return the program of a graph module. Raises DiagnosticError if torch does not export it."""
    try:
        with torch.no_grad():
            return torch.export.export(module, tuple(examples), dynamic_shapes=shapes, strict=False)
    except Exception as error:
        raise DiagnosticError(rejected(module, error)) from error


# ------------------------------------------------------------------------------------- torch.compile


def relax_dynamo(pipeline: Pass | None = None, *, target: Any = "llvm") -> Callable[..., Callable[..., Any]]:
    """A backend for ``torch.compile``: ``torch.compile(module.eval(), backend=relax_dynamo())``.

    Parameters and buffers are constants of what is built. It is built anew if they have changed: what changed is passed
    at each call from then on. There are no gradients: call the module inside of ``torch.no_grad()``.

    Parameters
    ----------
    pipeline
        A pass that is applied to each module before it is built.
    target
        The target it is built for.
    """

    def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        torch = sys.modules["torch"]
        tensors = [item for item in example_inputs if isinstance(item, torch.Tensor)]
        if torch.is_grad_enabled() and any(item.requires_grad for item in tensors):
            hint = "call the module inside of torch.no_grad()"
            message = "relax_dynamo gives no gradients, and parameters or inputs require them"
            raise DiagnosticError(Diagnostic("E6001", message, hint=hint))
        return _Compiled(torch, graph_module, pipeline, target)

    return backend


_CONSTANT = "constant"
"""Names of constants begin with it; the place of the input follows."""


class _Compiled:
    """A graph of torch.compile, which is built at the first call: called with its inputs, it returns its outputs."""

    run: Callable[..., Any] | None

    def __init__(self, torch: Any, graph_module: Any, pipeline: Pass | None, target: Any) -> None:
        self.torch, self.graph_module, self.pipeline, self.target = torch, graph_module, pipeline, target
        nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self.static = [
            position
            for position, node in enumerate(nodes)
            if "_dynamo_static_input_type" in (node.meta.get("tensor_dict") or ())
        ]
        """Positions of parameters and buffers among the inputs."""
        self.axes = [_axis_of(node, nodes) for node in nodes]
        self.shapes = [_dynamic_shape(torch, node) for node in nodes]
        self.returned: Sequence[Any] = next(iter(graph_module.graph.find_nodes(op="output"))).args[0]
        self.constants: dict[int, tuple[Any, int]] = {}
        """Parameters and buffers that were built in, and how often they had been written by then."""
        self.run = None

    def _build(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        module, self.passed = self._closed(inputs)
        shapes = tuple(self.shapes[position] for position in self.passed)
        examples = tuple(inputs[position] for position in self.passed)
        mod = from_exported_program(_exported(self.torch, module, examples, shapes))
        main = mod["main"]
        names = [param.name_hint for param in main.params]
        count: int = main.attrs["num_input"]
        mutated = [names.index(name) for name in main.attrs.get("mutated", ())]
        if any(index >= count for index in mutated):
            for name in names[count:]:  # buffers that the module itself changes
                del self.constants[int(name.rpartition(_CONSTANT)[2])]
            return self._build(inputs)
        self.mutated = [self.passed[index] for index in mutated]
        mod = mod if self.pipeline is None else self.pipeline(mod)
        return VirtualMachine(build(mod, self.target), cpu())["main"]

    def _closed(self, inputs: Sequence[Any]) -> tuple[Any, list[int]]:
        """Return the module with constants built in and without sizes as inputs, and the positions of its inputs."""
        torch = self.torch
        module = torch.fx.GraphModule(self.graph_module, copy.deepcopy(self.graph_module.graph))
        graph, passed = module.graph, list[int]()
        nodes = [node for node in graph.nodes if node.op == "placeholder"]
        for position, node in enumerate(nodes):
            axis = self.axes[position]
            if position not in self.constants and axis is None:
                passed.append(position)
                continue
            with graph.inserting_after(nodes[-1]):
                if axis is None:
                    name = f"{_CONSTANT}{position}"
                    is_param = isinstance(inputs[position], torch.nn.Parameter)
                    (module.register_parameter if is_param else module.register_buffer)(name, inputs[position])
                    new = graph.get_attr(name)
                else:
                    new = graph.call_function(torch.ops.aten.sym_size.int, (nodes[axis[0]], axis[1]))
            node.replace_all_uses_with(new)
        for position, node in enumerate(nodes):
            if position not in passed:
                graph.erase_node(node)
        module.recompile()
        return module, passed

    def __call__(self, *inputs: Any) -> list[Any]:
        changed = [
            position
            for position, (item, version) in self.constants.items()
            if inputs[position] is not item or item._version != version
        ]
        if self.run is None:  # of inference tensors, torch does not tell whether they have changed
            tensors = {position: inputs[position] for position in self.static if not inputs[position].is_inference()}
            self.constants = {position: (item, item._version) for position, item in tensors.items()}
        for position in changed:
            del self.constants[position]
        run = self.run = self._build(inputs) if self.run is None or changed else self.run
        passed = [_plain(inputs[position]) for position in self.passed]
        results = [_apart(self.torch.from_dlpack(result), passed) for result in run(*passed)]
        count = len(results) - len(self.mutated)
        for position, value in zip(self.mutated, results[count:], strict=True):
            with self.torch.no_grad():
                inputs[position].copy_(value)
        tensors = iter(results[:count])
        return [None if node is None else _as_returned(node, next(tensors)) for node in self.returned]


def _axis_of(node: Any, nodes: Sequence[Any]) -> tuple[int, int] | None:
    """Return (position of a tensor, axis) if a node is an input that holds a size of that tensor, else None."""
    size = node.meta.get("example_value")
    if not hasattr(size, "node") or hasattr(size, "shape"):
        return None
    for position, other in enumerate(nodes):
        for axis, dim in enumerate(getattr(other.meta.get("example_value"), "shape", ())):
            if hasattr(dim, "node") and dim.node.expr == size.node.expr:
                return position, axis
    return None


def _dynamic_shape(torch: Any, node: Any) -> Any:
    """The dynamic axes of an input, as torch.export asks for them."""
    value = node.meta.get("example_value")
    if not hasattr(value, "shape"):
        return torch.export.Dim.DYNAMIC if hasattr(value, "node") else None
    axes = [axis for axis, dim in enumerate(value.shape) if hasattr(dim, "node")]
    return dict.fromkeys(axes, torch.export.Dim.DYNAMIC)


def _plain(item: Any) -> Any:
    """An input in the form that the virtual machine takes."""
    return item.detach().contiguous() if hasattr(item, "detach") else item


def _apart(result: Any, inputs: Sequence[Any]) -> Any:
    """A result that shares no memory with an input: a clone in torch is none here."""
    for item in inputs:
        storage = item.untyped_storage() if hasattr(item, "untyped_storage") else None
        if storage is not None and 0 <= result.data_ptr() - storage.data_ptr() < storage.nbytes():
            return result.clone()
    return result


def _as_returned(output: Any, value: Any) -> Any:
    """An output of the graph: a tensor, a number of its shapes, or a constant."""
    if not hasattr(output, "meta"):
        return output
    return value if hasattr(output.meta.get("example_value"), "shape") else value.item()
