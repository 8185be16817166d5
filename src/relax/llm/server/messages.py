"""Messages of a conversation, as chat templates take them: `messages_of`."""

from __future__ import annotations

import json
from typing import Any, Final

from .body import Body, shown
from .errors import invalid

ROLES: Final = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
"""Role in the template by the role in a request."""


def messages_of(body: Body) -> list[dict[str, Any]]:
    """Return the messages of a body, with the texts of all parts in one string.

    Calls of tools have their arguments as an object, which templates write in their own form. Raises RequestError for
    messages of another form, of another role, and with pictures or sounds.
    """
    body.needed("messages")
    messages = body.objects("messages") or []
    if not messages:
        raise invalid("messages", "an empty array, expected at least one message", "empty_array")
    return [_message(message) for message in messages]


def _message(message: Body) -> dict[str, Any]:
    message.needed("role")
    role = message.text("role")
    if role not in ROLES:
        expected = ", ".join(map(repr, ROLES))
        raise invalid(message.named("role"), f"{shown(role)}, expected one of {expected}", "invalid_value")
    made: dict[str, Any] = {"role": ROLES[role], "content": _content(message)}
    calls = message.objects("tool_calls")
    if calls is not None:
        if role != "assistant":
            raise invalid(message.named("tool_calls"), "only for messages of the assistant", "invalid_value")
        made["tool_calls"] = [_call(call) for call in calls]
    for name in ("name", "tool_call_id", "reasoning_content"):
        text = message.text(name)
        if text is not None:
            made[name] = text
    message.refuse({"audio": "the model reads no sound", "function_call": "use tool_calls"})
    message.finish(ignored=("refusal", "annotations", "reasoning"))
    if made["content"] is None:
        if role != "assistant":
            raise invalid(message.named("content"), "missing", "missing_required_parameter")
        made["content"] = ""
    return made


def _content(message: Body) -> str | None:
    """Return the text of a message: a string, or that of its parts."""
    value = message.value("content")
    if value is None or isinstance(value, str):
        return value
    texts: list[str] = []
    for part in message.objects("content") or []:
        kind = part.text("type")
        if kind not in ("text", "refusal"):
            raise invalid(
                part.named("type"), f"{shown(kind)}, expected 'text': the model reads text only", "invalid_value"
            )
        part.needed(kind)
        texts.append(part.text(kind) or "")
        part.finish(ignored=("cache_control", "prompt_cache_breakpoint"))
    return "".join(texts)


def _call(call: Body) -> dict[str, Any]:
    """Return a call of a tool that the assistant has made."""
    call.choice("type", ("function",))
    function = call.inner("function")
    function.needed("name")
    name, arguments = function.text("name"), _arguments(function.value("arguments"))
    function.finish()
    made = {"id": call.text("id") or "", "type": "function", "function": {"name": name, "arguments": arguments}}
    call.finish(ignored=("index",))
    return made


def _arguments(value: Any) -> Any:
    """Return arguments as an object; as text if they are no JSON, since the model may have written anything."""
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


__all__ = ["messages_of"]
