"""relax.testing.relay_translator: Relay under TVM's name."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import relay


def test_from_relay():
    x, w = relay.var("x", shape=(relay.Any(), 3)), relay.var("w", shape=(4, 3))
    function = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    weight = np.arange(12, dtype="float32").reshape(4, 3) - 6
    mod = relax.testing.relay_translator.from_relay(function, "llvm", {"w": weight})
    assert [param.name_hint for param in mod["main"].params] == ["x"]
    data = np.ones((2, 3), "float32")
    expected = np.maximum(data @ weight.T, 0)
    np.testing.assert_allclose(relax.interpret(mod, "main", data).numpy(), expected)
    whole = relax.testing.relay_translator.from_relay(relay.IRModule.from_expr(function), "llvm")
    np.testing.assert_allclose(relax.interpret(whole, "main", data, weight).numpy(), expected)
    with pytest.raises(ValueError, match=r"translate_op_with_tir is not supported, found functions for nn\.dense"):
        relax.testing.relay_translator.from_relay(function, "llvm", translate_op_with_tir={"nn.dense": None})
