"""from_exported_program: a program of torch.export as an IRModule.

    program = torch.export.export(module.eval(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    mod = from_exported_program(program)

The module has one function that is visible from outside, ``main``: the inputs of the program in order, then, if asked
for, its parameters. It returns a tuple of the outputs. Dynamic dimensions are shape variables.

Nothing is written in place: a buffer that the program changes is a parameter of ``main``, too, and the new values of
changed buffers and inputs are returned after the outputs.

The program is read in the form in which torch has made it free of effects, with operators such as linear, layer_norm
and scaled_dot_product_attention as they are. An operator without a converter is taken apart by torch's own
decomposition, if it has one.
"""

from __future__ import annotations

from typing import Any

from ...expr import ShapeExpr, Tuple, Var
from ...ir import Diagnostic, DiagnosticError, IRModule, RelaxExpr
from ...runtime.nd import NDArray
from ...runtime.nd import array as nd_array
from ...struct_info import TensorStructInfo
from ...transform import ConvertToDataflow
from . import pairs, registry
from .decompositions import nodes_of, supported
from .reader import GraphReader, as_array

_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
"""Kinds of outputs that are new values of what the program changes in place."""


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """An IRModule of a program that ``torch.export.export`` made.

    Parameters
    ----------
    exported_program
        A ``torch.export.ExportedProgram``, of a module in the mode `eval`. Buffers that it changes are parameters of
        ``main`` after the inputs, and their new values are returned after the outputs, as are those of changed inputs;
        the attribute ``mutated`` of the function names them, and ``params`` holds the values that buffers have now.
    keep_params_as_input
        True makes parameters and buffers parameters of ``main`` after the inputs; their values are the attribute
        ``params`` of the function (see `relax.frontend.detach_params`), and ``num_input`` counts the inputs.
    unwrap_unit_return_tuple
        True returns the one output of a program, and not a tuple of it.
    no_bind_return_tuple
        True returns the tuple of outputs without a variable for it.

    Returns
    -------
    IRModule
        A module whose entry point is ``main``.

    Raises
    ------
    DiagnosticError
        If the program uses what is not supported: all operators that are not are listed.
    TypeError
        If `exported_program` is something else.
    """
    if type(exported_program).__name__ != "ExportedProgram":
        raise TypeError(
            "from_exported_program: expected an ExportedProgram, as torch.export.export returns it, "
            f"found {type(exported_program).__name__}"
        )
    importer = _Importer(supported(exported_program), keep_params_as_input)
    return importer.run(unwrap_unit_return_tuple, not no_bind_return_tuple)


# ------------------------------------------------------------------------------------- the import


class _Importer(GraphReader):
    """The import of one program."""

    def __init__(self, program: Any, keep_params: bool) -> None:
        self.program, self.keep_params = program, keep_params
        self.signature = program.graph_signature
        ranges = program.range_constraints.items()
        super().__init__(frozenset(str(symbol) for symbol, limits in ranges if limits.lower >= 0))
        self.params: dict[Var, NDArray] = {}

    def run(self, unwrap: bool, bind: bool) -> IRModule:
        outputs, mutations = self._outputs()
        self._read_inputs({spec.target for _, spec in mutations if spec.kind.name != "USER_INPUT_MUTATION"})
        attrs: dict[str, Any] = {"num_input": len(self.inputs)}
        if self.keep_params or self.params:
            attrs["params"] = list(self.params.values())
        if mutations:
            attrs["mutated"] = [self._mutated(spec) for _, spec in mutations]
        builder = self.emitter.builder
        pure = all(registry.is_pure(str(node.target)) for node in nodes_of(self.program.graph_module))
        with builder.function("main", [*self.inputs, *self.params], attrs, pure=pure):
            self.split_inputs()
            results = self.read_nodes(self.program.graph_module, self.names)
            positions = [*outputs, *(position for position, _ in mutations)]
            outputs_of_main = [pairs.joined_parts(self.emitter, results[i]) for i in positions]
            values = [self.emitter.tensor(output) for output in outputs_of_main if output is not None]
            result: RelaxExpr = values[0] if unwrap and len(values) == 1 else Tuple(values)
            builder.emit_func_output(builder.emit(result) if bind else result)
        return ConvertToDataflow()(builder.get())

    # -- inputs and outputs

    def _outputs(self) -> tuple[list[int], list[tuple[int, Any]]]:
        """Positions of the results, then positions and specifications of new values of buffers and inputs."""
        outputs: list[int] = []
        mutations: list[tuple[int, Any]] = []
        for position, spec in enumerate(self.signature.output_specs):
            kind: str = spec.kind.name
            if kind in ("USER_OUTPUT", "LOSS_OUTPUT"):
                outputs.append(position)
            elif kind in _MUTATIONS:
                mutations.append((position, spec))
            else:
                message = f"an output of the kind {kind} is not supported: {spec.target}"
                raise DiagnosticError(Diagnostic("E6001", message))
        return outputs, mutations

    def _mutated(self, mutation: Any) -> str:
        """The name of the parameter of main of which an output is the new value."""
        if mutation.kind.name == "USER_INPUT_MUTATION":
            return mutation.target
        return next(spec.arg.name for spec in self.signature.input_specs if spec.target == mutation.target)

    def _read_inputs(self, mutated: set[str]) -> None:
        nodes = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        users = [spec for spec in self.signature.input_specs if spec.kind.name == "USER_INPUT"]
        for spec in users:
            self.declare(nodes[spec.arg.name].meta.get("val") if spec.arg.name in nodes else None)
        for spec in self.signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind.name == "USER_INPUT":
                self._read_input(node, spec)
            elif spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                is_param = self.keep_params and spec.kind.name != "CONSTANT_TENSOR"
                is_mutated = spec.target in mutated
                if node.users or is_mutated:
                    self._read_param(node, self._tensor_of(spec), is_param or is_mutated)
            else:
                raise DiagnosticError(
                    Diagnostic("E6001", f"an input of the kind {spec.kind.name} is not supported: {node.name}")
                )

    def _read_input(self, node: Any, spec: Any) -> None:
        if not self.read_input(node):  # a number or None, which the program has taken for a constant
            self.names[node.name] = getattr(spec.arg, "value", None)

    def _tensor_of(self, spec: Any) -> Any:
        """The tensor of a parameter, a buffer or a constant."""
        program: Any = self.program
        if spec.target in program.state_dict:
            return program.state_dict[spec.target]
        return program.constants[spec.target]

    def _read_param(self, node: Any, tensor: Any, is_param: bool) -> None:
        if is_param:
            if pairs.has_complex_dtype(tensor):
                tensor = pairs.as_real_tensor(tensor)
                self.complex_inputs.append(node.name)
            array = as_array(tensor)
            var = Var(node.name, TensorStructInfo(ShapeExpr(array.shape), array.dtype.name))
            self.params[var], self.names[node.name] = nd_array(array), var
            return
        self.names[node.name] = self.constant(tensor)
