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

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...expr import Function, ShapeExpr, Tuple, Var
from ...ir import Diagnostic, DiagnosticError, IRModule, RelaxExpr
from ...prim import PrimExpr
from ...runtime.nd import NDArray
from ...runtime.nd import array as nd_array
from ...struct_info import PrimStructInfo, TensorStructInfo
from ...transform import ConvertToDataflow
from . import pairs, registry
from .constraints import Sizes, check, conditions
from .decompositions import nodes_of, supported
from .leaves import output_names
from .reader import GraphReader, as_array
from .symbols import renamed_sizes

_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
"""Kinds of outputs that are new values of what the program changes in place."""


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    check_sizes: bool = True,
    dim_names: Mapping[str, Sequence[str | int | None]] | None = None,
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
    check_sizes
        True checks what torch.export found or was told of dynamic sizes (ranges of ``torch.export.Dim``, guards), which
        makes ``main`` impure if there is anything to check. False leaves it to the caller.
    dim_names
        Names of dynamic dimensions by the names of inputs: ``{"x": ("batch", None)}``. Numbers and None name nothing.
        Programs of torch.export have forgotten the names of their ``torch.export.Dim``.

    Returns
    -------
    IRModule
        A module whose entry point is ``main``. Its attribute ``output_names`` names the outputs: by keys of a dict or
        fields of a class that the module returns, else by the nodes of torch's graph.

    Raises
    ------
    DiagnosticError
        If the program uses what is not supported: all operators that are not are listed.
    TypeError
        If `exported_program` is something else.
    ValueError
        If `dim_names` names no input, or no dynamic dimension, or one size by two names.
    """
    if type(exported_program).__name__ != "ExportedProgram":
        raise TypeError(
            "from_exported_program: expected an ExportedProgram, as torch.export.export returns it, "
            f"found {type(exported_program).__name__}"
        )
    importer = _Importer(supported(exported_program), keep_params_as_input, dim_names or {})
    guarded = exported_program if check_sizes else None
    return importer.run(unwrap_unit_return_tuple, not no_bind_return_tuple, guarded)


# ------------------------------------------------------------------------------------- the import


class _Importer(GraphReader):
    """The import of one program."""

    def __init__(self, program: Any, keep_params: bool, dim_names: Mapping[str, Sequence[str | int | None]]) -> None:
        self.program, self.keep_params, self.dim_names = program, keep_params, dim_names
        self.signature = program.graph_signature
        ranges = program.range_constraints.items()
        super().__init__(frozenset(str(symbol) for symbol, limits in ranges if limits.lower >= 0))
        self.params: dict[Var, NDArray] = {}
        self.tied: dict[tuple[Any, ...], Var] = {}  # parameters by where their tensors lie

    def run(self, unwrap: bool, bind: bool, guarded: Any) -> IRModule:
        outputs, mutations = self._outputs()
        self._read_inputs({spec.target for _, spec in mutations if spec.kind.name != "USER_INPUT_MUTATION"})
        attrs: dict[str, Any] = {"num_input": len(self.inputs)}
        if self.keep_params or self.params:
            attrs["params"] = list(self.params.values())
        if mutations:
            attrs["mutated"] = [self._mutated(spec) for _, spec in mutations]
        builder = self.emitter.builder
        checks = [] if guarded is None else list(conditions(self.emitter, guarded, self._sizes()))
        pure = not checks and all(registry.is_pure(str(node.target)) for node in nodes_of(self.program.graph_module))
        with builder.function("main", [*self.inputs, *self.params], attrs, pure=pure):
            check(self.emitter, checks)
            self.split_inputs()
            results = self.read_nodes(self.program.graph_module, self.names)
            positions = [*outputs, *(position for position, _ in mutations)]
            names = self._output_names(outputs, mutations)
            named = [
                (pairs.joined_parts(self.emitter, results[i]), name) for i, name in zip(positions, names, strict=True)
            ]
            named = [(self.emitter.tensor(output), name) for output, name in named if output is not None]
            values = [output for output, _ in named]
            result: RelaxExpr = values[0] if unwrap and len(values) == 1 else Tuple(values)
            builder.emit_func_output(builder.emit(result) if bind else result)
        mod = builder.get()
        main = cast(Function, mod["main"]).with_attr("output_names", [name for _, name in named])
        return ConvertToDataflow()(mod.with_function("main", main))

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

    def _sizes(self) -> Sizes:
        """Return the dimensions of tensors and the values of numbers among the inputs by name; None for constants."""
        sizes: dict[str, Sequence[PrimExpr] | PrimExpr | None] = {
            spec.arg.name: None for spec in self.signature.input_specs if spec.kind.name == "USER_INPUT"
        }
        for var in self.inputs:
            info = var.struct_info
            if isinstance(info, TensorStructInfo):
                sizes[var.name_hint] = info.dims
            elif isinstance(info, PrimStructInfo):
                sizes[var.name_hint] = info.value
        return sizes

    def _output_names(self, outputs: Sequence[int], mutations: Sequence[tuple[int, Any]]) -> list[str]:
        """Names of the outputs, then of the parameters of which new values are returned."""
        specs = self.signature.output_specs
        nodes = [str(getattr(specs[position].arg, "name", f"output{position}")) for position in outputs]
        return [*output_names(self.program.call_spec.out_spec, nodes), *(self._mutated(spec) for _, spec in mutations)]

    def _mutated(self, mutation: Any) -> str:
        """The name of the parameter of main of which an output is the new value."""
        if mutation.kind.name == "USER_INPUT_MUTATION":
            return mutation.target
        return next(spec.arg.name for spec in self.signature.input_specs if spec.target == mutation.target)

    def _read_inputs(self, mutated: set[str]) -> None:
        nodes = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        users = [spec for spec in self.signature.input_specs if spec.kind.name == "USER_INPUT"]
        values = {spec.arg.name: nodes[spec.arg.name].meta.get("val") for spec in users if spec.arg.name in nodes}
        self.renamed.update(renamed_sizes(values, self.dim_names))
        for value in values.values():
            self.declare(value)
        self.derive(values)
        for spec in self.signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind.name == "USER_INPUT":
                self._read_input(node, spec)
            elif spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                is_param = self.keep_params and spec.kind.name != "CONSTANT_TENSOR"
                is_mutated = spec.target in mutated
                if node.users or is_mutated:
                    tied = spec.kind.name == "PARAMETER" and not is_mutated
                    self._read_param(node, self._tensor_of(spec), is_param or is_mutated, tied)
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

    def _read_param(self, node: Any, tensor: Any, is_param: bool, tied: bool) -> None:
        """Declare a parameter of main or a constant; `tied`: one that is the same tensor as an earlier one is that."""
        if is_param:
            key = tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype
            if tied and key in self.tied and tensor.numel():
                self.names[node.name] = self.tied[key]
                return
            if pairs.has_complex_dtype(tensor):
                tensor = pairs.as_real_tensor(tensor)
                self.complex_inputs.append(node.name)
            array = as_array(tensor)
            var = Var(node.name, TensorStructInfo(ShapeExpr(array.shape), array.dtype.name))
            self.params[var], self.names[node.name] = nd_array(array), var
            if tied:
                self.tied[key] = var
            return
        self.names[node.name] = self.constant(tensor)
