"""Chat completions: the request that a body describes, as tokens, and the objects of its answers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from ...runtime.records import dataclass
from ..answer_parts import JSON_CALLS, THINK, AnswerParser, NamedCall, Part, TextPart, joined
from ..engine.requests import Completion, Event, Request
from .body import Body, shown
from .errors import invalid
from .messages import messages_of
from .parameters import IGNORED, LARGEST, Parameters, parameters_of
from .service import Service
from .token_texts import chat_logprobs, written
from .tools import Tools, told_in_words, tools_of

REFUSED: Final = {
    "functions": "use tools", "function_call": "use tool_choice", "audio": "the model makes no sound",
    "web_search_options": "the server has no search", "verbosity": "ask for it in a message",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Request for chat completions, read and checked."""

    model: str
    adapter: str | None
    parameters: Parameters
    tokens: list[int]
    room: int
    tools: Tools | None
    logprobs: int | None
    """Likely tokens that are listed for each token, None for no log-probabilities."""
    is_reasoning: bool
    """True if the prompt opens the reasoning of the answer."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.tokens)

    def requests(self, timeout: float | None) -> list[Request]:
        """Return the requests to the engine, one for each answer."""
        constraint = None if self.tools is None else self.tools.constraint()
        return [
            self.parameters.request(self.tokens, index, self.room, self.adapter, timeout, constraint)
            for index in range(self.parameters.count)
        ]


def chat_request(service: Service, body: Body) -> ChatRequest:
    """Read the body of a request for chat completions. Raises RequestError."""
    model, adapter = service.named(body)
    messages, tools = messages_of(body), tools_of(body)
    logprobs = _logprobs(body)
    limits = [body.integer(name, 1, LARGEST) for name in ("max_completion_tokens", "max_tokens")]
    parameters = parameters_of(
        body, service.tokenizer.vocabulary_size, next((limit for limit in limits if limit is not None), None), logprobs
    )
    if tools is not None and tools.choice != "auto" and parameters.constraint:
        raise invalid("tool_choice", "the answer is a call, and cannot keep to another constraint", "invalid_value")
    variables = _template_variables(service, body)
    body.refuse(REFUSED)
    if body.items("modalities") not in (None, ["text"]):
        raise invalid("modalities", "not supported: the model writes text only", "unsupported_parameter")
    body.finish(IGNORED)
    if not service.knows_tools:
        messages = told_in_words(messages, tools)
    text = _text(service, messages, tools if service.knows_tools else None, variables)
    tokens = service.tokenizer.encode(text, add_special=False, parse_special=True)
    if not tokens:
        raise invalid("messages", "the chat template makes no text of them", "invalid_value")
    is_reasoning = service.reasons and text.rstrip().endswith(THINK[0])
    return ChatRequest(
        model, adapter, parameters, tokens, service.room(tokens, "messages"), tools, logprobs, is_reasoning
    )  # fmt: skip


def _text(
    service: Service, messages: Sequence[Mapping[str, Any]], tools: Tools | None, variables: Mapping[str, Any]
) -> str:
    described = None if tools is None else list(tools.described)
    try:
        return service.tokenizer.apply_chat_template(messages, described, **variables)
    except ValueError as error:  # no template, or one that refuses the messages
        raise invalid("messages", str(error), "invalid_value") from None


def _logprobs(body: Body) -> int | None:
    most = body.integer("top_logprobs", 0, 20)
    if body.flag("logprobs"):
        return 0 if most is None else most
    if most:
        raise invalid("top_logprobs", "only with logprobs: true", "invalid_value")
    return None


def _template_variables(service: Service, body: Body) -> dict[str, Any]:
    """Return further variables of the chat template, such as `enable_thinking`."""
    given = body.mapping("chat_template_kwargs")
    variables = {} if given is None else given.raw()
    for name in ("self", "messages", "tools", "documents", "add_generation_prompt"):
        if name in variables:
            raise invalid("chat_template_kwargs", f"{name!r} is not to be set", "invalid_value")
    effort = body.text("reasoning_effort")
    if effort is not None:
        if "reasoning_effort" not in (service.tokenizer.chat_template or ""):
            message = f"{shown(effort)}: not supported by the chat template of this model"
            raise invalid("reasoning_effort", message, "unsupported_parameter")
        variables["reasoning_effort"] = effort
    return variables


@final
class ChatAnswer:
    """Objects of the response to a request: `chunks` of a stream, or the `whole`."""

    def __init__(self, service: Service, request: ChatRequest) -> None:
        self._service, self._request = service, request
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": request.model
        }  # fmt: skip
        self._parsers = [self._parser() for _ in range(request.parameters.count)]
        self._calls = [0] * request.parameters.count
        self._logprobs: list[list[dict[str, Any]]] = [[] for _ in self._parsers]

    def _parser(self) -> AnswerParser | NamedCall:
        service, tools = self._service, self._request.tools
        if tools is None:
            return AnswerParser(reasons=service.reasons, inside=self._request.is_reasoning)
        if tools.choice == "named":
            return NamedCall(tools.names[0], service.call_form.short_ids)
        if tools.choice == "required":
            return AnswerParser(JSON_CALLS, tools.names)
        return AnswerParser(service.call_form, tools.names, reasons=service.reasons, inside=self._request.is_reasoning)

    # ------------------------------------------------------------------------------------ streams

    def first_chunks(self) -> list[dict[str, Any]]:
        """Return the chunks that begin the answers."""
        return [
            self._chunk(index, {"role": "assistant", "content": ""}, None) for index in range(len(self._parsers))
        ]  # fmt: skip

    def chunks(self, index: int, event: Event) -> list[dict[str, Any]]:
        """Return the chunks for an event of the answer with this index."""
        self._take(index, event.tokens)
        made = [self._chunk(index, _delta(part), None) for part in self._parsed(index, event)]
        if event.finish is not None:
            made.append(self._chunk(index, {}, self._reason(index, event.finish)))
        return made

    def usage_chunk(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the chunk with the number of tokens that ends a stream."""
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def _chunk(self, index: int, delta: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": self._taken(index), "finish_reason": finish}
        chunk: dict[str, Any] = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        if self._request.parameters.include_usage:
            chunk["usage"] = None
        return chunk

    def _take(self, index: int, tokens: Sequence[Any]) -> None:
        """Keep the log-probabilities of tokens for the next chunk; a token that ends a turn is no part of the text."""
        most = self._request.logprobs
        if most is not None:
            tokenizer = self._service.tokenizer
            chosen = written(tokenizer, tokens, self._request.parameters.ignore_end)
            self._logprobs[index] += chat_logprobs(tokenizer, chosen, most)

    def _taken(self, index: int) -> dict[str, Any] | None:
        entries, self._logprobs[index] = self._logprobs[index], []
        return {"content": entries, "refusal": None} if entries else None

    # ------------------------------------------------------------------------------------ whole answers

    def whole(self, answers: Sequence[Completion], usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object of complete answers."""
        choices = [self._choice(index, answer) for index, answer in enumerate(answers)]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": usage}

    def _choice(self, index: int, answer: Completion) -> dict[str, Any]:
        self._take(index, answer.tokens)
        parsed = joined(self._parsed(index, Event(answer.text, (), answer.finish)))
        message: dict[str, Any] = {"role": "assistant", "content": parsed.content, "refusal": None}
        if parsed.reasoning:
            message["reasoning_content"] = parsed.reasoning
        if parsed.calls:
            message["content"] = parsed.content or None
            message["tool_calls"] = [_call(call.id, call.name, call.arguments) for call in parsed.calls]
        reason = self._reason(index, answer.finish)
        return {"index": index, "message": message, "logprobs": self._taken(index), "finish_reason": reason}

    # ------------------------------------------------------------------------------------ both

    def _parsed(self, index: int, event: Event) -> list[Part]:
        """Return the parts of an event, numbering calls of the answer."""
        parser = self._parsers[index]
        parts = parser.step(event.text) if event.text else []
        if event.finish is not None:
            parts += parser.finish()
        self._calls[index] += sum(not isinstance(part, TextPart) and bool(part.name) for part in parts)
        return parts

    def _reason(self, index: int, finish: str) -> str:
        """Return OpenAI's reason for the end of an answer."""
        return "tool_calls" if finish == "stop" and self._calls[index] else finish


def _call(identity: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _delta(part: Part) -> dict[str, Any]:
    """Return a part of an answer as the change of a message."""
    if isinstance(part, TextPart):
        return {"content" if part.kind == "content" else "reasoning_content": part.text}
    if part.name:
        return {"tool_calls": [{"index": part.index, **_call(part.id, part.name, part.arguments)}]}
    return {"tool_calls": [{"index": part.index, "function": {"arguments": part.arguments}}]}


__all__ = ["ChatAnswer", "ChatRequest", "chat_request"]
