"""The commands chat, complete, bench and transcribe on small models."""

from __future__ import annotations

import io
import re
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import small_model
from small_whisper import small_whisper

from relax import llm
from relax.cli import language_bench
from relax.cli.main import main
from relax.target import Target
from support import PLAIN_LOOPS


@pytest.fixture(autouse=True, scope="module")
def _plain_loops() -> Iterator[None]:
    """Models are compiled with their loops as written: what commands print is the subject."""
    with Target(PLAIN_LOOPS):
        yield


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


class Terminal(io.StringIO):
    """Lines that somebody types."""

    def isatty(self) -> bool:
        return True


def test_chat_on_a_terminal_goes_on_after_an_interruption(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C cuts an answer off; the part that was written stays in the conversation."""
    asked, chat = [], llm.LanguageModel.chat

    def interrupted(self: llm.LanguageModel, messages: Any, **settings: Any) -> Iterator[str]:
        asked.append([message["content"] for message in messages])
        for piece in chat(self, messages, **settings):
            yield piece
            if len(asked) == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr(llm.LanguageModel, "chat", interrupted)
    monkeypatch.setattr("sys.stdin", Terminal("Hi\nHow?\n"))
    assert main(["chat", str(folder), "--temperature", "0", "-n", "5"]) == 0
    [first, *_] = capsys.readouterr().out.splitlines()
    assert first
    assert asked == [["Hi"], ["Hi", first, "How?"]]


def test_an_interruption_ends_a_chat_that_reads_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Iterator[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(llm.LanguageModel, "chat", interrupted)
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\nHow?\n"))
    assert main(["chat", str(folder)]) == 130


def test_chat_forgets_the_oldest_messages(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that leave too little room: the message of the system and the last ones stay."""
    asked: list[list[str]] = []

    def answered(self: llm.LanguageModel, messages: Any, **settings: Any) -> Iterator[str]:
        asked.append([message["content"] for message in messages])
        return iter(["x" * 30])

    monkeypatch.setattr(llm.LanguageModel, "chat", answered)
    monkeypatch.setattr("sys.stdin", io.StringIO("One\nTwo\nThree\n"))
    assert main(["chat", str(folder), "--context", "100", "--system", "Be brief."]) == 0
    assert asked == [
        ["Be brief.", "One"],
        ["Be brief.", "One", "x" * 30, "Two"],
        ["Be brief.", "Two", "x" * 30, "Three"],
    ]
    assert capsys.readouterr().err.count("the oldest messages are forgotten; --context sets its tokens") == 1


def test_chat_on_a_terminal_goes_on_after_a_message_that_is_too_long(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "a" * 200 + "\nHi\n"
    monkeypatch.setattr("sys.stdin", Terminal(lines))
    words = ["chat", str(folder), "--temperature", "0", "-n", "5"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out == llm.load(folder).chat([{"role": "user", "content": "Hi"}], max_new_tokens=5) + "\n"
    assert "error[E7004]: the prompt has 2" in said.err
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(words) == 1


def test_answers_of_a_form(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A schema, as text or in a file, an expression, and a grammar in a file."""
    schema, grammar = tmp_path / "schema.json", tmp_path / "grammar.lark"
    text = '{"enum": ["tea", "coffee"]}'
    schema.write_text(text)
    grammar.write_text('start: "yes" | "no"')
    for words in (["--json-schema", text], ["--json-schema", str(schema)]):
        assert main(["complete", str(folder), "Hello", *words]) == 0
        assert capsys.readouterr().out in ('"tea"\n', '"coffee"\n')
    assert main(["complete", str(folder), "Hello", "--regex", "[ab]{3}"]) == 0
    assert re.fullmatch("[ab]{3}\n", capsys.readouterr().out)
    assert main(["complete", str(folder), "Hello", "--grammar", str(grammar)]) == 0
    assert capsys.readouterr().out in ("yes\n", "no\n")


@pytest.mark.parametrize("draft", ["lookup", "FOLDER"])
def test_tokens_that_are_proposed_change_no_answer(
    folder: Path, capsys: pytest.CaptureFixture[str], draft: str
) -> None:
    words = ["ab ab ab", "-n", "20", "--draft", str(folder) if draft == "FOLDER" else draft]
    assert main(["complete", str(folder), *words]) == 0
    assert capsys.readouterr().out == llm.load(folder).generate("ab ab ab", 20) + "\n"


def test_repetition_penalty(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = llm.load(folder)
    expected = model.generate("Hello", 20, repetition_penalty=3.0)
    assert expected != model.generate("Hello", 20)
    assert main(["complete", str(folder), "Hello", "-n", "20", "--repetition-penalty", "3"]) == 0
    assert capsys.readouterr().out == expected + "\n"


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
        (["FOLDER", "x", "--json-schema", "{"], "error[E7004]: --json-schema: the text is no JSON: Expecting"),
        (["FOLDER", "x", "--json-schema", "none.json"], "error[E7001]: none.json cannot be read: No such file"),
        (["FOLDER", "x", "--regex", "("], "error[E7004]: the regex is refused"),
        (["FOLDER", "x", "--adapter", "none"], "error[E7001]: none cannot be read: No such file"),
        (["FOLDER", "x", "--draft", "none"], "error[E7001]: none cannot be read: No such file"),
        (["FOLDER", "x", "--dtype", "int7"], "is not run: weights of dtype 'int7' are not made"),
    ],
)
def test_errors(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["complete", *(str(folder) if word == "FOLDER" else word for word in words)]) == 1
    assert message in capsys.readouterr().err


def test_files_that_are_no_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file that is missing; a folder with GGUF files has a hint at one of them."""
    assert main(["complete", str(tmp_path), "x"]) == 1
    error = capsys.readouterr().err
    assert f"error[E7001]: {tmp_path / 'config.json'} cannot be read: No such file or directory" in error
    assert "= help: a model is a .gguf file, or a folder of Hugging Face with config.json" in error
    file = tmp_path / "x.gguf"
    file.write_bytes(b"root")
    assert main(["complete", str(tmp_path), "x"]) == 1
    assert f"= help: name the file: {file}" in capsys.readouterr().err
    assert main(["complete", str(file), "x"]) == 1
    assert capsys.readouterr().err.startswith(f"error[E6011]: the file is not GGUF\n  --> {file}")


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


def wav_file(path: Path) -> Path:
    """Half a second of noise in a WAV file of 8000 samples a second."""
    noise = np.random.default_rng(0).integers(-9000, 9000, 4000, dtype=np.int16)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(noise.tobytes())
    return path


def test_transcribe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, sound = small_whisper(tmp_path / "model"), wav_file(tmp_path / "x.wav")
    assert main(["transcribe", str(sound), "--model", str(model), "--language", "de", "--timestamps"]) == 0
    out = capsys.readouterr().out
    found = llm.load_speech(model).transcribe(sound, language="de", timestamps=True)
    assert found.segments
    assert out == "".join(f"[00:00:0{s.start:.2f} - 00:00:0{s.end:.2f}] {s.text.strip()}\n" for s in found.segments)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.wav", "--language", "xx"], "error[E7004]: the language 'xx' is not known; there are de, en"),
        (["y.wav"], "error[E7001]: y.wav cannot be read: there is no such file"),
        (["model/config.json"], "error[E7004]: model/config.json is no WAV file"),
    ],
)
def test_transcribe_refuses(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_whisper(tmp_path / "model")
    wav_file(tmp_path / "x.wav")
    assert main(["transcribe", *words, "--model", "model"]) == 1
    assert message in capsys.readouterr().err
