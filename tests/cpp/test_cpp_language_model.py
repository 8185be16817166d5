"""examples/llm/cpp: language models that `LanguageModel.export` wrote choose in C++ the tokens that they choose in Python."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import safetensors
import tvm_ffi
from small_models import SETTINGS, small_model
from test_mamba2 import small_mamba

import relax
from cpp_programs import ROOT, compile_program, needs_compiler, run, run_commands
from published_weights import smollm2
from relax import llm
from relax.llm.exporting import write_tensors
from relax.runtime.tensor import numpy_view

pytestmark = needs_compiler

PROMPT = [1, 2, 3, 50, 20]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    source = ROOT / "examples" / "llm" / "cpp" / "complete.cpp"
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 150
    return compile_program(source, tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The small model, and the folder that it is exported to."""
    folder = tmp_path_factory.mktemp("model")
    model = llm.load(small_model(folder / "small"), context=64)
    model.export(folder / "exported")
    return model, str(folder / "exported")


def tokens(text):
    return [[*map(int, line.split())] for line in text.splitlines()]


def chosen(model, prompt, count, **settings):
    """The tokens that a sampler in Python chooses."""
    sampler, sequence, answer, new = llm.Sampler(**settings), model.runner.add(), [], prompt
    while len(answer) < count and not (answer and answer[-1] in model.tokenizer.eot):
        new = [sampler.sample(model.runner.step([(sequence, new)])[0])]
        answer += new
    model.runner.remove(sequence)
    return answer


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0},
        {"temperature": 0.8, "top_p": 0.9, "seed": 7},
        {"temperature": 1.5, "top_k": 40, "min_p": 0.01, "seed": (1 << 63) + 5},
    ],
)
def test_the_tokens_are_those_of_python(exported, program, settings):
    model, folder = exported
    options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    done = run(program, folder, "40", *options, *map(str, PROMPT))
    assert (done.returncode, done.stderr) == (0, "")
    assert tokens(done.stdout) == [chosen(model, PROMPT, 40, **settings)]


def test_sequences_of_unequal_lengths_together(exported, program):
    model, folder = exported
    done = run(program, folder, "12", "--sequences", "3", *map(str, PROMPT))
    assert (done.returncode, done.stderr) == (0, "")
    sampler = llm.Sampler(temperature=0)
    batch = [(model.runner.add(), PROMPT[: len(PROMPT) - i]) for i in range(3)]
    answers = [[], [], []]
    for _ in range(12):
        rows = model.runner.step(batch)
        for answer, row in zip(answers, rows):
            answer.append(sampler.sample(row))
        batch = [(sequence, answer[-1:]) for (sequence, _), answer in zip(batch, answers)]
    for sequence, _ in batch:
        model.runner.remove(sequence)
    assert tokens(done.stdout) == answers


def test_tokens_that_do_not_fit(exported, program):
    _, folder = exported
    outside = run(program, folder, "3", "260")
    assert outside.stderr == "IndexError: 260 is no token of a vocabulary of 260\n"
    many = run(program, folder, "3", *["5"] * 65)
    assert many.stderr == "ValueError: the new tokens need 1 pages of 16 tokens, and 0 are free\n"
    for temperature in ("-1", "nan", "inf"):
        assert run(program, folder, "3", "--temperature", temperature, "5").stderr == (
            "ValueError: expected that temperature is at least 0\n"
        )
    none = run(program, folder, "0", "5")
    assert (none.returncode, none.stdout) == (0, "\n")


def test_a_folder_of_another_model(exported, program, tmp_path):
    model, folder = exported
    (tmp_path / "model.so").symlink_to(f"{folder}/model.so")
    write_tensors(tmp_path / "weights.safetensors", {}, {})
    assert run(program, str(tmp_path), "3", "5").stderr == (
        "ValueError: the file of weights does not say vocabulary: it was not exported\n"
    )
    assert run(program, str(tmp_path / "none"), "3", "5").stderr.startswith("OSError: ")


def test_weights_are_safetensors(exported):
    """The package safetensors reads them: the arrays of the model's parameters, in order and unchanged."""
    model, folder = exported
    with safetensors.safe_open(f"{folder}/weights.safetensors", "np") as file:
        assert file.metadata() == {
            "vocabulary": str(SETTINGS["vocab_size"]), "context": "64", "chunk": "64", "page": "16", "ends": "256",
        }  # fmt: skip
        names = [name for name in file.keys() if not name.startswith("padding.")]
        by_name = {parameter.name_hint: i - 3 for i, parameter in enumerate(model.mod["forward"].params)}
        assert len(names) == len(model.runner.weights)
        for name in names:
            np.testing.assert_array_equal(file.get_tensor(name), numpy_view(model.runner.weights[by_name[name]]))


def test_a_process_without_the_builtins(exported):
    """tvm-ffi alone calls the library in Python: the error names the headers, and how Python loads it."""
    create = tvm_ffi.load_module(f"{exported[1]}/model.so")["create_cache"]
    sizes = [tvm_ffi.Shape((n,)) for n in (2, 64, 64)]
    with pytest.raises(
        ValueError, match="vm.builtin.paged_attention_kv_cache_create, which this process has not; in C"
    ):
        create(*sizes)


def test_the_library_in_python(exported):
    """A machine runs an exported library with the caches of Python."""
    model, folder = exported
    machine = relax.VirtualMachine(relax.runtime.load_module(f"{folder}/model.so"), relax.cpu())
    sizes = [relax.ShapeTuple([n]) for n in (2, 64, 64)]
    cache = machine["create_cache"](*sizes)
    builtin = relax.get_global_func
    builtin("vm.builtin.kv_state_add_sequence")(cache, 0)
    builtin("vm.builtin.kv_state_begin_forward")(cache, relax.ShapeTuple([0]), relax.ShapeTuple([5]))
    logits = machine["forward"](np.array(PROMPT, np.int32), np.array([4], np.int32), cache, *model.runner.weights)
    sequence = model.runner.add()
    np.testing.assert_array_equal(np.from_dlpack(logits), model.runner.step([(sequence, PROMPT)]))
    model.runner.remove(sequence)


def test_models_that_are_not_exported(exported, tmp_path):
    model, _ = exported
    model.runner.inputs = (np.zeros(3, np.float32),)
    with pytest.raises(ValueError, match="a model with an encoder is not exported"):
        model.export(tmp_path / "encoder")
    model.runner.inputs = ()
    recurrent = llm.load(small_mamba(tmp_path / "mamba"), context=64)
    with pytest.raises(relax.runtime.ExecutableError, match=r"it calls vm\.builtin\.rnn_state_create, which is Python"):
        recurrent.export(tmp_path / "recurrent")


@pytest.mark.skipif(shutil.which("c++") is None, reason="the page calls c++")
def test_the_page(tmp_path):
    """docs/run-a-language-model.md: its program answers about France as SmolLM2 does in Python."""
    model = llm.load(smollm2(), context=2048)
    model.export(tmp_path / "model")
    done = run_commands(ROOT / "docs" / "run-a-language-model.md", "## From C++", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    *answer, rows = map(int, done.stdout.split())
    assert rows == 1
    assert model.tokenizer.decode(answer) == model.generate("The capital of France is", max_new_tokens=8)
