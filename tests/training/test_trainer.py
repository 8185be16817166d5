"""SetupTrainer and Trainer: the module they need, a model that learns, states, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.training import SetupTrainer, Trainer
from relax.training.loss import MSELoss
from relax.training.optimizer import SGD, MomentumSGD


@I.ir_module
class Line:
    I.module_attrs({"param_num": 2, "state_num": 1})

    @R.function
    def backbone(
        x: R.Tensor(("n", 2), "float32"),
        w: R.Tensor((2, 1), "float32"),
        b: R.Tensor((1,), "float32"),
        seen: R.Tensor((), "float32"),
    ):
        with R.dataflow():
            out = R.add(R.matmul(x, w), b)
            count = R.add(seen, R.const(1, "float32"))
            R.output(out, count)
        return out, count


def infos():
    n = relax.tir.SizeVar("n", "int64")
    return [relax.TensorStructInfo((n, 1), "float32")] * 2


@pytest.fixture(scope="module")
def setup():
    """A training module, and the machine that runs it."""
    mod = SetupTrainer(MSELoss(), MomentumSGD(0.1, 0.5), infos())(Line)
    return mod, relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu(), profile=True)


def test_the_module_to_train():
    mod = SetupTrainer(MSELoss(), SGD(0.1), infos(), legalize=False)(Line)
    relax.analysis.assert_well_formed(mod)
    names = [var.name_hint for var in mod.functions]
    assert names == ["backbone", "backbone_loss", "backbone_loss_adjoint", "update_params"]
    assert {k: v for k, v in mod.attrs.items() if k != "optim_states"} == {
        "input_num": 1, "param_num": 2, "state_num": 1,
    }  # fmt: skip
    assert [state.shape for state in mod.attrs["optim_states"]] == [()]
    gradients = mod["backbone_loss_adjoint"].ret_struct_info.fields[1]
    assert [field.dims for field in gradients.fields] == [p.struct_info.dims for p in Line["backbone"].params[1:3]]
    again = relax.script.from_source(mod.without_attr("optim_states").script())
    relax.ir.assert_structural_equal(again["update_params"], mod["update_params"])


def test_a_model_learns(setup):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 2)).astype("float32")
    y = x @ np.array([[2.0], [-1.0]], "float32") + 0.5
    trainer = Trainer(*setup, relax.cpu())
    losses = [trainer.update(x, [y]).numpy() for _ in range(60)]
    np.testing.assert_allclose(losses[0], (y**2).mean(), rtol=1e-5)  # parameters are zeros at first
    assert losses[-1] < 1e-4
    params = {name: value.numpy() for name, value in trainer.export_params().items()}
    np.testing.assert_allclose(params["w"], [[2], [-1]], atol=0.02)
    np.testing.assert_allclose(params["b"], [0.5], atol=0.02)
    assert trainer.export_states()["seen"].numpy() == 60
    np.testing.assert_allclose(trainer.predict(x[:3]).numpy(), y[:3], atol=0.05)

    again = Trainer(*setup, relax.cpu(), zero_init_param_state=False)
    again.load_params([params["w"], params["b"]])
    again.load_states({"seen": 5})
    np.testing.assert_allclose(again.predict(relax.nd.array(x)).numpy(), trainer.predict(x).numpy())
    assert "matmul" in str(again.profile_adjoint(x, y))
    assert again.export_states()["seen"].numpy() == 5  # a profile updates nothing


def test_initial_parameters(setup):
    trainer = Trainer(*setup, relax.cpu())
    trainer.xaiver_uniform_init_params(seed=3)
    first = trainer.export_params()
    assert 0 < abs(first["w"].numpy()).max() <= np.sqrt(6 / 3)
    trainer.zero_init_params()
    assert not trainer.export_params()["w"].numpy().any()
    trainer.xaiver_uniform_init_params(seed=3)
    np.testing.assert_array_equal(trainer.export_params()["w"].numpy(), first["w"].numpy())


def test_wrong_values(setup):
    trainer = Trainer(*setup, relax.cpu(), zero_init_param_state=False)
    x = np.zeros((1, 2), "float32")
    for wrong, message in (
        (lambda: trainer.predict(x), "the parameters have no values yet"),
        (lambda: trainer.load_params([x]), "1 parameters are given, the model has 2"),
        (lambda: trainer.load_params({"w": x, "c": x}), "the names of parameters do not agree: b, c"),
        (lambda: trainer.load_params([x, x]), r"the parameter w has the shape \(2, 1\), found \(1, 2\)"),
        (lambda: trainer.predict(x, x), "2 inputs are given, the model takes 1"),
        (lambda: trainer.update((x, x), x), "2 inputs are given, the model takes 1"),
        (lambda: Trainer(Line, setup[1], relax.cpu()), "the module has no input_num, optim_states"),
    ):
        with pytest.raises(DiagnosticError, match=message) as error:
            wrong()
        assert "E4013" in str(error.value)
    trainer.zero_init_params()
    with pytest.raises(DiagnosticError, match="the states have no values yet"):
        trainer.predict(x)


def test_wrong_modules():
    def complaint(mod):
        with pytest.raises(DiagnosticError) as error:
            SetupTrainer(MSELoss(), SGD(0.1), infos())(mod)
        return str(error.value)

    assert "the module has no function 'backbone'" in complaint(relax.IRModule())
    assert "the module attribute 'param_num' is None" in complaint(Line.without_attr("param_num"))
    text = complaint(Line.with_attr("param_num", 9))
    assert "backbone has 4 parameters, but the module says that 9 are trained, and 1 are states" in text
    assert "backbone returns 2 values, expected 1 for the loss and 0 states" in complaint(
        Line.with_attr("state_num", 0)
    )
