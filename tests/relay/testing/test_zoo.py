"""The model zoo: types of the large networks; small ones as text, evaluated, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import relay
from relax.relay import testing

ANY = relay.Any()
IMAGE = (3, 32, 32)

LARGE = {
    "resnet50": (lambda: testing.resnet.get_net(1, 1000, 50), 260, "(1, 1000)"),
    "resnet20, small images": (lambda: testing.resnet.get_net(ANY, 10, 20, (3, 28, 28)), 105, "(?, 10)"),
    "resnet18 NHWC": (lambda: testing.resnet.get_net(2, 9, 18, (224, 224, 3), layout="NHWC"), 100, "(2, 9)"),
    "mobilenet": (lambda: testing.mobilenet.mobile_net(data_shape=(ANY, 3, 224, 224)), 138, "(?, 1000)"),
    "mobilenet NHWC": (
        lambda: testing.mobilenet.mobile_net(data_shape=(1, 224, 224, 3), layout="NHWC", is_shallow=True),
        88,
        "(1, 1000)",
    ),
    "vgg16": (lambda: testing.vgg.get_net(ANY, (3, 224, 224), 1000, "float32", 16, batch_norm=True), 85, "(?, 1000)"),
    "inception_v3": (lambda: testing.inception_v3.get_net(ANY, 1000, (3, 299, 299), "float32"), 473, "(?, 1000)"),
    "densenet121": (lambda: testing.densenet.get_net(batch_size=ANY), 607, "(?, 1000)"),
    "squeezenet 1.0": (lambda: testing.squeezenet.get_net(ANY, (3, 224, 224), 1000, "1.0", "float32"), 53, "(?, 1000)"),
    "dqn": (lambda: testing.dqn.get_net(ANY, layout="NHWC"), 11, "(?, 18)"),
    "dcgan": (lambda: testing.dcgan.get_net(ANY), 18, "(?, 3, 64, 64)"),
}


@pytest.mark.parametrize("name", LARGE)
def test_types_of_large_networks(name):
    make, count, shape = LARGE[name]
    net = relay.infer_type(make())
    assert len(net.params) == count
    assert str(net.checked_type.ret_type) == f"Tensor[{shape}, float32]"


SMALL = {
    "mlp": (lambda batch: testing.mlp.get_net(batch, image_shape=(1, 4, 4)), (1, 4, 4)),
    "lenet": (lambda batch: testing.lenet.get_net(batch, 10, (1, 16, 16)), (1, 16, 16)),
    "resnet": (
        lambda batch: testing.resnet.resnet((1, 1), 2, (4, 8, 8), 5, (batch, 3, 16, 16), bottle_neck=False),
        (3, 16, 16),
    ),
    "mobilenet": (lambda batch: testing.mobilenet.mobile_net(5, (batch, *IMAGE), alpha=0.25, is_shallow=True), IMAGE),
    "densenet": (lambda batch: testing.densenet.dense_net(8, 4, (2, 1), (batch, 3, 16, 16), classes=5), (3, 16, 16)),
    "dcgan": (lambda batch: testing.dcgan.get_net(batch, 10, (3, 64, 64), ngf=1), (10,)),
    "lstm": (lambda batch: testing.lstm.get_net(2, 4, batch), (4,)),
}
COMPILED = ("mlp", "resnet")


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_mean_the_same_everywhere(name):
    make, shape = SMALL[name]
    initializer = testing.init.Xavier("gaussian", "in", 2)
    mod, params = testing.create_workload(make(ANY), initializer)
    text = relay.astext(mod)
    read = relay.parse(text)
    relay.assert_alpha_equal(read["main"], mod["main"])
    data = np.random.default_rng(1).standard_normal((2, *shape)).astype("float32")
    main = relay.create_executor("debug", read).evaluate()
    names = [param.name_hint for param in read["main"].params]
    arguments = [data if key == "data" else params[key] for key in names]
    expected = main(*arguments).numpy()
    assert np.isfinite(expected).all()
    assert np.ptp(expected) > 0
    translated = relay.to_relax(read)
    interpreted = relax.interpret(translated, "main", *arguments).numpy()
    np.testing.assert_allclose(interpreted, expected, 1e-4, 1e-5)
    if name in COMPILED:
        compiled = relax.VirtualMachine(relax.build(translated, "llvm"))["main"](*arguments).numpy()
        np.testing.assert_allclose(compiled, expected, 1e-4, 1e-5)


def test_tree_lstm():
    mod, params = testing.tree_lstm.get_workload(3, 2)
    weights = {name: value.numpy() for name, value in params.items()}
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((1, 3)).astype("float32") for _ in range(4)]
    prelude = relay.create_executor("debug", mod)
    _, rose = mod.get_type("Tree")
    _, cons, nil = mod.get_type("List")

    def tree(x, *children):
        items = relay.Call(nil, [])
        for child in reversed(children):
            items = relay.Call(cons, [child, items])
        return relay.Call(rose, [relay.const(x), items])

    value = tree(inputs[0], tree(inputs[1]), tree(inputs[2], tree(inputs[3])))
    call = relay.Call(mod.get_global_var("main"), [value, *map(relay.const, weights.values())])
    hidden, memory = prelude.evaluate(call)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def gate(letter, x, h):
        return x @ weights[f"{letter}_weight"].T + h @ weights[f"{letter}_hidden_weight"].T + weights[f"{letter}_bias"]

    def node(x, *states):
        h = sum((s[0] for s in states), np.zeros((1, 2)))
        kept = sum(sigmoid(gate("f", x, s[0])) * s[1] for s in states)
        c = sigmoid(gate("i", x, h)) * np.tanh(gate("u", x, h)) + kept
        return sigmoid(gate("o", x, h)) * np.tanh(c), c

    expected = node(inputs[0], node(inputs[1]), node(inputs[2], node(inputs[3])))
    np.testing.assert_allclose(hidden.numpy(), expected[0], 1e-5)
    np.testing.assert_allclose(memory.numpy(), expected[1], 1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: testing.resnet.get_net(1, 10, 19), "resnet: the number of layers is 18, 34"),
        (lambda: testing.resnet.get_net(1, 10, 19, (3, 28, 28)), "no network of 19 layers for images of 28"),
        (lambda: testing.vgg.get_net(1, IMAGE, 10, "float32", 12), "vgg: the number of layers is 11, 13"),
        (lambda: testing.densenet.get_net(120), "densenet: the size is 121"),
        (lambda: testing.squeezenet.get_net(1, IMAGE, 10, "2.0", "float32"), "the version is 1.0, 1.1"),
        (lambda: testing.dcgan.get_net(1, oshape=(3, 32, 32)), "the images are 64 x 64, found 32 x 32"),
    ],
)
def test_networks_that_do_not_exist(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_initializers():
    array = np.empty((8, 4), "float32")
    testing.init.Xavier("gaussian", "in", 2)("w_weight", array)
    assert 0.4 < array.std() < 1.1
    testing.init.Constant(3)("w_weight", array)
    assert (array == 3).all()
    for name, value in (("bn_gamma", 1), ("bn_beta", 0), ("bn_moving_mean", 0), ("bn_moving_var", 1), ("b_bias", 0)):
        testing.init.Xavier()(name, array)
        assert (array == value).all()
    with pytest.raises(ValueError, match="'speed': the name of a parameter ends in weight"):
        testing.init.Xavier()("speed", array)
    with pytest.raises(ValueError, match="two dimensions or more, found 1"):
        testing.init.Xavier()("w_weight", array[0])
    with pytest.raises(ValueError, match="no 'normal' values by 'avg'"):
        testing.init.Xavier("normal")


def test_a_parameter_without_a_shape_is_refused():
    x, y = relay.var("data", shape=(2,)), relay.var("y_weight", shape=(relay.Any(),))
    with pytest.raises(ValueError, match="'y_weight' has no static shape"):
        testing.create_workload(relay.Function([x, y], x + y))


def test_run_opt_pass():
    x = relay.var("x", shape=(2,))
    function = testing.run_opt_pass(relay.Function([x], relay.nn.relu(x)), relay.transform.InferType())
    assert str(function.body.checked_type) == "Tensor[(2), float32]"
    body = testing.run_opt_pass(relay.const(1) + relay.const(2), relay.transform.InferType(), import_prelude=True)
    assert str(testing.run_infer_type(body).checked_type) == "int32"
