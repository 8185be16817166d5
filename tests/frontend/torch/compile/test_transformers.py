"""torch.compile(backend="relax") with models of the package transformers, of random weights."""

from __future__ import annotations

import pytest

import relax.frontend.torch  # noqa: F401  (which makes the backend known)
from support import PLAIN_LOOPS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
}  # fmt: skip


def test_bert_at_three_sizes_from_one_build(twins, builds):
    module, compiled, _ = twins(transformers.BertModel(transformers.BertConfig(**SMALL)).eval())
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 9), (4, 17)):
            ids = torch.randint(0, 64, (batch, length))
            mask = torch.ones_like(ids)
            mask[0, -2:] = 0
            found, expected = compiled(ids, attention_mask=mask), module(ids, attention_mask=mask)
            torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state, rtol=1e-4, atol=1e-4)
    assert len(builds) == 1


def test_llama_generates_the_same_tokens(twins):
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=64)
    module, _, other = twins(transformers.LlamaForCausalLM(config).eval())
    other.forward = torch.compile(
        other.forward, backend="relax", dynamic=True, options={"tier": "now", "target": PLAIN_LOOPS}
    )
    ids = torch.randint(3, 64, (1, 4))
    given = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    assert other.generate(ids, **given).tolist() == module.generate(ids, **given).tolist()
