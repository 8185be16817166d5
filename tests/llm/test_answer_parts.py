"""Parts of an answer: reasoning, content and calls in the forms of several families, whole and in pieces."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import small_model

from relax import llm
from relax.llm.answer_parts import FORMS, AnswerParser, CallForm, TextPart, form_of, reasons

FORM = {form.name: form for form in FORMS}
NAMES = ("weather", "add")


def read(parser: AnswerParser, pieces: list[str]) -> tuple[str, str, list[tuple[str, str]]]:
    """Content, reasoning, and calls (name, arguments) of an answer that comes in pieces."""
    text = {"content": "", "reasoning": ""}
    calls: dict[int, list[str]] = {}
    parts = [part for piece in pieces for part in parser.step(piece)] + parser.finish()
    for part in parts:
        if isinstance(part, TextPart):
            text[part.kind] += part.text
        elif part.name:
            assert part.id
            assert part.index == len(calls)
            calls[part.index] = [part.name, part.arguments]
        else:
            calls[part.index][1] += part.arguments
    return text["content"], text["reasoning"], [(name, arguments) for name, arguments in calls.values()]


ROME = '{"city": "Rome"}'
CASES = {
    "hermes": (
        "hermes", f'Let me see.\n<tool_call>\n{{"name": "weather", "arguments": {ROME}}}\n</tool_call>',
        ("Let me see.", [("weather", ROME)]),
    ),
    "hermes, two calls": (
        "hermes",
        f'<tool_call>\n{{"name": "weather", "arguments": {ROME}}}\n</tool_call>\n'
        '<tool_call>\n{"arguments": {"a": [1, 2.5], "b": "}"}, "name": "add"}\n</tool_call>',
        ("", [("weather", ROME), ("add", '{"a": [1, 2.5], "b": "}"}')]),
    ),
    "hermes, without the end": (
        "hermes", f'<tool_call>{{"name": "weather", "arguments": {ROME}}}', ("", [("weather", ROME)]),
    ),
    "hermes, cut in arguments": (
        "hermes", '<tool_call>{"name": "weather", "arguments": {"city": "Ro', ("", [("weather", '{"city": "Ro')]),
    ),
    "a name of no function": (
        "hermes", '<tool_call>{"name": "cook", "arguments": {}}</tool_call>.',
        ('<tool_call>{"name": "cook", "arguments": {}}</tool_call>.', []),
    ),
    "no JSON": ("hermes", "<tool_call>none</tool_call>", ("<tool_call>none</tool_call>", [])),
    "text that begins as a call does": ("hermes", "if a <tool_box> b", ("if a <tool_box> b", [])),
    "llama": ("llama", f'{{"name": "weather", "parameters": {ROME}}}', ("", [("weather", ROME)])),
    "llama, two calls": (
        "llama",
        f'<|python_tag|>{{"name": "weather", "parameters": {ROME}}}; {{"name": "add", "parameters": {{}}}}',
        ("", [("weather", ROME), ("add", "{}")]),
    ),
    "mistral": ("mistral", f'[TOOL_CALLS] [{{"name": "weather", "arguments": {ROME}}}]', ("", [("weather", ROME)])),
    "mistral, two calls in an array": (
        "mistral",
        f'[TOOL_CALLS][{{"name": "weather", "arguments": {ROME}}}, {{"name": "add", "arguments": {{"a": 1}}}}]',
        ("", [("weather", ROME), ("add", '{"a": 1}')]),
    ),
    "mistral, name before arguments": (
        "mistral", f'[TOOL_CALLS]weather[ARGS]{ROME}[TOOL_CALLS]add[CALL_ID]123456789[ARGS]{{"a": 1}}',
        ("", [("weather", ROME), ("add", '{"a": 1}')]),
    ),
    "json": ("json", f' {{"name": "weather", "arguments": {ROME}}}', ("", [("weather", ROME)])),
    "json, array": (
        "json", f'[{{"name": "weather", "arguments": {ROME}}}, {{"name": "add"}}]', ("", [("weather", ROME), ("add", "{}")]),
    ),
    "json, fenced": (
        "json", f'Sure:\n```json\n{{"name": "weather", "arguments": {ROME}}}\n```\n', ("Sure:", [("weather", ROME)]),
    ),
    "json, OpenAI's form": (
        "json", f'{{"type": "function", "function": {{"name": "weather", "arguments": {ROME}}}}}', ("", [("weather", ROME)]),
    ),
    "json, arguments in a string": (
        "json", '{"name": "weather", "arguments": "{\\"city\\": \\"Rome\\"}"}', ("", [("weather", ROME)]),
    ),
    "json that is no call": ("json", '{"name": "Ann", "age": 3} is she', ('{"name": "Ann", "age": 3} is she', [])),
    "an array that is no call": ("json", "[1] says so", ("[1] says so", [])),
    "a line break in a string": (
        "json", '{"name": "add", "arguments": {"a": "1\n2\\"\\\\"}}', ("", [("add", '{"a": "1\\n2\\"\\\\"}')]),
    ),
    "text behind calls": (
        "json", f'{{"name": "weather", "arguments": {ROME}}}\n\nWait.', ("Wait.", [("weather", ROME)]),
    ),
    "braces that do not fit": (
        "json", '{"name": "add", "arguments": {"a": [1}} x', ("} x", [("add", '{"a": [1')]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_calls(case: str) -> None:
    form, text, (content, calls) = CASES[case]
    assert read(AnswerParser(FORM[form], NAMES), [text]) == (content, "", calls)
    assert read(AnswerParser(FORM[form], NAMES), list(text)) == (content, "", calls)


@given(st.sampled_from(sorted(CASES)), st.lists(st.integers(0, 120), max_size=6))
def test_pieces_change_nothing(case: str, cuts: list[int]) -> None:
    form, text, (content, calls) = CASES[case]
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    assert read(AnswerParser(FORM[form], NAMES), pieces) == (content, "", calls)


def test_arguments_come_before_the_call_is_complete() -> None:
    parser = AnswerParser(FORM["hermes"], NAMES)
    parts = parser.step('<tool_call>{"name": "weather", "arguments": {"city": "Ro')
    assert [(part.name, part.arguments) for part in parts] == [("weather", '{"city": "Ro')]
    assert [part.arguments for part in parser.step('me"')] == ['me"']
    assert [part.arguments for part in parser.step("}}")] == ["}"]


def test_ids() -> None:
    call = '{"name": "add", "arguments": {}}'
    ids = [AnswerParser(FORM[form], NAMES).step(f"{start}{call} ")[0].id for form, start in
           (("json", ""), ("mistral", "[TOOL_CALLS]"))]  # fmt: skip
    assert ids[0].startswith("call_")
    assert len(ids[1]) == 9
    assert ids[1].isalnum()


TOKENS = st.sampled_from(
    ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", '{"name": "add", ', '"arguments": {', '"a": 1', "}", "{",
     "[", "]", '"', "\\", ",", " ", "\n", "word", "```json", "<think>", "</think>", "<"]
)  # fmt: skip


@given(st.sampled_from(FORMS), st.lists(TOKENS, max_size=12), st.booleans())
def test_any_text_is_read_alike_whole_and_in_characters(form: CallForm, tokens: list[str], inside: bool) -> None:
    text = "".join(tokens)
    whole = read(AnswerParser(form, NAMES, reasons=True, inside=inside), [text])
    one_by_one = read(AnswerParser(form, NAMES, reasons=True, inside=inside), list(text))
    assert [part.split() if isinstance(part, str) else part for part in whole] == [
        part.split() if isinstance(part, str) else part for part in one_by_one
    ]


@given(st.lists(TOKENS, max_size=12))
def test_text_without_calls_is_kept(tokens: list[str]) -> None:
    """No function has a name: all of the text but closing marks and spaces is content."""
    text = "".join(tokens)
    content, _, calls = read(AnswerParser(FORM["hermes"], ()), [text])
    assert not calls
    assert "".join(content.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "inside", "expected"),
    [
        ("<think>\nHm, 2 < 3.\n</think>\n\nYes.", False, ("Yes.", "Hm, 2 < 3.")),
        ("\n<think>Hm</think>", False, ("", "Hm")),
        ("Hm.\n</think>\nYes.", True, ("Yes.", "Hm.")),
        ("Hm", True, ("", "Hm")),
        ("<thinking> no", False, ("<thinking> no", "")),
        ("Yes <think>no</think>", False, ("Yes <think>no</think>", "")),
        ("<think></think>Yes", False, ("Yes", "")),
    ],
)
def test_reasoning(text: str, inside: bool, expected: tuple[str, str]) -> None:
    assert read(AnswerParser(reasons=True, inside=inside), [text])[:2] == expected
    assert read(AnswerParser(reasons=True, inside=inside), list(text))[:2] == expected


def test_reasoning_before_a_call() -> None:
    text = f'<think>Call it.</think>\n<tool_call>{{"name": "weather", "arguments": {ROME}}}</tool_call>'
    parser = AnswerParser(FORM["hermes"], NAMES, reasons=True)
    assert read(parser, list(text)) == ("", "Call it.", [("weather", ROME)])


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ '<tool_call>' + x + '</tool_call>' }}", "hermes"),
        ("{{ '[TOOL_CALLS]' }}", "mistral"),
        ("<|start_header_id|>ipython<|end_header_id|>", "llama"),
        ("{{ message.content }}", "json"),
        (None, "json"),
    ],
)
def test_forms_of_chat_templates(template: str | None, form: str) -> None:
    assert form_of(template).name == form


def test_templates_of_models_that_reason() -> None:
    assert reasons("{{ content.split('</think>')[-1] }}")
    assert not reasons("{{ content }}")
    assert not reasons(None)


def test_arguments_are_json() -> None:
    arguments = {"text": 'a "quoted"\tline\\', "list": [1, {"x": None}], "é": True}
    text = json.dumps({"name": "add", "arguments": arguments}, ensure_ascii=False)
    _, _, [(_, found)] = read(AnswerParser(FORM["json"], NAMES), list(text))
    assert json.loads(found) == arguments


def test_whole_answers(tmp_path: Path) -> None:
    folder = small_model(tmp_path / "small")
    config = folder / "tokenizer_config.json"
    template = "{{ '<think>' }}{{ '<tool_call>' }}{{ messages }}"
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": template}))
    tokenizer = llm.tokenizer_of(folder)
    tools = [{"type": "function", "function": {"name": "weather"}}]
    text = f'<think>Call it.</think>\nOf Rome:<tool_call>{{"name": "weather", "arguments": {ROME}}}</tool_call>'
    found = llm.parse_answer(text, tokenizer, tools)
    assert (found.content, found.reasoning) == ("Of Rome:", "Call it.")
    assert [(call.name, call.arguments) for call in found.calls] == [("weather", ROME)]
    assert llm.parse_answer(text, tokenizer).content == text.partition("\n")[2]
    assert llm.parse_answer("Hm.</think>Yes.", tokenizer, is_reasoning=True) == llm.ParsedAnswer("Yes.", "Hm.", ())
