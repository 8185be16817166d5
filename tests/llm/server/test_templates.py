"""Chat templates of families: descriptions of tools, forms of calls, reasoning and further variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from serving import ScriptedEngine
from small_models import small_model
from starlette.testclient import TestClient

from relax import llm
from relax.llm.server import app

HERMES = """\
{% if tools %}<|system|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}Call as <tool_call>…</tool_call><|end|>{% endif %}
{%- for m in messages %}<|{{ m.role if m.role != 'tool' else 'user' }}|>{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
QWEN = (
    HERMES
    + "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)
DEEPSEEK = HERMES + "{% if add_generation_prompt %}<think>\n{% endif %}"
MISTRAL = HERMES.replace("<tool_call>", "[TOOL_CALLS]").replace("</tool_call>", "")
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALL = '{"name": "weather", "arguments": {"city": "Rome"}}'


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> ScriptedEngine:
    """Engine with a tokenizer of the template that a test names."""
    folder = small_model(tmp_path / "small")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": request.param}))
    return ScriptedEngine(llm.tokenizer_of(folder), lambda request: [])


def chat(engine: ScriptedEngine, answer: str, *, reasoning: bool = True, **fields: Any) -> dict[str, Any]:
    """Message of an answer with this text, which is also that of a stream with the same text."""
    engine.answer = lambda request: answer  # a piece for each character
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    with TestClient(app(engine, reasoning=reasoning)) as client:
        response = client.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        message = response.json()["choices"][0]["message"]
        lines = client.post("/v1/chat/completions", json={**body, "stream": True}).text.split("\n\n")
    texts = {"content": "", "reasoning_content": ""}
    for line in lines[:-2]:
        delta = json.loads(line[6:])["choices"][0]["delta"]
        for name in texts:
            texts[name] += delta.get(name) or ""
    assert texts == {name: message.get(name) or "" for name in texts}
    return message


def prompt(engine: ScriptedEngine) -> str:
    return engine.model.tokenizer.decode(engine.requests[-1].prompt)


@pytest.mark.parametrize("engine", [HERMES], indirect=True)
def test_a_template_that_writes_tools(engine: ScriptedEngine) -> None:
    message = chat(engine, f"Let me see.\n<tool_call>\n{CALL}\n</tool_call>", tools=TOOLS)
    assert message["content"] == "Let me see."
    assert message["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert prompt(engine).startswith(f"<|system|>{json.dumps(TOOLS[0])}Call as")


@pytest.mark.parametrize("engine", [HERMES], indirect=True)
def test_calls_in_messages_have_objects_as_arguments(engine: ScriptedEngine) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    broken = {"id": "2", "type": "function", "function": {"name": "weather", "arguments": '{"city'}}
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call, broken]},
        {"role": "tool", "tool_call_id": "1", "content": "sun"},
    ]
    chat(engine, "Sun.", messages=turns)
    assert f"<|assistant|><tool_call>{CALL}</tool_call>" in prompt(engine)
    assert '"arguments": "{\\"city"' in prompt(engine)
    assert "<|user|>sun<|end|>" in prompt(engine)


@pytest.mark.parametrize("engine", [MISTRAL], indirect=True)
def test_calls_of_mistral(engine: ScriptedEngine) -> None:
    [call] = chat(engine, f"[TOOL_CALLS][{CALL}]", tools=TOOLS)["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert len(call["id"]) == 9


@pytest.mark.parametrize("engine", [QWEN], indirect=True)
def test_reasoning(engine: ScriptedEngine) -> None:
    message = chat(engine, "<think>\nHm.\n</think>\n\nYes.")
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Yes.")
    message = chat(engine, "<think>Hm.</think>Yes.", reasoning=False)
    assert message == {"role": "assistant", "content": "<think>Hm.</think>Yes.", "refusal": None}
    message = chat(engine, "Yes.", chat_template_kwargs={"enable_thinking": False})
    assert prompt(engine).endswith("<think>\n\n</think>\n\n")
    assert message["content"] == "Yes."


@pytest.mark.parametrize("engine", [DEEPSEEK], indirect=True)
def test_reasoning_that_the_prompt_opens(engine: ScriptedEngine) -> None:
    message = chat(engine, "Hm.</think>\nYes.")
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Yes.")
    message = chat(engine, f"Hm.</think><tool_call>{CALL}</tool_call>", tools=TOOLS)
    assert message["reasoning_content"] == "Hm."
    assert message["tool_calls"][0]["function"]["name"] == "weather"


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "messages: the chat template failed in line 1: roles must"),
        ("{# nothing #}", "messages: the chat template makes no text of them"),
    ],
    indirect=["engine"],
)
def test_templates_that_refuse(engine: ScriptedEngine, message: str) -> None:
    with TestClient(app(engine)) as client:
        response = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}]})
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize("engine", ["{{ reasoning_effort }}{{ messages[0].content }}"], indirect=True)
def test_variables_of_the_template(engine: ScriptedEngine) -> None:
    chat(engine, "Yes.", reasoning_effort="low")
    assert prompt(engine) == "lowHi"
