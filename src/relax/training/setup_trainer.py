"""Construction of a training module from a model, a loss and an optimizer.

Before   I.module_attrs({"param_num": 2, "state_num": 0})
         def backbone(x, w, b): ...                       inputs, then parameters, then states

After    SetupTrainer(MSELoss(), SGD(0.1), [prediction_info, target_info]) adds
         def backbone_loss(x, w, b, targets): ...          the loss, then updated states
         def backbone_loss_adjoint(x, w, b, targets): ...  (what backbone_loss gives, gradients by the parameters)
         def update_params(params, gradients, optim_states): ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from ..analysis.properties import NORMAL_FORM
from ..expr import Function
from ..ir import IRModule
from ..ir.transform import ModulePass, PassInfo
from ..struct_info import TensorStructInfo
from ..transform.gradient import SUFFIX, Gradient
from ..transform.legalize_ops import LegalizeOps
from ..transform.one_block import results_of
from .errors import misfit
from .loss import Loss
from .optimizer import Optimizer
from .utils import AppendLoss


class SetupTrainer(ModulePass):
    """Add to a module with a function `backbone` the functions that `Trainer` needs; see the module's docstring.

    The parameters of `backbone` are inputs, then `param_num` (a module attribute) parameters to train, then `state_num`
    states, such as the moving statistics of batch_norm. It returns predictions, then the updated states. `loss_args`
    are the struct infos of the arguments of `loss`: predictions, targets and so on. With `legalize`, operators are
    lowered to kernels.

    The result has the module attributes `input_num`, `param_num`, `state_num`, and `optim_states`, the initial states
    of the optimizer; `has_schedule` is true if its learning rate is a schedule. Raises DiagnosticError (E4013) if the
    parts do not fit, (E4012) for operations without a gradient.
    """

    BACKBONE_FUNC: ClassVar[str] = "backbone"
    BACKBONE_LOSS_FUNC: ClassVar[str] = "backbone_loss"
    ADJOINT_FUNC: ClassVar[str] = f"backbone_loss{SUFFIX}"
    UPDATE_PARAMS_FUNC: ClassVar[str] = "update_params"
    INPUT_NUM_ATTR: ClassVar[str] = "input_num"
    PARAM_NUM_ATTR: ClassVar[str] = "param_num"
    STATE_NUM_ATTR: ClassVar[str] = "state_num"
    OPTIM_STATES_ATTR: ClassVar[str] = "optim_states"
    SCHEDULED_ATTR: ClassVar[str] = "has_schedule"

    def __init__(
        self, loss: Loss, optimizer: Optimizer, loss_args: Sequence[TensorStructInfo], legalize: bool = True
    ) -> None:
        options = {"loss": loss, "optimizer": optimizer, "loss_args": list(loss_args), "legalize": legalize}
        super().__init__(PassInfo.of("SetupTrainer", needs={NORMAL_FORM}), self._setup, options)
        self._loss, self._optimizer = loss, optimizer
        self._loss_args, self._legalize = tuple(loss_args), legalize

    def _setup(self, mod: IRModule) -> IRModule:
        backbone = mod.get(self.BACKBONE_FUNC)
        if not isinstance(backbone, Function):
            hint = f"call the function of the model {self.BACKBONE_FUNC}"
            raise misfit(f"SetupTrainer: the module has no function {self.BACKBONE_FUNC!r}", hint=hint)
        params, states = (_count(mod, name) for name in (self.PARAM_NUM_ATTR, self.STATE_NUM_ATTR))
        inputs = len(backbone.params) - params - states
        taken = self._loss.num_backbone_outputs
        if inputs < 0 or params == 0:
            message = f"backbone has {len(backbone.params)} parameters, but the module says that {params} are trained"
            raise misfit(f"SetupTrainer: {message}, and {states} are states", backbone.span)
        if len(results_of(backbone)) != taken + states:
            count = len(results_of(backbone))
            message = f"backbone returns {count} values, expected {taken} for the loss and {states} states"
            raise misfit(f"SetupTrainer: {message}", backbone.span)
        loss = self._loss(*self._loss_args)
        mod = AppendLoss(self.BACKBONE_FUNC, loss, taken, self.BACKBONE_LOSS_FUNC)(mod)
        trained = cast(Function, mod[self.BACKBONE_LOSS_FUNC]).params[inputs : inputs + params]
        mod = Gradient(self.BACKBONE_LOSS_FUNC, list(trained), 0)(mod)
        self._optimizer.init(trained)
        update = self._optimizer.get_function().with_attr("global_symbol", self.UPDATE_PARAMS_FUNC)
        mod = mod.with_function(self.UPDATE_PARAMS_FUNC, update)
        if self._legalize:
            mod = LegalizeOps()(mod)
        return mod.with_attrs(
            {
                self.INPUT_NUM_ATTR: inputs,
                self.PARAM_NUM_ATTR: params,
                self.STATE_NUM_ATTR: states,
                self.OPTIM_STATES_ATTR: list(self._optimizer.state),
                **({self.SCHEDULED_ATTR: True} if self._optimizer.schedule is not None else {}),
            }
        )


def _count(mod: IRModule, name: str) -> int:
    """Return a required integer attribute of the module."""
    value = mod.attrs.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        hint = 'say how many: I.module_attrs({"param_num": 2, "state_num": 0})'
        message = f"SetupTrainer: the module attribute {name!r} is {value!r}, expected a number"
        raise misfit(message, hint=hint)
    return value
