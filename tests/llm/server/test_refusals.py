"""Requests that are refused: error objects with their statuses, fields and codes; any bytes get a proper answer."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Generator
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import ScriptedEngine, served
from small_models import small_model
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from relax import llm
from relax.llm.engine.requests import Event
from relax.llm.server import app
from relax.llm.tokenizer import Tokenizer

HELLO = [{"role": "user", "content": "Hello"}]
CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return llm.tokenizer_of(small_model(tmp_path_factory.mktemp("small")))


@pytest.fixture(scope="module")
def engine(tokenizer: Tokenizer) -> ScriptedEngine:
    return ScriptedEngine(tokenizer, lambda request: ["Hello", " you"], context=64)


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Generator[TestClient]:
    with TestClient(app(engine, name="small", body_limit=20_000)) as made:
        yield made


def tool(name: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


FIELDS: list[tuple[dict[str, Any], int, str | None, str]] = [
    ({"messages": None}, 400, "messages", "messages: missing"),
    ({"messages": []}, 400, "messages", "messages: an empty array, expected at least one message"),
    ({"messages": "Hello"}, 400, "messages", "messages: a string, expected an array"),
    ({"messages": ["Hello"]}, 400, "messages[0]", "messages[0]: a string, expected an object"),
    ({"messages": [{"content": "x"}]}, 400, "messages[0].role", "messages[0].role: missing"),
    ({"messages": [{"role": "poet", "content": "x"}]}, 400, "messages[0].role", "'poet', expected one of 'system'"),
    ({"messages": [{"role": "user"}]}, 400, "messages[0].content", "messages[0].content: missing"),
    ({"messages": [{"role": "user", "content": 3}]}, 400, "messages[0].content", "a number, expected an array"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]},
        400, "messages[0].content[0].type", "'image_url', expected 'text': the model reads text only",
    ),
    ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, 400, "messages[0].mood", "Unrecognized request arg"),
    ({"messages": [{"role": "user", "content": "x" * 99}]}, 400, "messages", "maximum context length is 64 tokens"),
    ({"model": "gpt-9"}, 404, "model", "The model 'gpt-9' does not exist; there is 'small'"),
    ({"model": 3}, 400, "model", "model: a number, expected a string"),
    ({"temperature": "hot"}, 400, "temperature", "temperature: a string, expected a number"),
    ({"temperature": True}, 400, "temperature", "temperature: a boolean, expected a number"),
    ({"temperature": -1}, 400, "temperature", "temperature: -1, expected at least 0"),
    ({"temperature": 1e308}, 400, "temperature", "temperature: 1e+308, expected at least 0"),
    ({"top_p": 1.5}, 400, "top_p", "top_p: 1.5, expected from 0 to 1"),
    ({"top_k": 1.5}, 400, "top_k", "top_k: a number, expected an integer"),
    ({"n": 0}, 400, "n", "n: 0, expected from 1 to 128"),
    ({"n": 10**30}, 400, "n", "n: 1000000000000000000000000000000, expected from 1 to 128"),
    ({"seed": 1 << 65}, 400, "seed", "seed: 36893488147419103232, expected"),
    ({"max_tokens": 0}, 400, "max_tokens", "max_tokens: 0, expected at least 1"),
    ({"presence_penalty": 3}, 400, "presence_penalty", "presence_penalty: 3, expected from -2 to 2"),
    ({"repetition_penalty": 0}, 400, "repetition_penalty", "expected a number above 0"),
    ({"logit_bias": {"cat": 1}}, 400, "logit_bias", "'cat' is no token: the vocabulary has 260"),
    ({"logit_bias": {"260": 1}}, 400, "logit_bias", "'260' is no token"),
    ({"logit_bias": {"²": 1}}, 400, "logit_bias", "'²' is no token"),
    ({"logit_bias": {"1": 101}}, 400, "logit_bias.1", "logit_bias.1: 101, expected from -100 to 100"),
    ({"stop": ["a", ""]}, 400, "stop", "stop: an empty string ends every text"),
    ({"stop": ["a", 1]}, 400, "stop[1]", "stop[1]: a number, expected a string"),
    ({"stop": ["a"] * 65}, 400, "stop", "stop: 65 elements, expected at most 64"),
    ({"stream": "yes"}, 400, "stream", "stream: a string, expected a boolean"),
    ({"stream_options": {"include_usage": True}}, 400, "stream_options", "only for stream: true"),
    ({"top_logprobs": 2}, 400, "top_logprobs", "only with logprobs: true"),
    ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", "21, expected from 0 to 20"),
    ({"response_format": {"type": "xml"}}, 400, "response_format.type", "'xml', expected 'text' or 'json_object'"),
    ({"response_format": {"type": "json_schema"}}, 400, "response_format.json_schema", "json_schema: missing"),
    ({"regex": "a", "grammar": "b"}, 400, "grammar", "only one constraint at a time, and regex is there"),
    ({"guided_choice": []}, 400, "guided_choice", "no texts to choose from"),
    ({"guided_json": "{"}, 400, None, "the body is not JSON"),
    ({"tools": [{}]}, 400, "tools[0].type", "tools[0].type: missing"),
    ({"tools": [tool("a b")]}, 400, "tools[0].function.name", "'a b', expected 1 to 64 letters"),
    ({"tools": [tool("a"), tool("a")]}, 400, "tools", "two functions are called 'a'"),
    ({"tool_choice": "auto"}, 400, "tool_choice", "'auto', but there are no tools"),
    ({"tools": [tool("a")], "tool_choice": tool("b")}, 400, "tool_choice", "'b' is not among the tools"),
    ({"tools": [tool("a")], "tool_choice": "maybe"}, 400, "tool_choice", "'maybe', expected 'none' or 'auto'"),
    (
        {"tools": [tool("a")], "tool_choice": "required", "regex": "x"}, 400, "tool_choice",
        "the answer is a call, and cannot keep to another constraint",
    ),
    ({"functions": [{"name": "f"}]}, 400, "functions", "functions: not supported: use tools"),
    ({"modalities": ["audio"]}, 400, "modalities", "the model writes text only"),
    ({"reasoning_effort": "high"}, 400, "reasoning_effort", "not supported by the chat template of this model"),
    ({"chat_template_kwargs": {"messages": []}}, 400, "chat_template_kwargs", "'messages' is not to be set"),
    ({"temprature": 1}, 400, "temprature", "supplied: 'temprature'; did you mean 'temperature'?"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "status", "param", "message"), FIELDS)
def test_fields(client: TestClient, fields: dict[str, Any], status: int, param: str | None, message: str) -> None:
    response = client.post(CHAT, json={"model": "small", "messages": HELLO, **fields})
    check(response, status, message)
    assert response.json()["error"]["param"] == param


COMPLETIONS: list[tuple[str, dict[str, Any], int, str]] = [
    (TEXT, {}, 400, "prompt: missing"),
    (TEXT, {"prompt": []}, 400, "prompt: an empty array"),
    (TEXT, {"prompt": ""}, 400, "prompt: the prompt is empty"),
    (TEXT, {"prompt": [1, "a"]}, 400, "prompt: a number, expected a string or an array of tokens"),
    (TEXT, {"prompt": [1, -1]}, 400, "prompt: -1 is no token: the vocabulary has 260"),
    (TEXT, {"prompt": [[1], [260]]}, 400, "prompt: 260 is no token"),
    (TEXT, {"prompt": [[True]]}, 400, "prompt: True is no token"),
    (TEXT, {"prompt": {"a": 1}}, 400, "prompt: an object, expected an array"),
    (TEXT, {"prompt": ["a"] * 129}, 400, "129 prompts, expected at most 128"),
    (TEXT, {"prompt": ["a"] * 100, "n": 2}, 400, "100 prompts with n=2, expected at most 128 answers"),
    (TEXT, {"prompt": "a" * 64}, 400, "your prompt resulted in 64 tokens"),
    (TEXT, {"prompt": "a", "max_tokens": 0}, 400, "max_tokens: 0, expected at least 1"),
    (TEXT, {"prompt": "a", "best_of": 3}, 400, "best_of: not supported: ask for n answers"),
    (TEXT, {"prompt": "a", "suffix": "b"}, 400, "suffix: not supported"),
    (EMBED, {"input": "a"}, 404, "The server has no model of embeddings"),
]


@pytest.mark.parametrize(("path", "body", "status", "message"), COMPLETIONS)
def test_fields_of_other_routes(client: TestClient, path: str, body: dict[str, Any], status: int, message: str) -> None:
    check(client.post(path, json=body), status, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[]", "the body is an array, expected an object"),
        (b"null", "the body is null, expected an object"),
        (b"\xff{}", "the body is not JSON"),
        (b'{"n": NaN}', "NaN is no JSON number"),
        (b'{"n": ' + b"1" * 5000 + b"}", "the body is not JSON"),
        (b'{"messages": ' + b"[" * 9000 + b"]" * 9000 + b"}", "more than 200 objects and arrays within each other"),
        (b'{"messages": ' + b'{"a":' * 201 + b"1" + b"}" * 202, "more than 200 objects and arrays within each other"),
    ],
)
def test_bodies_that_are_no_json_objects(client: TestClient, body: bytes, message: str) -> None:
    check(client.post(CHAT, content=body), 400, message)


def test_ignored_fields(client: TestClient) -> None:
    fields = {"user": "me", "store": True, "metadata": {"a": "b"}, "service_tier": "auto", "modalities": ["text"]}
    assert client.post(CHAT, json={"messages": HELLO, "tools": [], **fields}).status_code == 200


def check(response: httpx.Response, status: int, message: str) -> None:
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert message in error["message"]


# --------------------------------------------------------------------------------------------- limits


def test_large_bodies(client: TestClient) -> None:
    check(client.post(CHAT, content=b" " * 20_001), 413, "The body has more than 20000 bytes.")
    pieces = (b" " * 1000 for _ in range(21))  # without a length
    check(client.post(CHAT, content=pieces), 413, "The body has more than 20000 bytes.")


def test_paths_and_methods(client: TestClient) -> None:
    check(client.get("/v1/none"), 404, "Not Found: GET /v1/none")
    check(client.post("/chat/completions"), 404, "POST /chat/completions; did you mean /v1/chat/completions?")
    check(client.get("/"), 404, "GET /; the paths are /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/mod")
    response = client.get(CHAT)
    check(response, 405, "Method Not Allowed: GET /v1/chat/completions")
    assert response.headers["allow"] == "POST"


def test_a_busy_engine(client: TestClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "busy", True)
    response = client.post(CHAT, json={"messages": HELLO})
    check(response, 429, "The server is busy: 4 requests wait")
    assert response.headers["retry-after"] == "3"
    assert response.json()["error"]["code"] == "rate_limit_exceeded"


def test_all_answers_or_none(client: TestClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    add, generations = engine.add, []

    def first_only(request: Any) -> Any:
        if generations:
            engine.busy = True
        generations.append(add(request))
        return generations[-1]

    monkeypatch.setattr(engine, "busy", False)
    monkeypatch.setattr(engine, "add", first_only)
    assert client.post(CHAT, json={"messages": HELLO, "n": 3}).status_code == 429
    assert [generation.is_aborted for generation in generations] == [True]


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("the schema is wrong"), 400, "the schema is wrong"),
        (RuntimeError("closed"), 503, "The server is shutting down."),
    ],
)
def test_errors_of_the_engine(
    client: TestClient,
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    message: str,
) -> None:
    def add(request: Any) -> None:
        raise error

    monkeypatch.setattr(engine, "add", add)
    for fields in ({}, {"stream": True}, {"response_format": {"type": "json_object"}}):
        check(client.post(CHAT, json={"messages": HELLO, **fields}), status, message)


@pytest.mark.parametrize(
    ("event", "status", "message"),
    [
        (Event("", (), "timeout"), 504, "The request took too long."),
        (Event("", (), "error", "a fault"), 500, "The answer failed: a fault"),
        (Event("", (), "abort"), 503, "The server is shutting down."),
    ],
)
def test_answers_that_end_otherwise(
    client: TestClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, event: Event, status: int, message: str
) -> None:
    monkeypatch.setattr(engine, "answer", lambda request: ["He", event])
    check(client.post(CHAT, json={"messages": HELLO}), status, message)
    for path, body in ((CHAT, {"messages": HELLO}), (TEXT, {"prompt": "a"})):
        lines = client.post(path, json={"stream": True, **body}).text.split("\n\n")
        assert json.loads(lines[-3][6:])["error"]["message"] == message
        assert lines[-2:] == ["data: [DONE]", ""]


def test_a_fault_of_the_server(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: 1 / 0)
    with TestClient(app(engine), raise_server_exceptions=False) as client:
        check(client.post(CHAT, json={"messages": HELLO}), 500, "The server had an internal error.")


# --------------------------------------------------------------------------------------------- keys, browsers


def test_keys(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: ["Hello"])
    with TestClient(app(engine, api_keys=("one", "two"))) as client:
        for header in (None, "one", "Bearer", "Bearer three", "Basic one", "Bearer \xe9"):
            headers = {} if header is None else {"authorization": header.encode("latin-1")}
            response = client.get("/v1/models", headers=headers)
            check(response, 401, "Incorrect or missing API key")
            assert response.headers["www-authenticate"] == "Bearer"
        for header in ("Bearer one", "bearer two"):
            assert client.get("/v1/models", headers={"authorization": header}).status_code == 200
        assert client.get("/health").status_code == 200


def test_the_client_raises_its_own_errors(engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(app(engine, name="small", api_keys=("one",))) as url:
        with pytest.raises(openai.AuthenticationError, match="Incorrect or missing API key"):
            openai.OpenAI(base_url=f"{url}/v1", api_key="two", max_retries=0).models.list()
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="one", max_retries=0)
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x" * 99}])
        assert caught.value.code == "context_length_exceeded"
        monkeypatch.setattr(engine, "answer", lambda request: ["He", Event("", (), "error", "it broke")])
        stream = client.chat.completions.create(model="small", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="it broke"):
            list(stream)


def test_pages_of_other_origins(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: ["Hello"])
    asks = {"origin": "https://a.example", "access-control-request-method": "POST"}
    with TestClient(app(engine, api_keys=("one",), cors=("https://a.example",))) as client:
        assert client.options(CHAT, headers=asks).headers["access-control-allow-origin"] == "https://a.example"
        assert client.options(CHAT, headers={**asks, "origin": "https://b.example"}).status_code == 400
    with TestClient(app(engine)) as client:
        assert "access-control-allow-origin" not in client.get("/health", headers=asks).headers


@pytest.mark.parametrize("name", [(), ("a", "a")])
def test_names_of_models(tokenizer: Tokenizer, name: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="models have different names, and at least one"):
        app(ScriptedEngine(tokenizer, lambda request: []), name=name)


# --------------------------------------------------------------------------------------------- the end


def test_clients_that_vanish_abort_their_requests(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: ["word "] * 5000)
    engine.pause = 0.01
    application = app(engine)
    with served(application) as url:
        with httpx.stream("POST", f"{url}{CHAT}", json={"messages": HELLO, "stream": True, "n": 2}) as response:
            next(response.iter_lines())
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}{CHAT}", json={"messages": HELLO}, timeout=0.3)
        wait_until(lambda: len(engine.generations) == 3 and all(g.is_aborted for g in engine.generations))
        wait_until(lambda: application.state.service.metrics.active == 0)
        assert 'relax_answers_total{finish="abort"} 3' in httpx.get(f"{url}/metrics", timeout=100).text


def test_clients_that_do_not_read(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: [Event("word " * 5000)] * 1000)  # more than the system buffers
    application = app(engine, timeout=0.3)
    with served(application) as url:
        with httpx.stream("POST", f"{url}{CHAT}", json={"messages": HELLO, "stream": True}) as response:
            lines = response.iter_lines()
            next(lines)
            wait_until(lambda: application.state.service.metrics.active == 0)
        assert engine.generations[0].is_aborted


def test_a_server_within_an_application(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: ["Hello"])
    outer = Starlette(routes=[Mount("/llm", app(engine, api_keys=("one",)))])
    with TestClient(outer) as client:
        check(client.post(f"/llm{CHAT}", json={"messages": HELLO}), 401, "Incorrect or missing API key")
        answer = client.post(f"/llm{CHAT}", json={"messages": HELLO}, headers={"authorization": "Bearer one"})
        assert answer.json()["choices"][0]["message"]["content"] == "Hello"
        counted = 'relax_http_requests_total{path="/v1/chat/completions",status="200"} 1'
        assert counted in client.get("/llm/metrics").text


def test_draining(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: ["word "] * 20)
    engine.pause = 0.02
    application = app(engine)
    service = application.state.service
    answers: list[httpx.Response] = []
    with served(application) as url:
        ask = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}{CHAT}", json={"messages": HELLO}, timeout=100))
        )
        ask.start()
        wait_until(lambda: bool(engine.generations))
        service.is_draining = True
        check(httpx.post(f"{url}{CHAT}", json={"messages": HELLO}, timeout=100), 503, "The server is shutting down.")
        assert httpx.get(f"{url}/health", timeout=100).status_code == 503
        assert httpx.get(f"{url}/v1/models", timeout=100).status_code == 200
        assert asyncio.run(service.drained(10))
        ask.join()
    assert answers[0].json()["choices"][0]["message"]["content"] == "word " * 20


def test_draining_that_takes_too_long(tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(tokenizer, lambda request: ["word "] * 5000)
    engine.pause = 0.02
    application = app(engine)
    answers: list[httpx.Response] = []
    with served(application) as url:
        ask = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}{CHAT}", json={"messages": HELLO}, timeout=100))
        )
        ask.start()
        wait_until(lambda: bool(engine.generations))
        assert not asyncio.run(application.state.service.drained(0.1))
        ask.join()
    check(answers[0], 503, "The server is shutting down.")


def wait_until(condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen within 10 seconds")


# --------------------------------------------------------------------------------------------- any bytes

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["user", "text", "auto"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = sorted({name for fields, *_ in FIELDS for name in fields} | {"prompt", "input", "echo", "structured_outputs"})
BODIES = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), VALUES, max_size=5)


@settings(max_examples=150)
@given(st.sampled_from([CHAT, TEXT]), BODIES, st.booleans())
def test_any_fields(client: TestClient, path: str, fields: dict[str, Any], has_messages: bool) -> None:
    whole = {**({"messages": HELLO} if path == CHAT else {"prompt": "a"}), **fields} if has_messages else fields
    proper(client.post(path, content=json.dumps(whole).encode()))


@settings(max_examples=100)
@given(st.sampled_from([CHAT, TEXT]), st.binary(max_size=60))
def test_any_bytes(client: TestClient, path: str, data: bytes) -> None:
    proper(client.post(path, content=data))


@settings(max_examples=100)
@given(st.integers(0, 200), st.sampled_from([b"", b"\x00", b"[", b"}", b'"', b"9", b"\\ud800"]))
def test_damaged_bodies(client: TestClient, place: int, put: bytes) -> None:
    body = {"messages": HELLO, "temperature": 0.5, "stop": ["a"], "tools": [tool("a")], "logit_bias": {"5": 1}}
    data = json.dumps(body).encode()
    place %= len(data)
    proper(client.post(CHAT, content=data[:place] + put + data[place + 1 :]))


def proper(response: httpx.Response) -> None:
    """A success, or an error object that blames the request."""
    if response.status_code == 200:
        if response.headers["content-type"] == "application/json":
            assert response.json()["choices"]
        else:
            assert response.text.endswith("data: [DONE]\n\n")
        return
    assert response.status_code in (400, 404, 413)
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert re.search(r"\w", response.json()["error"]["message"])
