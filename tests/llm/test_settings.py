"""Settings of models, checked as they are read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from relax.llm.decoder import Shape
from relax.llm.settings import Rotation, Settings


def test_a_missing_or_null_setting_has_the_default() -> None:
    s = Settings({"a": None, "b": 3})
    assert s.integer("a", 7) == 7
    assert s.integer("b", 7) == 3
    assert "a" not in s
    assert not s.flag("c")
    assert s.inner("d").text("e", "f") == "f"


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda s: s.integer("missing"), "the settings of the model lack missing"),
        (lambda s: s.integer("text"), "the setting text is 'x', and must be a whole number up to"),
        (lambda s: s.integer("true"), "the setting true is True, and must be a whole number up to"),
        (lambda s: s.integer("negative"), "the setting negative is -1, and must be a whole number up to"),
        (lambda s: s.number("nan"), "the setting nan is nan, and must be a number"),
        (lambda s: s.flag("text"), "the setting text is 'x', and must be true or false"),
        (lambda s: s.text("negative"), "the setting negative is -1, and must be a text"),
        (lambda s: s.texts("text"), "the setting text is 'x', and must be a list of texts"),
        (lambda s: s.inner("text"), "the setting text is 'x', and must hold settings"),
        (lambda s: s.activation("text"), "the activation 'x' is not known; there are silu, swish, gelu"),
        (lambda s: Rotation.of(Settings({"rope_scaling": {"type": "dream"}}), 8), "rotations 'dream' is not known"),
        (
            lambda s: Rotation.of(Settings({"rope_factors": [1.0]}), 8),
            "the setting rope_factors must be a list of 4 numbers",
        ),
        (
            lambda s: Shape.of(Settings({"hidden_size": 10, "num_attention_heads": 3})),
            "10 elements cannot be shared by 3 heads",
        ),
        (
            lambda s: Shape.of(Settings({"hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 2})),
            "3 heads of queries cannot share 2 heads of keys",
        ),
    ],
)  # fmt: skip
def test_wrong_settings(read, message: str) -> None:
    s = Settings({"text": "x", "true": True, "negative": -1, "nan": math.nan})
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        read(s)


def test_activations_of_several_names() -> None:
    s = Settings({"hidden_act": "gelu_new"})
    assert s.activation("hidden_activation", "hidden_act") == "gelu_tanh"
    assert s.activation("other", default="silu") == "silu"


def test_rotation_without_scaling() -> None:
    assert Rotation.of(Settings({"rope_theta": 5e5}), 64) == Rotation(5e5, 64)
    assert Rotation.of(Settings({"partial_rotary_factor": 0.5, "interleaved": True}), 64) == Rotation(
        10000.0, 32, interleaved=True
    )


def test_linear_scaling_divides_all_frequencies() -> None:
    for scaling in ({"type": "linear", "factor": 8.0}, {"rope_type": "linear", "factor": 8.0}):
        assert Rotation.of(Settings({"rope_scaling": scaling}), 8).factors == (8.0,) * 4


def test_scaling_of_llama_3_keeps_high_frequencies_and_divides_low_ones() -> None:
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }  # fmt: skip
    factors = np.array(Rotation.of(Settings({"rope_theta": 5e5, "rope_scaling": scaling}), 128).factors)
    wavelengths = 2 * np.pi * 5e5 ** (np.arange(64) / 64)
    np.testing.assert_array_equal(factors[wavelengths < 8192 / 4], 1)
    np.testing.assert_array_equal(factors[wavelengths > 8192], 8)
    assert (np.diff(factors) >= 0).all()


def test_long_rotations_depend_on_the_context() -> None:
    scaling = {"type": "longrope", "long_factor": [2.0, 3.0], "short_factor": [1.0, 1.5]}
    values = {"rope_scaling": scaling, "max_position_embeddings": 4096, "original_max_position_embeddings": 1024}
    short, long = (Rotation.of(Settings({**values, "context": context}), 4) for context in (1024, 1025))
    assert short.factors == (1.0, 1.5)
    assert long.factors == (2.0, 3.0)
    assert short.scale == long.scale == math.sqrt(1 + math.log(4) / math.log(1024))
