"""Chat templates: what templates of models use, and errors with the line of the template."""

from __future__ import annotations

import datetime
import re

import pytest
import vocabularies as vs

from published_weights import smollm2
from relax.llm import tokenizer_of
from relax.llm.chat_template import render

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

USER = {"role": "user", "content": "Hello"}


def rendered(template, *messages, **variables):
    return render(template, {"messages": list(messages), **variables})


def test_the_template_of_smollm2():
    tokenizer = tokenizer_of(smollm2())
    system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    text = tokenizer.apply_chat_template([USER])
    assert text == f"{system}<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(text, add_special=False, parse_special=True)
    assert [tokenizer.special[index] for index in ids if index in tokenizer.special] == [
        "<|im_start|>", "<|im_end|>", "<|im_start|>", "<|im_end|>", "<|im_start|>"
    ]  # fmt: skip
    assert tokenizer.decode(ids) == text


TURNS = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '\n\n' -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set first = '' -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('roles must alternate') }}
    {%- endif -%}
    {{ '<turn>' + message['role'] + '\n' + (first if loop.first else '') + message['content'] | trim + '</turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<turn>model\n' }}
{%- endif -%}
"""


def test_turns_with_a_system_message():
    text = rendered(
        TURNS, {"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi "},
        {"role": "model", "content": "Yes?"}, bos_token="<bos>", add_generation_prompt=True,
    )  # fmt: skip
    assert text == "<bos><turn>user\nBe brief.\n\nHi</turn>\n<turn>model\nYes?</turn>\n<turn>model\n"


def test_blocks_take_no_white_space():
    template = "{% for m in messages %}\n  {% if m.role == 'user' %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}\n"
    assert rendered(template, USER, USER) == "Hello\nHello\n"


def test_loops_can_be_left():
    template = "{% for m in messages %}{% if m.role == 'a' %}{% continue %}{% endif %}{% if m.role == 'b' %}{% break %}{% endif %}{{ m.role }}{% endfor %}"
    assert rendered(template, *({"role": role} for role in "xaybz")) == "xy"


def test_json():
    """Characters of HTML and of other scripts stay, keys keep their order."""
    tool = {"name": "f", "about": "<ü>", "a": [1, None]}
    assert rendered("{{ tool | tojson }}", tool=tool) == '{"name": "f", "about": "<ü>", "a": [1, null]}'
    assert rendered("{{ x | tojson(indent=2) }}", x=[1]) == "[\n  1\n]"
    assert rendered(
        "{{ x | tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true) }}", x={"b": "ü", "a": 1}
    ) == ('{"a":1,"b":"\\u00fc"}')


def test_dates():
    before = datetime.datetime.now().strftime("%d %b %Y")
    text = rendered("{{ strftime_now('%d %b %Y') }}")
    assert text in (before, datetime.datetime.now().strftime("%d %b %Y"))


def test_blocks_of_answers():
    template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}!{% endfor %}"
    assert rendered(template, USER) == "Hello!"


def test_namespaces():
    template = "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
    assert rendered(template, USER, USER, USER) == "3"


# ----------------------------------------------------------------------------------- by a tokenizer


def tokenizer(folder, template, **settings):
    special = [("<s>", vs.CONTROL), ("</s>", vs.CONTROL)]
    return vs.byte_level(folder, special, chat_template=template, bos_token_id=256, eos_token_id=257, **settings)


def test_variables(tmp_path):
    template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }} {{ add_generation_prompt }} {{ more }}"
    text = tokenizer(tmp_path, template).apply_chat_template([USER], add_generation_prompt=False, more=3)
    assert text == "<s>Hello</s> False 3"


def test_tools(tmp_path):
    template = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% else %}none{% endif %}"
    with_tools = tokenizer(tmp_path, template)
    assert with_tools.apply_chat_template([USER], tools=[{"name": "f"}]) == '{"name": "f"}'
    assert with_tools.apply_chat_template([USER]) == "none"
    with pytest.raises(ValueError, match="line 1: TypeError: Object of type function is not JSON serializable"):
        with_tools.apply_chat_template([USER], tools=[tokenizer])


def test_without_a_template(tmp_path):
    with pytest.raises(ValueError, match="the tokenizer has no chat template: give the text of a prompt instead"):
        vs.byte_level(tmp_path).apply_chat_template([USER])


# ----------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "template, message",
    [
        ("a\n{% for x in", "the chat template has an error in line 2: unexpected 'end of template'"),
        ("{{ x | unknown }}", "the chat template has an error in line 1: No filter named 'unknown'"),
        ("a\n\n{{ raise_exception('only users') }}", "the chat template failed in line 3: only users"),
        ("{{ nothing.at.all }}", "the chat template failed in line 1: 'nothing' is undefined"),
        ("{{ 'a' + none }}", "the chat template failed in line 1: TypeError: can only concatenate str"),
        ("\n{{ 1 / 0 }}", "the chat template failed in line 2: ZeroDivisionError: division by zero"),
        (
            "{{ ''.__class__.__mro__ }}",
            "the chat template failed in line 1: access to attribute '__class__' of 'str' object is unsafe",
        ),
        ("{{ messages.append(1) }}", "access to attribute 'append' of 'list' object is unsafe"),
        ("{{ range(10 ** 9) }}", "OverflowError: Range too big"),
    ],
)
def test_errors(template, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        rendered(template)
