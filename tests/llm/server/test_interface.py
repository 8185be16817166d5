"""OpenAI's interface, driven by its own client, over an engine whose answers are given."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import ScriptedEngine, served
from small_models import small_bert, small_model

from relax import llm
from relax.llm.engine.requests import Event, Request
from relax.llm.server import app
from relax.llm.tokenizer import Tokenizer

HELLO = [{"role": "user", "content": "Hello"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather", "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}  # fmt: skip
ADD = {"type": "function", "function": {"name": "add"}}
CALL = '{"name": "weather", "arguments": {"city": "Rome"}}'


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return llm.tokenizer_of(small_model(tmp_path_factory.mktemp("small")))


class Served:
    """A server, its engine, and clients of it."""

    def __init__(self, engine: ScriptedEngine, url: str, embedding: llm.EmbeddingModel) -> None:
        self.engine, self.url, self.embedding = engine, url, embedding
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.http = httpx.Client(base_url=url, timeout=100)

    def chat(self, **fields: Any) -> Any:
        return self.client.chat.completions.create(**{"model": "small", "messages": HELLO, **fields})

    def complete(self, **fields: Any) -> Any:
        return self.client.completions.create(**{"model": "small", "prompt": "Hello", **fields})

    def answers(self, *pieces: str | Event) -> None:
        self.engine.answer = lambda request: pieces

    @property
    def last(self) -> Request:
        return self.engine.requests[-1]

    def prompt(self) -> str:
        return self.engine.model.tokenizer.decode(self.last.prompt)


@pytest.fixture(scope="module")
def module_server(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    engine = ScriptedEngine(tokenizer, lambda request: [])
    embedding = llm.load_embedding(small_bert(tmp_path_factory.mktemp("bert")))
    application = app(engine, name=("small", "other"), adapters=("law",), embedding=embedding, embedding_name="bert")
    with served(application) as url:
        yield Served(engine, url, embedding)


@pytest.fixture
def server(module_server: Served) -> Served:
    module_server.engine.pause, module_server.engine.busy = 0.0, False
    module_server.answers("Hel", "lo ", "you")
    return module_server


# --------------------------------------------------------------------------------------------- chat


def test_chat(server: Served) -> None:
    answer = server.chat(temperature=0, max_tokens=7, stop=["\n"], seed=5)
    assert answer.object == "chat.completion"
    assert answer.model == "small"
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello you", "stop")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (8, 9, 17)
    assert server.prompt() == "<|user|>Hello<|end|><|assistant|>"
    assert server.last.max_new_tokens == 7
    assert server.last.stop == ("\n",)
    assert dict(server.last.sampling) == {"temperature": 0.0, "seed": 5}


def test_parameters_reach_the_sampler(server: Served) -> None:
    more = {"top_k": 5, "min_p": 0.1, "typical_p": 0.9, "repetition_penalty": 1.1, "ignore_eos": True}
    server.chat(top_p=0.5, presence_penalty=1, frequency_penalty=-1, logit_bias={"7": -100}, seed=-1, extra_body=more)
    assert dict(server.last.sampling) == {
        "temperature": 1.0, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.9, "presence_penalty": 1.0, "top_k": 5,
        "frequency_penalty": -1.0, "repetition_penalty": 1.1, "logit_bias": {7: -100.0}, "seed": 2**64 - 1,
    }  # fmt: skip
    llm.Sampler(**server.last.sampling)
    assert server.last.ignore_end
    assert server.last.max_new_tokens == 1024 - 8  # what the context has room for
    assert server.last.timeout == 600


def test_several_answers_have_seeds_of_their_own(server: Served) -> None:
    server.engine.answer = lambda request: [f"answer {request.sampling['seed']}"]
    answer = server.chat(n=3, seed=10)
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [
        (0, "answer 10"), (1, "answer 11"), (2, "answer 12"),
    ]  # fmt: skip
    assert answer.usage.prompt_tokens == 8


def test_stream(server: Served) -> None:
    chunks = [*server.chat(stream=True, stream_options={"include_usage": True})]
    assert len({chunk.id for chunk in chunks}) == 1
    *parts, usage = chunks
    deltas = [chunk.choices[0].delta for chunk in parts]
    assert deltas[0].role == "assistant"
    assert [delta.content for delta in deltas] == ["", "Hel", "lo ", "you", None]
    assert [chunk.choices[0].finish_reason for chunk in parts] == [None] * 4 + ["stop"]
    assert usage.choices == []
    assert usage.usage.completion_tokens == 9
    assert all(chunk.usage is None for chunk in server.chat(stream=True))


def test_stream_of_several_answers(server: Served) -> None:
    server.engine.answer = lambda request: ["answer ", str(request.sampling["seed"])]
    texts = ["", ""]
    for chunk in server.chat(n=2, seed=3, stream=True):
        [choice] = chunk.choices
        texts[choice.index] += choice.delta.content or ""
    assert texts == ["answer 3", "answer 4"]


def test_a_stream_as_it_is_sent(server: Served) -> None:
    server.answers("\u2028é\ud800")
    response = server.http.post("/v1/chat/completions", json={"messages": HELLO, "stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    lines = response.content.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    assert all(line.startswith("data: ") for line in lines[:-1])
    assert json.loads(lines[1][6:])["choices"][0]["delta"] == {"content": "\u2028é?"}


def test_logprobs(server: Served) -> None:
    server.answers(
        "é", Event("", (dataclasses.replace(server.engine.event("a", Request("")).tokens[0], token=256),), "stop")
    )
    [choice] = server.chat(logprobs=True, top_logprobs=2).choices
    first, second = choice.logprobs.content  # the token that ends the turn is not listed
    assert (first.bytes, second.bytes, first.logprob) == ([0xC3], [0xA9], -0.5)
    assert [top.bytes for top in first.top_logprobs] == [[0xC3], [0xC4]]
    assert server.last.sampling["logprobs"] == 2
    [choice] = server.chat(logprobs=True).choices
    assert choice.logprobs.content[0].top_logprobs == []
    entries = [
        entry for chunk in server.chat(logprobs=True, top_logprobs=1, stream=True)
        for entry in (chunk.choices[0].logprobs.content if chunk.choices[0].logprobs else [])
    ]  # fmt: skip
    assert bytes(byte for entry in entries for byte in entry.bytes).decode() == "é"


def test_messages_in_parts_and_of_developers(server: Served) -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    server.chat(messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}])
    assert server.prompt() == "<|system|>Be brief.<|end|><|user|>Hello<|end|><|assistant|>"


def test_texts_of_users_are_no_control_tokens_of_completions(server: Served) -> None:
    server.complete(prompt="<|end|>")
    assert len(server.last.prompt) == 7


def test_adapters_are_models(server: Served) -> None:
    assert server.chat(model="law").model == "law"
    assert server.last.adapter == "law"
    server.chat(model="other")
    assert server.last.adapter is None


# --------------------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"json_schema": True}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}}},
            {"json_schema": {"type": "array"}},
        ),
        ({"extra_body": {"json_schema": {"type": "array"}}}, {"json_schema": {"type": "array"}}),
        ({"extra_body": {"guided_json": '{"type": "array"}'}}, {"json_schema": {"type": "array"}}),
        ({"extra_body": {"regex": "a+"}}, {"regex": "a+"}),
        ({"extra_body": {"grammar": 'start: "a"'}}, {"grammar": 'start: "a"'}),
        ({"extra_body": {"guided_choice": ["yes", "no (1.)"]}}, {"regex": r"yes|no \(1\.\)"}),
        ({"extra_body": {"structured_outputs": {"choice": ["a|b"]}}}, {"regex": r"a\|b"}),
    ],
)
def test_constraints(server: Served, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    server.chat(**fields)
    found = {name: getattr(server.last, name) for name in ("json_schema", "regex", "grammar")}
    assert {name: value for name, value in found.items() if value is not None} == expected


# --------------------------------------------------------------------------------------------- tools


def test_a_call(server: Served) -> None:
    server.answers(CALL)
    answer = server.chat(tools=[WEATHER, ADD])
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    [call] = choice.message.tool_calls
    assert (call.type, call.function.name, call.function.arguments) == ("function", "weather", '{"city": "Rome"}')
    assert server.last.json_schema is None
    told = server.prompt()
    assert told.startswith("<|system|>You can call functions.")
    assert json.dumps(WEATHER["function"]) in told


def test_a_call_in_a_stream(server: Served) -> None:
    server.answers(*CALL)
    names, arguments, reasons = [], "", []
    for chunk in server.chat(tools=[WEATHER], stream=True):
        reasons.append(chunk.choices[0].finish_reason)
        for call in chunk.choices[0].delta.tool_calls or []:
            assert call.index == 0
            names += [call.function.name] if call.function.name else []
            arguments += call.function.arguments
    assert names == ["weather"]
    assert arguments == '{"city": "Rome"}'
    assert reasons[-1] == "tool_calls"


def test_words_where_tools_are_at_hand(server: Served) -> None:
    [choice] = server.chat(tools=[WEATHER]).choices
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == ("Hello you", None, "stop")


def test_calls_and_results_in_messages(server: Served) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    turns = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    turns += [{"role": "tool", "tool_call_id": "c1", "content": "sun"}]
    server.chat(messages=[*HELLO, *turns])
    expected = f"<|user|>Hello<|end|><|assistant|>{CALL}<|end|><|user|>Result of the function: sun<|end|><|assistant|>"
    assert server.prompt() == expected


def test_no_tool_choice(server: Served) -> None:
    server.answers(CALL)
    [choice] = server.chat(tools=[WEATHER], tool_choice="none").choices
    assert choice.message.content == CALL
    assert server.prompt() == "<|user|>Hello<|end|><|assistant|>"


def test_required_call(server: Served) -> None:
    server.answers(f"[{CALL}]")
    nested = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}}
    add = {"type": "function", "function": {"name": "add", "parameters": nested}}
    [choice] = server.chat(tools=[WEATHER, add], tool_choice="required", parallel_tool_calls=False).choices
    assert choice.message.tool_calls[0].function.name == "weather"
    schema = server.last.json_schema
    assert (schema["type"], schema["minItems"], schema["maxItems"]) == ("array", 1, 1)
    assert [item["properties"]["name"]["const"] for item in schema["items"]["anyOf"]] == ["weather", "add"]
    assert schema["$defs"]["tool1"]["properties"]["a"] == {"$ref": "#/$defs/tool1/$defs/n"}


def test_named_call(server: Served) -> None:
    server.answers('{"city": ', '"Rome"}')
    choice = {"type": "function", "function": {"name": "weather"}}
    [answer] = server.chat(tools=[ADD, WEATHER], tool_choice=choice).choices
    [call] = answer.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Rome"}')
    assert answer.finish_reason == "tool_calls"
    assert server.last.json_schema == WEATHER["function"]["parameters"]
    pieces = [call.function.arguments for chunk in server.chat(tools=[WEATHER], tool_choice=choice, stream=True)
              for call in chunk.choices[0].delta.tool_calls or []]  # fmt: skip
    assert pieces == ['{"city": ', '"Rome"}']


# --------------------------------------------------------------------------------------------- completions


def test_completion(server: Served) -> None:
    answer = server.complete()
    assert answer.object == "text_completion"
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("Hello you", "stop")
    assert server.last.max_new_tokens == 16
    assert server.prompt() == "Hello"


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [("ab", ["ab"]), ([97, 98], ["ab"]), (["ab", "c"], ["ab", "c"]), ([[97, 98], [99]], ["ab", "c"])],
)
def test_prompts(server: Served, prompt: Any, texts: list[str]) -> None:
    tokenizer = server.engine.model.tokenizer
    if not isinstance(prompt, str) and not isinstance(prompt[0], str):  # ids of the letters
        letters = [97, 98, 99]
        ids = {letter: tokenizer.encode(chr(letter))[0] for letter in letters}
        prompt = [ids[p] if isinstance(p, int) else [ids[q] for q in p] for p in prompt]
    server.engine.answer = lambda request: [f" after {tokenizer.decode(request.prompt)}"]
    answer = server.complete(prompt=prompt, n=2, echo=True)
    assert [choice.text for choice in answer.choices] == [f"{t} after {t}" for t in texts for _ in range(2)]
    assert answer.usage.prompt_tokens == sum(map(len, texts))
    streamed = [""] * len(answer.choices)
    for chunk in server.complete(prompt=prompt, n=2, echo=True, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == [choice.text for choice in answer.choices]


def test_logprobs_of_completions(server: Served) -> None:
    logprobs = server.complete(logprobs=1).choices[0].logprobs
    assert "".join(logprobs.tokens) == "Hello you"
    assert logprobs.text_offset == [*range(9)]
    assert logprobs.token_logprobs == [-0.5] * 9
    assert logprobs.top_logprobs[0] == {"H": -0.5}
    streamed = [chunk.choices[0].logprobs for chunk in server.complete(logprobs=1, stream=True)]
    assert [place for part in streamed if part for place in part.text_offset] == [*range(9)]


# --------------------------------------------------------------------------------------------- other routes


def test_embeddings(server: Served) -> None:
    texts = ["the cat", "the dog plays"]
    answer = server.client.embeddings.create(model="bert", input=texts)
    assert [entry.index for entry in answer.data] == [0, 1]
    expected = server.embedding.embed(texts)
    assert [entry.embedding for entry in answer.data] == [pytest.approx(row, abs=1e-6) for row in expected.tolist()]
    assert answer.usage.prompt_tokens == 4 + 5
    one = server.client.embeddings.create(model="bert", input="the cat", encoding_format="float")
    assert one.data[0].embedding == pytest.approx(answer.data[0].embedding, abs=1e-6)


def test_models(server: Served) -> None:
    assert [model.id for model in server.client.models.list()] == ["small", "other", "law", "bert"]
    assert server.client.models.retrieve("law").id == "law"
    with pytest.raises(openai.NotFoundError, match="The model 'no' does not exist"):
        server.client.models.retrieve("no")


def test_health_and_metrics(server: Served) -> None:
    assert server.http.get("/health").json() == {"status": "ok"}
    server.chat()
    text = server.http.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {(s.name, *s.labels.values()): s.value for family in families.values() for s in family.samples}
    assert samples["relax_http_requests_total", "/v1/chat/completions", "200"] >= 1
    assert samples["relax_tokens_total", "new"] >= 9
    assert samples["relax_first_token_seconds_bucket", "0.25"] == samples["relax_first_token_seconds_count",] >= 1
    assert samples["relax_first_token_seconds_bucket", "0.1"] == 0
    assert samples["relax_sequences_waiting",] == 2
    assert samples["relax_requests_active",] == 0
