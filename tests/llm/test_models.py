"""Settings of families that are not the same in all of their checkpoints."""

from __future__ import annotations

import pytest
from small_models import SETTINGS

from relax.llm.models import model_of
from relax.llm.settings import Settings


def test_rotation_of_gpt_neox_has_older_names() -> None:
    model = model_of(Settings({**SETTINGS, "model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 500}))
    assert (model.cache().rotation.dim, model.cache().rotation.theta) == (4, 500.0)
    assert model_of(Settings({**SETTINGS, "model_type": "gpt_neox"})).cache().rotation.dim == 2


def test_stablelm_with_norms_of_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="StableLM with norms of queries and keys \\(qk_layernorm\\) is not read"):
        model_of(Settings({**SETTINGS, "model_type": "stablelm", "qk_layernorm": True}))


def test_settings_without_a_type() -> None:
    with pytest.raises(ValueError, match="the settings of the model lack model_type"):
        model_of(Settings({"hidden_size": 8}))
