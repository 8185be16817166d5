"""The commands chat, complete and bench on a small language model."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from small_models import small_model

from relax import llm
from relax.cli import language_bench
from relax.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


def test_complete(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", str(folder), "Hello", "-n", "6", "--stats"]) == 0
    said = capsys.readouterr()
    assert said.out == llm.load(folder).generate("Hello", 6) + "\n"
    assert "prompt: 5 tokens" in said.err
    assert "answer: 5 tokens" in said.err


def test_complete_reads_the_standard_input(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello\n"))
    assert main(["complete", str(folder), "-", "-n", "6"]) == 0
    assert capsys.readouterr().out == llm.load(folder).generate("Hello", 6) + "\n"


def test_chat(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\nHow?\n/new\nHi\n\nnever read\n"))
    assert main(["chat", str(folder), "--system", "Be brief.", "--temperature", "0", "-n", "5"]) == 0
    model = llm.load(folder)
    system = {"role": "system", "content": "Be brief."}
    first = [system, {"role": "user", "content": "Hi"}]
    one = model.chat(first, max_new_tokens=5)
    two = model.chat(
        [*first, {"role": "assistant", "content": one}, {"role": "user", "content": "How?"}], max_new_tokens=5
    )
    assert capsys.readouterr().out == f"{one}\n{two}\n{one}\n"


def test_bench(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PROMPT": 8, "DECODE": 3, "SEQUENCES": (1, 2), "ROUNDS": 1}.items():
        monkeypatch.setattr(language_bench, name, value)
    assert main(["bench", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "tokens a second, best of 1 rounds" in lines[0]
    assert lines[2].split() == ["sequences", "engine", "prompt", "of", "8", "decode", "of", "3"]
    assert [line.split()[:2] for line in lines[3:]] == [["1", "relax"], ["2", "relax"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.gguf", "x"], "error[E7001]: missing.gguf cannot be read: No such file or directory"),
        (["FOLDER", ""], "error[E7004]: the prompt is empty"),
        (["FOLDER", "x", "--top-p", "2"], "error[E7004]: top_p"),
        (["FOLDER", "x", "--dtype", "int7"], "is not run: weights of dtype 'int7' are not made"),
    ],
)
def test_errors(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["complete", *(str(folder) if word == "FOLDER" else word for word in words)]) == 1
    assert message in capsys.readouterr().err


def test_a_package_that_is_not_installed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert main(["complete", str(folder), "x"]) == 1
    expected = "error[E7003]: a tokenizer needs the package tokenizers\n  = help: pip install relax[llm]\n"
    assert expected in capsys.readouterr().err


def test_bench_refuses_options_of_other_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(folder), "--runs", "5", "--size", "n=4"]) == 1
    assert "error[E7004]: --runs, --size: not for language models" in capsys.readouterr().err


def test_wrong_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", str(folder), "x", "-n", "0"]) == 2
    assert "0 is not a number from 1 on" in capsys.readouterr().err
