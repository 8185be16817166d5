"""``relax serve``: a process that answers over HTTP until it is told to end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from small_models import small_bert, small_model

import relax
from relax import llm
from relax.cli.main import main

HELLO = [{"role": "user", "content": "Hello"}]
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": str(Path(relax.__file__).parents[1]), "RELAX_API_KEY": "",
    "RELAX_CACHE_PROGRAMS": "1",  # the model is compiled for the first process only
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture(scope="module")
def alone(folder: Path) -> llm.LanguageModel:
    """The model, answering one prompt at a time; the program that it compiles is kept for the processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELAX_CACHE_PROGRAMS", "1")
        return llm.load(folder)


class Process:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.first = process.stdout.readline().strip()
        second = process.stdout.readline().split()
        assert second, process.communicate()
        self.url = second[0]

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url, api_key=key, max_retries=0)


@contextlib.contextmanager
def serving(*words: Any, **environment: str) -> Generator[Process]:
    """Context manager: a server, killed at the end if it is still there."""
    command = [sys.executable, "-m", "relax", "serve", *map(str, words), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, **environment}
    )
    try:
        yield Process(process)
    finally:
        process.kill()
        process.communicate()


def test_a_server(folder: Path, alone: llm.LanguageModel, tmp_path: Path) -> None:
    """It answers with the key of the environment only, embeds texts, and ends at SIGTERM."""
    bert = small_bert(tmp_path / "bert")
    words = (folder, "--embedding", bert, "--name", "one", "--name", "two", "--max-sequences", 3)
    with serving(*words, RELAX_API_KEY="secret") as server:
        assert server.first == "serving one, 3 answers at once, a context of 128 tokens"
        with pytest.raises(openai.AuthenticationError):
            server.client().models.list()
        client = server.client("secret")
        assert [model.id for model in client.models.list()] == ["one", "two", "bert"]
        answer = client.chat.completions.create(model="two", messages=HELLO, temperature=0, max_tokens=6)
        assert answer.choices[0].message.content == alone.chat(HELLO, max_new_tokens=6)
        assert len(client.embeddings.create(model="bert", input="the cat").data[0].embedding) == 16
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        assert server.process.stderr.read() == ""


LONG = {
    "prompt": "Hello",
    "max_tokens": 120,
    "temperature": 0,
    "n": 64,
    "ignore_eos": True,
    "logprobs": 20,
    "stream": True,
}
"""Request for an answer of more bytes than the system buffers: it ends when the client has read it."""


def test_answers_under_way_are_finished(folder: Path) -> None:
    """SIGTERM refuses further requests, and the server ends once answers under way have been read."""
    with serving(folder, "--drain-seconds", "100") as server, httpx.Client(timeout=100) as http:
        http.get(f"{server.url}/models")  # a connection that is open is still served
        with httpx.stream("POST", f"{server.url}/completions", json=LONG, timeout=100) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            refused = http.post(f"{server.url}/completions", json={"prompt": "a"})
            assert refused.status_code == 503
            assert refused.json()["error"]["message"] == "The server is shutting down."
            text = "\n".join(lines)
        assert text.count('"finish_reason":"length"') == 64
        assert server.process.wait(20) == 0


@pytest.mark.parametrize("words", [("--drain-seconds", "0.1"), pytest.param((), marks=pytest.mark.slow)])
def test_answers_that_take_too_long_are_aborted(folder: Path, words: tuple[str, ...]) -> None:
    """The server ends behind `--drain-seconds`, or at a second signal."""
    with serving(folder, *words) as server:
        with httpx.stream("POST", f"{server.url}/completions", json=LONG, timeout=100) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGINT)
            if not words:
                time.sleep(0.3)
                assert server.process.poll() is None
                server.process.send_signal(signal.SIGINT)
            assert server.process.wait(20) == 1
        assert server.process.stderr.read() == "answers under way were aborted\n"


@pytest.mark.slow
@pytest.mark.parametrize("draft", ["lookup", "FOLDER"])
def test_tokens_that_are_proposed_change_no_answer(folder: Path, alone: llm.LanguageModel, draft: str) -> None:
    with serving(folder, "--draft", folder if draft == "FOLDER" else draft) as server:
        asked = {"prompt": "ab ab ab ab", "max_tokens": 40, "temperature": 0}
        text = httpx.post(f"{server.url}/completions", json=asked, timeout=100).json()["choices"][0]["text"]
        assert text == alone.generate("ab ab ab ab", 40)
        metrics = httpx.get(server.url.replace("/v1", "/metrics"), timeout=100).text
        assert re.search(r"^relax_drafted_tokens_total [1-9]", metrics, re.MULTILINE)


# --------------------------------------------------------------------------------------------- errors


def test_an_address_that_is_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(folder), "--port", str(port)]) == 1
    assert f"error[E7004]: 127.0.0.1 port {port}: address already in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.gguf"], "error[E7001]: missing.gguf cannot be read: No such file or directory"),
        (["FOLDER", "--workers", "2", "--draft", "lookup"], "error[E7004]: --draft: not with --workers"),
        (["FOLDER", "--draft", "missing"], "error[E7001]: missing cannot be read"),
        (["FOLDER", "--embedding", "missing"], "error[E7001]: missing cannot be read"),
        (["FOLDER", "--embedding", "FOLDER"], "has no model of sentences with a tokenizer"),
        (["FOLDER", "--name", "a", "--name", "a"], "error[E7004]: models have different names, and at least one"),
    ],
)
def test_models_that_are_not_served(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    given = [str(folder) if word == "FOLDER" else word for word in words]
    assert main(["serve", *given, "--port", "0"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "65536"], "65536 is not a port, from 0 to 65535"),
        (["--timeout", "0"], "0 is not a number of seconds above 0"),
        (["--timeout", "inf"], "inf is not a number of seconds above 0"),
        (["--max-waiting", "0"], "0 is not a number from 1 on"),
    ],
)
def test_wrong_numbers(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["serve", "model.gguf", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_package_that_is_not_installed(folder: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from relax.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "serve", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1
    assert "error[E7003]: the server needs the package uvicorn\n  = help: pip install relax[llm]\n" in done.stderr


def test_an_open_address_without_a_key_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["serve", str(tmp_path / "missing.gguf"), "--host", "0.0.0.0", "--port", "0"]) != 0
    assert capsys.readouterr().err.startswith("0.0.0.0 can be reached by others, who need no key: --api-key sets one\n")


def test_workers_take_no_drafter(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(folder), "--workers", "2", "--draft", "lookup", "--port", "0"]) == 1
    assert "error[E7004]: --draft: not with --workers" in capsys.readouterr().err


@pytest.mark.slow
def test_workers(folder: Path, alone: llm.LanguageModel) -> None:
    """A replica on a cluster of Ray answers as the model does, and SIGTERM ends the command."""
    pytest.importorskip("ray.serve", reason="ray is not installed: pip install relax[ray]")
    with serving(folder, "--workers", 1, "--name", "small", RAY_ADDRESS="local", RAY_USAGE_STATS_ENABLED="0") as server:
        assert server.first == "serving small by 1 workers"
        answer = server.client().completions.create(model="small", prompt="Hello", max_tokens=5, temperature=0)
        assert answer.choices[0].text == alone.generate("Hello", 5)
        server.process.terminate()
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_a_cluster_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray.serve", reason="ray is not installed: pip install relax[ray]")
    assert main(["serve", str(folder), "--workers", "1", "--port", "0", "--ray-address", "auto"]) == 1
    assert "error[E7004]: --ray-address auto: " in capsys.readouterr().err
