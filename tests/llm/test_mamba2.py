"""A small Mamba 2: its sequences, whose states do not go back, and settings that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf as writer
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_models import write_tokenizer

from relax import llm
from relax.llm.models.mamba2 import Sizes
from relax.llm.runner import NoPages
from relax.llm.settings import Settings

HIDDEN, HEADS, WIDTH, GROUPS, STATE, VOCABULARY = 16, 4, 8, 2, 4, 260
SETTINGS: dict[str, Any] = {
    "model_type": "mamba2", "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_heads": HEADS,
    "head_dim": WIDTH, "n_groups": GROUPS, "state_size": STATE, "expand": 2, "time_step_limit": [0.01, 3.0],
}  # fmt: skip
TOKENS = np.random.default_rng(1).integers(0, VOCABULARY, 40).tolist()


def small_mamba(folder: Path, **settings: Any) -> Path:
    """Write a model with random weights into a folder; return the folder."""
    rng = np.random.default_rng(9)
    inner = HEADS * WIDTH
    channels = inner + 2 * GROUPS * STATE
    sizes: dict[str, tuple[int, ...]] = {"backbone.embeddings.weight": (VOCABULARY, HIDDEN)}
    sizes["backbone.norm_f.weight"] = (HIDDEN,)
    for i in range(2):
        layer = f"backbone.layers.{i}"
        sizes |= {f"{layer}.norm.weight": (HIDDEN,), f"{layer}.mixer.norm.weight": (inner,)}
        sizes |= {f"{layer}.mixer.{name}": (HEADS,) for name in ("A_log", "D", "dt_bias")}
        sizes |= {
            f"{layer}.mixer.in_proj.weight": (inner + channels + HEADS, HIDDEN),
            f"{layer}.mixer.out_proj.weight": (HIDDEN, inner),
            f"{layer}.mixer.conv1d.weight": (channels, 1, 4), f"{layer}.mixer.conv1d.bias": (channels,),
        }  # fmt: skip
    folder.mkdir()
    save_file({n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in sizes.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**SETTINGS, **settings}))
    write_tokenizer(folder)
    return folder


NAMES = {
    "norm": "attn_norm", "mixer.in_proj": "ssm_in", "mixer.out_proj": "ssm_out", "mixer.conv1d": "ssm_conv1d",
    "mixer.norm": "ssm_norm",
}  # fmt: skip


def gguf_of(path: Path, folder: Path) -> Path:
    """Write the model of a folder as a GGUF file."""
    file = writer.GGUFWriter(path, "mamba2")
    file.add_block_count(2)
    file.add_context_length(1000)
    file.add_embedding_length(HIDDEN)
    file.add_vocab_size(VOCABULARY)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_ssm_conv_kernel(4)
    file.add_ssm_inner_size(HEADS * WIDTH)
    file.add_ssm_state_size(STATE)
    file.add_ssm_time_step_rank(HEADS)
    file.add_ssm_group_count(GROUPS)
    for name, array in load_file(folder / "model.safetensors").items():
        part, _, suffix = name.rpartition(".")
        number, _, part = part.removeprefix("backbone.layers.").partition(".")
        if name.startswith("backbone.layers"):
            match suffix:
                case "A_log":
                    file.add_tensor(f"blk.{number}.ssm_a", -np.exp(array)[:, None])
                case "D":
                    file.add_tensor(f"blk.{number}.ssm_d", array[:, None])
                case "dt_bias":
                    file.add_tensor(f"blk.{number}.ssm_dt.bias", array)
                case _:
                    array = array.squeeze(1) if array.ndim == 3 else array
                    array = array.reshape(GROUPS, -1) if part == "mixer.norm" else array
                    file.add_tensor(f"blk.{number}.{NAMES[part]}.{suffix}", array)
        else:
            file.add_tensor(
                {"embeddings": "token_embd", "norm_f": "output_norm"}[name.split(".")[1]] + ".weight", array
            )
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_mamba(tmp_path_factory.mktemp("mamba") / "small")


@pytest.fixture
def model(folder: Path) -> llm.LanguageModel:
    return llm.load(folder, context=64, max_sequences=4)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_at_once_in_parts_and_beside_others(model: llm.LanguageModel) -> None:
    runner, wanted = model.runner, model.logits(TOKENS[:20])
    a, b = runner.add(), runner.add()
    close(runner.step([(a, TOKENS[:7]), (b, TOKENS[20:23])])[0], wanted[6])
    close(runner.step([(b, TOKENS[23:24]), (a, TOKENS[7:8])])[1], wanted[7])
    close(runner.step([(a, TOKENS[8:20])], every=True), wanted[8:])


def test_forks_and_steps_back(model: llm.LanguageModel) -> None:
    runner, wanted = model.runner, model.logits(TOKENS[:20])
    a = runner.add()
    runner.step([(a, TOKENS[:15])])
    b, c = runner.fork(a), runner.fork(a, 9)
    assert [runner.length(sequence) for sequence in (a, b, c)] == [15, 15, 9]
    runner.shorten(a, 4)
    rows = runner.step([(a, TOKENS[4:6]), (b, TOKENS[15:16]), (c, TOKENS[9:10])])
    close(rows, wanted[[5, 15, 9]])
    runner.remove(b)
    runner.shorten(c, 0)
    close(runner.step([(c, TOKENS[:1])]), wanted[:1])


def test_room_for_tokens(model: llm.LanguageModel) -> None:
    runner = model.runner
    a = runner.add()
    runner.step([(a, TOKENS)])
    assert runner.free_tokens == 24
    with pytest.raises(ValueError, match="the states have room for 24 more tokens, found 40"):
        runner.step([(a, TOKENS)])
    assert (runner.length(a), runner.free_tokens) == (40, 24)
    wanted = runner.step([(runner.fork(a, 12), TOKENS[12:13])])
    with pytest.raises(IndexError):
        runner.step([(a, [VOCABULARY])])
    assert runner.length(a) == 40
    runner.shorten(a, 12)
    close(runner.step([(a, TOKENS[12:13])]), wanted)


def test_a_fork_without_room_leaves_no_sequence(model: llm.LanguageModel) -> None:
    runner = model.runner
    a = runner.add()
    runner.step([(a, TOKENS)])
    for _ in range(model.runner.limits.sequences + 1):
        with pytest.raises(NoPages, match="the states have room for 24 more tokens, found 30"):
            runner.fork(a, 30)
    assert (runner.length(runner.fork(a, 24)), runner.free_tokens) == (24, 0)
    assert (runner.length(runner.fork(a)), runner.free_tokens) == (40, 0)  # a copy of the states computes nothing


def test_text_goes_on_where_the_last_one_was(model: llm.LanguageModel) -> None:
    wanted = model.logits([*TOKENS[:9], 5])[-1]
    model.logits(TOKENS[:9])
    close(model.logits([*TOKENS[:9], 5])[-1], wanted)


def test_an_engine_answers_many_requests_together(folder: Path, model: llm.LanguageModel) -> None:
    prompts = ["Hello", "a", "one two three", "x y"]
    wanted = [model.generate(prompt, max_new_tokens=12) for prompt in prompts]
    with llm.Engine(llm.load(folder, context=40, max_sequences=2)) as engine:
        answers = [engine.add(llm.Request(prompt, max_new_tokens=12)) for prompt in prompts]
        assert [answer.result(timeout=60).text for answer in answers] == wanted


def test_a_gguf_file_gives_the_logits_of_the_folder(tmp_path: Path) -> None:
    folder = small_mamba(tmp_path / "folder", time_step_limit=None)  # GGUF has no key for it
    wanted = llm.load(folder).logits(TOKENS)
    close(llm.load(gguf_of(tmp_path / "model.gguf", folder)).logits(TOKENS), wanted)


def test_sizes_without_an_expansion_are_those_of_the_heads() -> None:
    """1 / 49 · 49 is less than 1 in floating point."""
    values = {"hidden_size": 49, "num_heads": 1, "head_dim": 1, "state_size": 4}
    assert Sizes.of(Settings(values)).inner == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_groups": 3}, "4 heads of 8 elements in 3 groups, with 4 taps, do not fit"),
        ({"expand": 3}, "4 heads of 8 elements are not the 48 elements of a layer"),
        ({"time_step_limit": [1]}, "the setting time_step_limit is \\[1\\], and must be two numbers"),
        ({"state_size": 5}, "in_proj.weight: expected weights of shape \\(88, 16\\), found \\(84, 16\\)"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        llm.load(small_mamba(tmp_path / "model", **settings))


def test_a_recurrent_model_takes_no_adapter(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    factors = {f"backbone.layers.0.mixer.in_proj.lora_{factor}.weight": np.ones((1, 1), np.float32) for factor in "AB"}
    save_file(factors, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="adapters of mamba2 models are not supported"):
        llm.load(folder, adapters={"a": tmp_path})


def test_a_recurrent_model_takes_no_drafter(model: llm.LanguageModel) -> None:
    with pytest.raises(ValueError, match="recurrent models take no drafter: their states do not go back"):
        model.generate("Hello", 5, drafter=llm.PromptLookup())
    with pytest.raises(ValueError, match="recurrent models take no drafter"):
        llm.Engine(model, drafter=llm.PromptLookup())
