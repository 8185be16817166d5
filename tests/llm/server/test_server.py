"""A server of a small model, asked by many clients at once: each has the answer that the model gives alone."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import random
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from safetensors.numpy import save_file
from serving import served
from small_models import small_model

from relax import llm
from relax.llm.engine.engine import Engine
from relax.llm.server import app

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def alone(folder: Path) -> llm.LanguageModel:
    """The model, answering one prompt at a time."""
    return llm.load(folder, cache_dtype="float32", max_sequences=2)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Generator[Engine]:
    with Engine(llm.load(folder, cache_dtype="float32", max_sequences=8, context=1024), max_waiting=256) as made:
        yield made


@pytest.fixture(scope="module")
def application(engine: Engine) -> Any:
    return app(engine, name="small")


@pytest.fixture(scope="module")
def url(application: Any) -> Generator[str]:
    with served(application) as address:
        yield address


@pytest.fixture
def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def test_chat(client: openai.OpenAI, alone: llm.LanguageModel) -> None:
    answer = client.chat.completions.create(model="small", messages=HELLO, temperature=0, max_tokens=12)
    assert answer.choices[0].message.content == alone.chat(HELLO, max_new_tokens=12)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (8, 12)
    assert answer.choices[0].finish_reason == "length"
    pieces = client.chat.completions.create(model="small", messages=HELLO, temperature=0, max_tokens=12, stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == answer.choices[0].message.content


def test_stop_strings(client: openai.OpenAI, alone: llm.LanguageModel) -> None:
    text = alone.generate("Hello", 12)
    answer = client.completions.create(model="small", prompt="Hello", temperature=0, max_tokens=12, stop=text[5:7])
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (text[: text.index(text[5:7])], "stop")


def test_log_probabilities_of_a_prompt(client: openai.OpenAI, alone: llm.LanguageModel) -> None:
    tokens = alone.tokenizer.encode("Hello there")
    logits = alone.logits(tokens).astype(np.float64)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = [float(row[token]) for row, token in zip(logits, tokens[1:], strict=False)]
    asked: dict[str, Any] = {"model": "small", "temperature": 0, "echo": True, "logprobs": 1}
    for prompt in ("Hello there", tokens):
        alone_ = client.completions.create(**asked, prompt=prompt, max_tokens=0).choices[0]
        assert (alone_.text, alone_.finish_reason) == ("Hello there", "length")
        found = alone_.logprobs
        assert found.token_logprobs[0] is None
        assert found.top_logprobs[0] is None
        assert found.token_logprobs[1:] == pytest.approx(expected, abs=1e-4)
        assert [max(top.values()) for top in found.top_logprobs[1:]] == pytest.approx(
            logits[:-1].max(axis=-1), abs=1e-4
        )
        assert "".join(found.tokens).endswith("Hello there")
        assert [alone_.text[place] for place in found.text_offset[-5:]] == [*"there"]
    whole = client.completions.create(**asked, prompt="Hello there", max_tokens=3).choices[0]
    assert whole.logprobs.token_logprobs[: len(tokens)] == found.token_logprobs
    assert len(whole.logprobs.tokens) == len(tokens) + 3
    parts = [*client.completions.create(**asked, prompt="Hello there", max_tokens=3, stream=True)]
    assert "".join(part.choices[0].text for part in parts) == whole.text
    joined = [value for part in parts for value in (part.choices[0].logprobs or found.model_copy(
        update={"token_logprobs": []})).token_logprobs]  # fmt: skip
    assert joined == whole.logprobs.token_logprobs


def test_log_probabilities_are_those_of_the_model(client: openai.OpenAI, alone: llm.LanguageModel) -> None:
    tokens = alone.tokenizer.encode("Hello")
    answer = client.completions.create(model="small", prompt=tokens, temperature=0, max_tokens=3, logprobs=2)
    logits = alone.logits(tokens)[-1].astype(np.float64)
    logits -= logits.max() + math.log(np.exp(logits - logits.max()).sum())
    best = np.argsort(-logits, kind="stable")[:2]
    logprobs = answer.choices[0].logprobs
    assert logprobs.token_logprobs[0] == pytest.approx(logits[best[0]], abs=1e-4)
    tops = {alone.tokenizer.token(int(index)).decode("utf-8", "replace"): logits[index] for index in best}
    assert logprobs.top_logprobs[0] == pytest.approx(tops, abs=1e-4)


def test_bias_forbids_tokens(client: openai.OpenAI, alone: llm.LanguageModel) -> None:
    logits = alone.logits(alone.tokenizer.encode("Hello"))[-1]
    first, second = np.argsort(-logits, kind="stable")[:2]
    asked: dict[str, Any] = {"model": "small", "prompt": "Hello", "temperature": 0, "max_tokens": 1, "logprobs": 1}
    plain = client.completions.create(**asked).choices[0].logprobs.token_logprobs[0]
    biased = client.completions.create(**asked, logit_bias={str(first): -100}).choices[0].logprobs.token_logprobs[0]
    assert plain - biased == pytest.approx(logits[first] - logits[second], abs=1e-4)


SWITCH = {
    "type": "object", "properties": {"on": {"type": "boolean"}, "color": {"enum": ["red", "green"]}},
    "required": ["on", "color"], "additionalProperties": False,
}  # fmt: skip


def test_json_of_a_schema(client: openai.OpenAI) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "switch", "schema": SWITCH}}
    for seed in range(3):
        answer = client.chat.completions.create(model="small", messages=HELLO, seed=seed, response_format=form)
        found = json.loads(answer.choices[0].message.content)
        assert found["color"] in ("red", "green")
        assert found["on"] in (True, False)


def test_required_calls_keep_to_their_schemas(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "function": {"name": "switch", "parameters": SWITCH}}]
    asked: dict[str, Any] = {
        "model": "small",
        "messages": [{"role": "user", "content": "x"}],
        "tools": tools,
        "seed": 2,
    }
    answer = client.chat.completions.create(**asked, tool_choice="required", parallel_tool_calls=False)
    [call] = answer.choices[0].message.tool_calls
    assert call.function.name == "switch"
    assert set(json.loads(call.function.arguments)) == {"on", "color"}
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"regex": "a("}, "regex"),
        ({"grammar": "start: nothing"}, "grammar"),
        ({"guided_json": {"type": "wood"}}, "json_schema"),
    ],
)
def test_constraints_that_are_none(client: openai.OpenAI, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(openai.BadRequestError, match=message):
        client.completions.create(model="small", prompt="Hello", extra_body=fields)


def test_an_adapter_is_a_model(folder: Path, tmp_path: Path) -> None:
    """Requests to the model and to its adapter, together, have the answers that each gives alone."""
    rng = np.random.default_rng(3)
    name = "base_model.model.model.layers.0.mlp.down_proj"
    factors = {
        f"{name}.lora_A.weight": rng.normal(0, 0.5, (2, 48)),
        f"{name}.lora_B.weight": rng.normal(0, 0.5, (32, 2)),
    }
    save_file({key: value.astype(np.float32) for key, value in factors.items()}, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    model = llm.load(folder, cache_dtype="float32", max_sequences=4, adapters={"law": tmp_path})
    expected = [model.generate("Hello", 12, adapter=adapter) for adapter in (None, "law")]
    assert expected[0] != expected[1]
    with Engine(model) as engine, served(app(engine, name="small", adapters=("law",))) as url:

        async def both() -> list[Any]:
            async with httpx.AsyncClient(timeout=100) as http:
                body = {"prompt": "Hello", "max_tokens": 12, "temperature": 0}
                names = ("small", "law") * 3
                return await asyncio.gather(
                    *(http.post(f"{url}/v1/completions", json={**body, "model": n}) for n in names)
                )

        assert [answer.json()["choices"][0]["text"] for answer in asyncio.run(both())] == expected * 3


# --------------------------------------------------------------------------------------------- many at once


class Question:
    """Question of one of many clients, and the right answer."""

    def __init__(self, number: int, alone: llm.LanguageModel) -> None:
        rng = random.Random(number)
        self.fields: dict[str, Any] = {
            "prompt": f"{'a common beginning of several prompts, ' * (number % 2)}question {number}"[: rng.randint(8, 60)],
            "max_tokens": rng.randint(1, 16), "stream": number % 3 == 0,
        }  # fmt: skip
        chosen = {"temperature": 0.0} if number % 4 else {"temperature": 0.8, "top_p": 0.9, "seed": number}
        self.fields |= chosen
        self.answer = alone.generate(self.fields["prompt"], self.fields["max_tokens"], **chosen)

    async def ask(self, client: openai.AsyncOpenAI) -> str:
        found: Any = await client.completions.create(model="small", **self.fields)
        if not self.fields["stream"]:
            return found.choices[0].text
        return "".join([chunk.choices[0].text async for chunk in found])


def test_200_clients_at_once(url: str, engine: Engine, alone: llm.LanguageModel) -> None:
    questions = [Question(number % 100, alone) for number in range(200)]

    async def all_answers() -> list[str]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(limits=limits, timeout=120) as http:
            client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http)
            return await asyncio.gather(*(question.ask(client) for question in questions))

    assert asyncio.run(all_answers()) == [question.answer for question in questions]
    assert idle(engine)


def test_clients_that_vanish_harm_no_others(url: str, engine: Engine, alone: llm.LanguageModel) -> None:
    questions = [Question(number, alone) for number in range(20)]
    before = engine.stats().finished.get("abort", 0)

    async def vanish(http: httpx.AsyncClient, number: int) -> None:
        body = {"prompt": f"long {number}", "max_tokens": 100, "ignore_eos": True, "stream": number % 2 == 0}
        if number % 2:
            with pytest.raises(httpx.ReadTimeout):
                await http.post(f"{url}/v1/completions", json=body, timeout=httpx.Timeout(30, read=0.005))
            return
        async with http.stream("POST", f"{url}/v1/completions", json=body) as response:
            async for _ in response.aiter_lines():
                return

    async def both() -> list[str]:
        async with httpx.AsyncClient(timeout=60) as http:
            client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http)
            vanishing = [asyncio.ensure_future(vanish(http, number)) for number in range(20)]
            answers = await asyncio.gather(*(question.ask(client) for question in questions))
            await asyncio.gather(*vanishing)
            return answers

    assert asyncio.run(both()) == [question.answer for question in questions]
    assert idle(engine)
    assert engine.stats().finished.get("abort", 0) > before
    assert engine.stats().free_tokens > 0


def idle(engine: Engine) -> bool:
    """Wait until nothing runs; False if that takes more than ten seconds."""
    for _ in range(500):
        stats = engine.stats()
        if not stats.running and not stats.waiting:
            return True
        time.sleep(0.02)
    return False


def test_more_requests_than_may_wait(folder: Path) -> None:
    """Refused ones say so, and come again; none is lost."""
    with Engine(llm.load(folder, max_sequences=1), max_waiting=2) as engine, served(app(engine, name="small")) as url:

        async def ask(http: httpx.AsyncClient, number: int) -> tuple[int, str]:
            refusals = 0
            while True:
                body = {"prompt": f"question {number}", "max_tokens": 3, "temperature": 0}
                response = await http.post(f"{url}/v1/completions", json=body)
                if response.status_code == 200:
                    return refusals, response.json()["choices"][0]["text"]
                assert response.status_code == 429
                assert int(response.headers["retry-after"]) >= 1
                refusals += 1
                await asyncio.sleep(0.02)

        async def everyone() -> list[tuple[int, str]]:
            async with httpx.AsyncClient(timeout=60) as http:
                return await asyncio.gather(*(ask(http, number) for number in range(20)))

        found = asyncio.run(everyone())
        assert sum(refusals for refusals, _ in found) > 0
        assert [text for _, text in found] == [
            engine.model.generate(f"question {number}", 3) for number in range(20)
        ]  # fmt: skip


def test_memory_is_flat(url: str, engine: Engine, application: Any) -> None:
    """The number of objects does not grow with the number of requests."""
    with httpx.Client(base_url=url, timeout=100) as http:

        def ask(count: int) -> int:
            for number in range(count):
                body = {"messages": HELLO, "max_tokens": 2, "stream": number % 2 == 0, "logprobs": True}
                assert http.post("/v1/chat/completions", json=body).status_code == 200
                assert http.post("/v1/chat/completions", json={"messages": 3}).status_code == 400
            assert idle(engine)
            gc.collect()
            return len(gc.get_objects())

        ask(30)
        before = ask(30)
        after = ask(150)
    assert after - before < 150
    assert application.state.service._generations == set()


@pytest.mark.slow
def test_soak(url: str, engine: Engine, alone: llm.LanguageModel) -> None:
    """For ten minutes (RELAX_SOAK_SECONDS), clients ask, vanish and err; every answer is right, and memory is flat."""
    seconds = float(os.environ.get("RELAX_SOAK_SECONDS", "600"))
    questions = [Question(number, alone) for number in range(100)]
    end = time.monotonic() + seconds
    counts = {"right": 0, "vanished": 0, "refused": 0}
    sizes: list[int] = []

    async def one(client: openai.AsyncOpenAI, http: httpx.AsyncClient, rng: random.Random) -> None:
        while time.monotonic() < end:
            kind = rng.random()
            if kind < 0.8:
                question = rng.choice(questions)
                assert await question.ask(client) == question.answer
                counts["right"] += 1
            elif kind < 0.9:
                body = {"prompt": "long", "max_tokens": 100, "ignore_eos": True, "stream": True}
                async with http.stream("POST", f"{url}/v1/completions", json=body) as response:
                    async for _ in response.aiter_lines():
                        break
                counts["vanished"] += 1
            else:
                data = bytes(rng.randrange(256) for _ in range(rng.randrange(50)))
                response = await http.post(f"{url}/v1/chat/completions", content=data)
                assert response.status_code == 400
                counts["refused"] += 1

    async def watch() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(seconds / 10)
            gc.collect()
            sizes.append(resident())

    async def everyone() -> None:
        async with httpx.AsyncClient(timeout=120) as http:
            client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http)
            await asyncio.gather(watch(), *(one(client, http, random.Random(number)) for number in range(24)))

    asyncio.run(everyone())
    assert min(counts.values()) > 0
    assert idle(engine)
    assert sizes[-1] - sizes[2] < 20 << 20, sizes


def resident() -> int:
    """Bytes of the process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
