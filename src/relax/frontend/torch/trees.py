"""build_exported: a program of torch.export, called with the module's own arguments, trees included.

    run = build_exported(torch.export.export(module, args, kwargs))
    result = run(*args, **kwargs)          # dicts, dataclasses, caches as the module has them

Torch flattens trees of registered classes (``torch.utils._pytree``) to the inputs of a program, and its outputs to the
structure that the module returns. The package ``torch`` is used but not imported here.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...ir import IRModule
from ...runtime.devices import cpu
from ...runtime.vm import VirtualMachine
from ...vm.driver import build
from .importer import from_exported_program
from .leaves import child_keys
from .recurrent import define_operators


def build_exported(
    program: Any,
    target: Any = "llvm",
    *,
    tier: str = "full",
    check_sizes: bool = True,
    dim_names: Mapping[str, Sequence[str | int | None]] | None = None,
) -> BuiltProgram:
    """Import and build a program of torch.export, to be called with the module's own arguments.

    Parameters
    ----------
    program
        A ``torch.export.ExportedProgram``, or the path of a ``.pt2`` file that ``torch.export.save`` wrote.
    target, tier
        As for `relax.build`.
    check_sizes, dim_names
        As for `from_exported_program`.

    Returns
    -------
    BuiltProgram
        A function of the module's arguments, which returns tensors of torch in the module's structure.

    Raises
    ------
    DiagnosticError
        If the program uses what is not supported.
    TypeError
        If `program` is something else.
    """
    if isinstance(program, (str, os.PathLike)):
        program = load_program(cast("Any", program))
    mod = from_exported_program(program, check_sizes=check_sizes, dim_names=dim_names)
    return BuiltProgram(program, mod, VirtualMachine(build(mod, target, tier=tier), cpu()))


def load_program(path: str | os.PathLike[str]) -> Any:
    """Return the program in a file of ``torch.export.save``. Raises what ``torch.export.load`` raises."""
    torch: Any = importlib.import_module("torch")
    define_operators()
    return torch.export.load(os.fspath(path))


class BuiltProgram:
    """A built program of torch.export: called with the module's arguments, it returns the module's structure.

    Buffers that the module changes keep their new values from call to call, in `state`; inputs that it changes are
    written, as in torch. Inputs that torch took for constants may be left out.
    """

    def __init__(self, program: Any, mod: IRModule, vm: VirtualMachine) -> None:
        self.mod, self.vm = mod, vm
        torch: Any = sys.modules["torch"]
        self._torch, self._trees = torch, importlib.import_module("torch.utils._pytree")
        signature = program.graph_signature
        self._in_spec, self._out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        self._inputs = [spec.arg for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._outputs = [
            spec.arg for spec in signature.output_specs if spec.kind.name in ("USER_OUTPUT", "LOSS_OUTPUT")
        ]
        self._names: Sequence[str] = program.module_call_graph[0].signature.forward_arg_names or ()
        main = mod["main"]
        params = [param.name_hint for param in main.params]
        count: int = main.attrs["num_input"]
        self._taken = set(params[:count])
        nodes = {node.name: node.meta.get("val") for node in program.graph.nodes}
        self._complex = {
            name for name, value in nodes.items() if getattr(getattr(value, "dtype", None), "is_complex", False)
        }
        self.state: dict[str, Any] = {
            name: torch.from_dlpack(value).clone()
            for name, value in zip(params[count:], main.attrs.get("params", ()), strict=True)
        }
        """Values of the buffers that the module changes, by the names of the parameters of ``main``."""
        self._mutated: list[str] = [str(name) for name in main.attrs.get("mutated", ())]
        self._run = vm["main"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises TypeError for arguments of another structure than the module was exported with, ValueError for a value
        that is not the one which the program has taken for a constant, and what the program raises.
        """
        leaves = self._leaves(args, kwargs)
        passed: dict[str, Any] = {}
        for spec, leaf in zip(self._inputs, leaves, strict=True):
            if spec.name in self._taken:
                passed[spec.name] = leaf
            elif hasattr(spec, "value") and not _same(spec.value, leaf):
                raise ValueError(f"the argument {spec.name} is {spec.value!r} in the exported program, found {leaf!r}")
        values = [self._plain(name, value) for name, value in passed.items()]
        results = list(self._run(*values, *self.state.values()))
        count = len(results) - len(self._mutated)
        for name, new in zip(self._mutated, results[count:], strict=True):
            self._write(name, self._tensor(new, name), passed)
        produced = iter(results[:count])
        outputs = [self._output(spec, produced) for spec in self._outputs]
        return self._trees.tree_unflatten(outputs, self._out_spec)

    # -- arguments

    def _leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the tensors and numbers inside the nested arguments, in the order of the program's inputs."""
        positional, named = self._in_spec.children()
        names = list(self._names)[: positional.num_children]
        keys: list[str] = list(named.context)
        places = dict(zip([*names, *keys], [*positional.children(), *named.children()], strict=True))
        if len(args) > len(names):
            raise TypeError(f"the program takes {len(names)} positional arguments, found {len(args)}")
        given: dict[str, Any] = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key in given or key not in places:
                problem = (
                    "is passed twice" if key in given else f"is none of the program's, which are {', '.join(places)}"
                )
                raise TypeError(f"the argument {key} {problem}")
            given[key] = value
        leaves: list[Any] = []
        for name, spec in places.items():
            first = len(leaves)
            own = self._inputs[first : first + spec.num_leaves]
            if name not in given:
                if not all(hasattr(item, "value") for item in own):
                    raise TypeError(f"the argument {name} is missing")
                leaves += [item.value for item in own]
                continue
            found, structure = self._trees.tree_flatten(given[name])
            if structure != spec:
                raise TypeError(
                    f"the argument {name} is {_shown(structure)}, the program was exported with {_shown(spec)}"
                )
            leaves += found
        return leaves

    def _plain(self, name: str, value: Any) -> Any:
        """An input in the form that the virtual machine takes."""
        if not hasattr(value, "detach"):
            return value
        value = value.detach().resolve_neg()  # DLPack says nothing of a negative bit
        return (self._torch.view_as_real(value.resolve_conj()) if name in self._complex else value).contiguous()

    # -- results

    def _tensor(self, value: Any, name: str) -> Any:
        tensor = self._torch.from_dlpack(value)
        return self._torch.view_as_complex(tensor) if name in self._complex else tensor

    def _output(self, spec: Any, produced: Any) -> Any:
        """The output of a specification: a tensor, a number of the program's shapes, or a constant."""
        if hasattr(spec, "value"):
            if spec.value is not None:
                next(produced)
            return spec.value
        tensor = self._tensor(next(produced), spec.name)
        return tensor if type(spec).__name__ == "TensorArgument" else tensor.item()

    def _write(self, name: str, new: Any, passed: Mapping[str, Any]) -> None:
        """Keep the new value of a buffer, or write it into the input that the module changes."""
        if name in self.state:
            self.state[name] = self._torch.view_as_real(new) if name in self._complex else new
            return
        with self._torch.no_grad():
            passed[name].copy_(new)


def _same(constant: Any, value: Any) -> bool:
    return value is constant or (type(value) is type(constant) and bool(value == constant))


def _shown(spec: Any) -> str:
    """A structure on one line: ``dict of x, y``."""
    if spec.is_leaf():
        return "a tensor or a number"
    kind = spec.context.__name__ if isinstance(spec.context, type) else spec.type.__name__
    if spec.type is type(None):
        return "None"
    keys = child_keys(spec)
    return f"{kind} of {', '.join(keys)}" if keys and not keys[0].isdigit() else f"{kind} of {spec.num_children}"
