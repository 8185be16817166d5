"""Helpers of training: a model and its loss as one function; gradients of kernels.

Before   def backbone(x, w, b):                          def mse_loss(predictions, targets):
             with R.dataflow():                              with R.dataflow():
                 out = R.add(R.matmul(x, w), b)                  ...
                 R.output(out)                                   R.output(gv)
             return out                                      return gv

After    AppendLoss("backbone", mse_loss)(mod) adds
         def backbone_loss(x, w, b, targets):
             with R.dataflow():
                 out = R.add(R.matmul(x, w), b)
                 ...
                 R.output(gv)
             return gv
"""

from __future__ import annotations

from typing import cast

from ..analysis.properties import LEGALIZED, NO_DATAFLOW, NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..analysis.uses import uses_of
from ..block_builder import BlockBuilder
from ..derive.normalize import normalize_module
from ..derive.substitution import copy_with_new_vars
from ..expr import Function, Tuple, TupleGetItem, Var
from ..info.mapping import substitute_struct_info
from ..info.relations import Verdict, check_compatible, fit_all
from ..info.text import struct_info_text
from ..ir import IRModule, RelaxExpr, StructInfo, structural_equal
from ..op.te_gradients import register_te_gradient
from ..prim import PrimExpr
from ..prim import Var as ShapeVar
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..transform.decorators import module_pass
from ..transform.one_block import OneBlock, bindings_of, body_of, obstacles, results_of
from .errors import misfit


@module_pass(needs={NORMAL_FORM}, breaks={NO_DATAFLOW, LEGALIZED, STORAGE_EXPLICIT, SHAPES_LOWERED})
def AppendLoss(
    mod: IRModule,
    func_name: str,
    loss_function: Function,
    num_backbone_outputs: int = 1,
    new_func_name: str | None = None,
) -> IRModule:
    """Add a function that computes the model `func_name` and a loss of its results; see the module's docstring.

    The first `num_backbone_outputs` results of the model are the first arguments of the loss; further ones are states
    updated by training, and are returned after the loss. Parameters are those of the model, then the remaining ones of
    the loss. The new function is called `new_func_name`, by default ``<func_name>_loss``. Both functions must be pure
    and without branches; the loss must return a scalar. Raises DiagnosticError (E4013) if they do not fit.
    """
    if not isinstance(mod.get(func_name), Function):
        raise misfit(f"AppendLoss: {func_name!r} is no Relax function of the module")
    name = f"{func_name}_loss" if new_func_name is None else new_func_name
    normal = normalize_module(mod)
    model = cast(Function, normal[func_name])
    joined = _Joined(normal.without([name]), name, model, loss_function, num_backbone_outputs).module()
    present = mod.get(name)
    if present is None:
        return joined
    if structural_equal(present, joined[name], map_free_vars=True):
        return mod
    hint = "say another name: new_func_name=..."
    raise misfit(f"AppendLoss: the module has another function {name!r}", present.span, hint)


class _Joined:
    """Builder of the function of a model and its loss."""

    def __init__(self, mod: IRModule, name: str, model: Function, loss: Function, taken: int) -> None:
        self.name, self.taken = name, taken
        self.model, self.loss = copy_with_new_vars(model), copy_with_new_vars(loss)
        self.builder = BlockBuilder(mod, warn=False)

    def module(self) -> IRModule:
        """Return the module with the function added."""
        self._check()
        params = self.loss.params
        states = results_of(self.model)[self.taken :]
        results, table, unmatched = self._matched()
        targets = [self._target(param, table) for param in params[self.taken :]]
        attrs = {k: v for k, v in self.model.attrs.items() if k != "global_symbol"}
        builder = self.builder
        for binding in (*bindings_of(self.model), *bindings_of(self.loss)):
            builder.used_names.add(binding.var.name_hint)
        with builder.function(self.name, [*self.model.params, *targets], attrs):
            with builder.dataflow():
                backbone = OneBlock((*self.model.params, *uses_of(*states).variables))
                self._emit(backbone, self.model)
                values = [self._value(backbone.expression(value), builder) for value in results]
                arguments: dict[Var, RelaxExpr] = dict(zip(params[self.taken :], targets, strict=True))
                for param, value in zip(params, values, strict=False):
                    info = substitute_struct_info(param.struct_info, table)
                    fits = not unmatched and check_compatible(value.struct_info, info).verdict is Verdict.YES
                    arguments[param] = value if fits else builder.match_cast(value, info, param.name_hint)
                appended = OneBlock((), arguments, table)
                self._emit(appended, self.loss)
                loss = builder.emit_output(appended.expression(body_of(self.loss).body), "loss")
                outputs = [self._output(backbone.expression(state)) for state in states]
            builder.emit_func_output(Tuple((loss, *outputs)) if outputs else loss)
        return builder.get()

    def _check(self) -> None:
        for func, role in ((self.model, "model"), (self.loss, "loss")):
            for reason, span, hint in obstacles(func):
                raise misfit(f"AppendLoss: the {role} is {reason}", span, hint)
        given, taken = len(results_of(self.model)), len(self.loss.params)
        if not 0 < self.taken <= min(given, taken):
            message = f"num_backbone_outputs is {self.taken}, but the model returns {given} values"
            raise misfit(f"AppendLoss: {message}, and the loss takes {taken}", self.loss.span)
        info = body_of(self.loss).body.struct_info_
        if not isinstance(info, TensorStructInfo) or info.ndim != 0:
            hint = 'give the loss a reduction: "mean" or "sum"'
            message = f"the loss must give a scalar, found {struct_info_text(info)}"
            raise misfit(f"AppendLoss: {message}", self.loss.span, hint)

    def _matched(self) -> tuple[list[RelaxExpr], dict[ShapeVar, PrimExpr], set[ShapeVar]]:
        """Results passed to the loss, and the values of its shape variables."""
        results = list(results_of(self.model)[: self.taken])
        expected = [param.struct_info for param in self.loss.params[: self.taken]]
        infos = [_struct_info(result) for result in results]
        fits, table, unmatched = fit_all(infos, expected)
        for fit, info, param in zip(fits, infos, self.loss.params, strict=False):
            if fit.verdict is Verdict.NO:
                message = f"the model gives {struct_info_text(info)}, the loss takes {param.name_hint} of"
                text = f"AppendLoss: {message} {struct_info_text(param.struct_info)}"
                raise misfit(text, self.loss.span, "make the loss with the struct info of the predictions")
        return results, dict(table), unmatched

    def _target(self, param: Var, table: dict[ShapeVar, PrimExpr]) -> Var:
        return Var(param.name_hint, substitute_struct_info(param.struct_info, table), span=param.span)

    def _emit(self, block: OneBlock, func: Function) -> None:
        for binding in bindings_of(func):
            self.builder.emit_normalized(block.binding(binding))

    def _value(self, result: RelaxExpr, builder: BlockBuilder) -> RelaxExpr:
        return builder.emit(result) if isinstance(result, TupleGetItem) else result

    def _output(self, state: RelaxExpr) -> RelaxExpr:
        return self.builder.emit_output(state) if isinstance(state, TupleGetItem) else state


def _struct_info(result: RelaxExpr) -> StructInfo:
    """Struct info of a result of a function."""
    if isinstance(result, TupleGetItem):
        return cast(TupleStructInfo, result.tuple_value.struct_info).fields[result.index]
    return result.struct_info


__all__ = ["AppendLoss", "register_te_gradient"]
