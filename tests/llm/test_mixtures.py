"""Types of files: the layout of each tensor, as `llama-quantize` chooses it."""

from __future__ import annotations

import pytest

from relax.llm.mixtures import Outline, file_type, layout_of, sizes_by_layout

OUTLINE = Outline(layers=16, shared_heads=4, has_output=True)
LONG = (512, 512)


def layouts(kind: str, part: str, shape: tuple[int, ...] = LONG) -> str:
    """The layouts of a matrix in 16 layers, in short: 4 for q4_k."""
    return "".join(layout_of(kind, f"blk.{i}.{part}.weight", shape, OUTLINE)[1] for i in range(16))


@pytest.mark.parametrize(
    ("kind", "part", "expected"),
    [
        ("q4_k_m", "attn_q", "4444444444444444"),
        ("q4_k_m", "attn_v", "6644644644644666"),
        ("q4_k_m", "ffn_down", "6644644644644666"),
        ("q4_k_m", "ffn_down_exps", "6644644644644666"),
        ("q4_k_m", "attn_qkv", "5555555555555555"),
        ("q5_k_m", "attn_v", "6655655655655666"),
        ("q5_k_m", "attn_qkv", "6666666666666666"),
        ("q5_k_s", "attn_v", "5555555555555555"),
        ("q4_k_s", "attn_v", "5555444444444444"),
        ("q4_k_s", "ffn_down", "5544444444444444"),
        ("q3_k_m", "attn_v", "5544444444444444"),
        ("q3_k_m", "ffn_down", "5444444444444444"),
        ("q3_k_m", "attn_output", "4444444444444444"),
        ("q3_k_m", "ffn_up", "3333333333333333"),
        ("q3_k_l", "attn_v", "5555555555555555"),
        ("q3_k_s", "attn_v", "3333333333333333"),
        ("q2_k", "attn_v", "4444444444444444"),
        ("q2_k", "ffn_down", "3333333333333333"),
        ("q2_k", "attn_k", "2222222222222222"),
        ("q4_0", "ffn_down", "4444444444444444"),
        ("q8_0", "ffn_down", "8888888888888888"),
    ],
)
def test_matrices_of_layers(kind: str, part: str, expected: str) -> None:
    assert layouts(kind, part) == expected


@pytest.mark.parametrize(
    ("kind", "output", "embeddings"),
    [
        ("q4_k_m", "q6_k", "q4_k"), ("q4_0", "q6_k", "q4_0"), ("q8_0", "q8_0", "q8_0"), ("float16", "float16", "float16"),
    ],
)  # fmt: skip
def test_the_last_product_and_the_embeddings(kind: str, output: str, embeddings: str) -> None:
    assert layout_of(kind, "output.weight", LONG, OUTLINE) == output
    assert layout_of(kind, "token_embd.weight", LONG, OUTLINE) == embeddings
    tied = Outline(16, 4, has_output=False)
    assert layout_of(kind, "token_embd.weight", LONG, tied) == output


@pytest.mark.parametrize(
    ("kind", "depth", "expected"),
    [
        ("q4_k_s", 256, "q4_k"), ("q4_k_s", 96, "q5_0"), ("q5_k_s", 96, "q5_1"), ("q6_k", 96, "q8_0"),
        ("q3_k_s", 96, "iq4_nl"), ("q2_k", 96, "iq4_nl"), ("q8_0", 48, "float16"), ("q4_k_s", 48, "float16"),
        ("float32", 48, "float32"),
    ],
)  # fmt: skip
def test_rows_that_are_no_whole_blocks(kind: str, depth: int, expected: str) -> None:
    assert layout_of(kind, "blk.9.ffn_up.weight", (64, depth), OUTLINE) == expected


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("output_norm.weight", (512,)), ("blk.0.attn_q.bias", (512,)), ("position_embd.weight", LONG),
        ("rope_freqs.weight", (32,)), ("blk.3.attn_q_norm.weight", (2, 256)),
        ("blk.3.ffn_gate_inp.weight", (8, 256)),
    ],
)  # fmt: skip
def test_what_stays_float32(name: str, shape: tuple[int, ...]) -> None:
    assert layout_of("q4_k_m", name, shape, OUTLINE) == "float32"


def test_heads_that_are_shared_by_few_queries() -> None:
    assert layout_of("q2_k", "blk.9.attn_v.weight", LONG, Outline(16, 1, True)) == "q3_k"


def test_names_of_types() -> None:
    assert [file_type(name) for name in ("Q4_K", "f16", "Q8_0", "q3_k")] == ["q4_k_m", "float16", "q8_0", "q3_k_m"]
    with pytest.raises(ValueError, match="there is no type 'q9'; there are float32, float16, bfloat16, q8_0"):
        file_type("q9")


def test_sizes_by_layout() -> None:
    found = sizes_by_layout([("float32", 4), ("q4_k", 9), ("float32", 8)])
    assert list(found.items()) == [("float32", (2, 12)), ("q4_k", (1, 9))]
