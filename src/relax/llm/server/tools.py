"""Tools of a request: functions that the model may call, and their descriptions in the prompt.

A chat template that knows tools writes them in its family's form. For any other one they are described in the message
of the system, and the model answers with a JSON object: {"name": "…", "arguments": {…}}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from ...runtime.records import dataclass
from .body import Body, shown
from .errors import invalid

Choice: TypeAlias = Literal["auto", "required", "named"]

_INSTRUCTION = """\
You can call functions. Their descriptions, with the JSON schemas of their arguments, are:
{descriptions}
To call a function, answer with a JSON object and nothing else: {{"name": "the function", "arguments": {{}}}}
To call several functions, answer with an array of such objects. If no function is of use, answer in words."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Functions that the model may call."""

    described: tuple[Mapping[str, Any], ...]
    """Descriptions as the request has them: {"type": "function", "function": {"name": …, "parameters": …}}."""
    choice: Choice
    """"auto": the model decides; "required": it calls a function; "named": it calls the only one that is described."""
    parallel: bool = True
    """True if an answer may have several calls."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the functions."""
        return tuple(tool["function"]["name"] for tool in self.described)

    def constraint(self) -> dict[str, Any] | None:
        """Return the constraint of an answer that must be a call, as fields of `Request`; None if it may be text.

        The answer is an array of calls, or the arguments alone if the function is named.
        """
        if self.choice == "auto":
            return None
        if self.choice == "named":
            return {"json_schema": _parameters(self.described[0])}
        calls: list[dict[str, Any]] = []
        schemas: dict[str, Any] = {}
        for index, tool in enumerate(self.described):
            key = f"tool{index}"
            schemas[key] = _moved(_parameters(tool), f"#/$defs/{key}")
            properties = {"name": {"const": tool["function"]["name"]}, "arguments": {"$ref": f"#/$defs/{key}"}}
            calls.append(
                {"type": "object", "properties": properties, "required": ["name", "arguments"],
                 "additionalProperties": False}
            )  # fmt: skip
        array: dict[str, Any] = {"type": "array", "items": {"anyOf": calls}, "minItems": 1, "$defs": schemas}
        if not self.parallel:
            array["maxItems"] = 1
        return {"json_schema": array}


def tools_of(body: Body) -> Tools | None:
    """Read `tools`, `tool_choice` and `parallel_tool_calls`; None if the model must not call anything."""
    tools = body.objects("tools") or []
    described = [_described(tool) for tool in tools]
    names = [tool["function"]["name"] for tool in described]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise invalid("tools", f"two functions are called {shown(twice)}", "invalid_value")
    parallel = body.flag("parallel_tool_calls", default=True)
    value = body.value("tool_choice")
    if isinstance(value, dict):
        name = _chosen(Body(cast("dict[str, Any]", value), "tool_choice"))
        if name not in names:
            raise invalid("tool_choice", f"{shown(name)} is not among the tools", "invalid_value")
        return Tools((described[names.index(name)],), "named", False)
    choice = body.choice("tool_choice", ("none", "auto", "required"))
    if choice in ("auto", "required") and not tools:
        raise invalid("tool_choice", f"{choice!r}, but there are no tools", "invalid_value")
    if choice == "none" or not tools:
        return None
    return Tools(tuple(described), "required" if choice == "required" else "auto", parallel)


def _described(tool: Body) -> Mapping[str, Any]:
    if tool.choice("type", ("function",)) is None:
        tool.needed("type")
    function = tool.inner("function")
    function.needed("name")
    name = function.text("name")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name or ""):
        message = f"{shown(name)}, expected 1 to 64 letters, digits, dots, underscores or dashes"
        raise invalid(function.named("name"), message, "invalid_value")
    function.text("description")
    function.mapping("parameters")
    function.finish(ignored=("strict",))
    tool.finish(ignored=("cache_control",))
    return tool.raw()


def _chosen(choice: Body) -> str | None:
    """Return the name of the function in a `tool_choice` that is an object."""
    if choice.choice("type", ("function",)) is None:
        choice.needed("type")
    function = choice.inner("function")
    function.needed("name")
    function_name = function.text("name")
    function.finish()
    choice.finish()
    return function_name


def _parameters(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a function's arguments."""
    return {"type": "object", **(tool["function"].get("parameters") or {})}


def _moved(schema: Any, place: str) -> Any:
    """Return a schema that is a part, at `place`, of another one; references to itself are changed."""
    if isinstance(schema, dict):
        moved: dict[str, Any] = {}
        for name, value in cast("dict[str, Any]", schema).items():
            refers = name == "$ref" and isinstance(value, str) and value.startswith("#")
            moved[name] = f"{place}{value[1:]}" if refers else _moved(value, place)
        return moved
    return [_moved(value, place) for value in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def knows_tools(template: str | None) -> bool:
    """True if a chat template writes descriptions of tools."""
    return template is not None and re.search(r"\btools\b", template) is not None


def told_in_words(messages: Sequence[Mapping[str, Any]], tools: Tools | None) -> list[dict[str, Any]]:
    """Return messages for a template without tools: descriptions, calls and results are text of other messages."""
    plain = [_plain(message) for message in messages]
    if tools is None:
        return plain
    descriptions = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools.described)
    told = _INSTRUCTION.format(descriptions=descriptions)
    if plain and plain[0]["role"] == "system":
        return [{**plain[0], "content": f"{plain[0]['content']}\n\n{told}"}, *plain[1:]]
    return [{"role": "system", "content": told}, *plain]


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose calls, or whose result of a call, are text."""
    if message["role"] == "tool":
        source = message.get("name") or "the function"
        return {"role": "user", "content": f"Result of {source}: {message['content']}"}
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    objects = [{"name": call["function"]["name"], "arguments": call["function"]["arguments"]} for call in calls]
    text = json.dumps(objects[0] if len(objects) == 1 else objects, ensure_ascii=False)
    return {"role": message["role"], "content": "\n".join(filter(None, [message["content"], text]))}


__all__ = ["Tools", "knows_tools", "told_in_words", "tools_of"]
