"""Parts of an answer: reasoning, text and calls of functions, told apart in text that comes in pieces.

    <think>The user wants…</think>It is <tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>
    reasoning                     text  call

The form of calls is that of the model's family, which its chat template shows (`form_of`). `parse_answer` reads a whole
answer, `AnswerParser` one that comes in pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, final

from ..runtime.records import dataclass
from .call_scanner import CallPart, CallScanner, new_id
from .tokenizer import Tokenizer

Kind: TypeAlias = Literal["content", "reasoning"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Next part of the text of an answer, or of the reasoning before it."""

    kind: Kind
    text: str


Part: TypeAlias = "TextPart | CallPart"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Call of a function by a model."""

    id: str
    name: str
    arguments: str
    """JSON text, an object unless the model has made a mistake or its answer was cut."""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """Parts of an answer."""

    content: str
    reasoning: str
    """Text between <think> and </think>, for models that reason before they answer."""
    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class CallForm:
    """Form in which a family of models writes calls."""

    name: str
    shown: tuple[str, ...]
    """Texts in the chat templates of the family."""
    opening: tuple[str, ...]
    """Texts before calls, anywhere in the answer."""
    closing: tuple[str, ...] = ()
    """Texts behind calls."""
    bare: bool = False
    """True if an answer that begins with JSON is a call."""
    short_ids: bool = False
    named: bool = False


FORMS: Final = (
    CallForm("mistral", ("[TOOL_CALLS]",), ("[TOOL_CALLS]",), short_ids=True, named=True),
    CallForm("hermes", ("<tool_call>",), ("<tool_call>",), ("</tool_call>",)),
    CallForm("llama", ("<|python_tag|>", "ipython"), ("<|python_tag|>",), bare=True),
    CallForm("json", (), ("```json",), ("```",), bare=True),
)
"""Forms by the texts that a chat template shows; the last one is for all other templates."""

JSON_CALLS: Final = FORMS[-1]
THINK: Final = ("<think>", "</think>")


def form_of(template: str | None) -> CallForm:
    """Return the form of calls that a chat template shows."""
    if template is None:
        return JSON_CALLS
    return next((form for form in FORMS[:-1] if any(text in template for text in form.shown)), JSON_CALLS)


def reasons(template: str | None) -> bool:
    """True if a chat template is of a model that reasons between <think> and </think> before it answers."""
    return template is not None and (THINK[0] in template or THINK[1] in template)


def parse_answer(
    text: str, tokenizer: Tokenizer, tools: Sequence[Mapping[str, Any]] = (), *, is_reasoning: bool = False
) -> ParsedAnswer:
    """Return the parts of an answer of `LanguageModel.chat` that had these tools.

    A call of a function that is not among the tools is content. `is_reasoning`: the prompt has opened the reasoning, as
    some chat templates do.
    """
    names = [tool.get("function", tool)["name"] for tool in tools]
    form = form_of(tokenizer.tool_template) if names else None
    parser = AnswerParser(form, names, reasons=is_reasoning or reasons(tokenizer.chat_template), inside=is_reasoning)
    return joined([*parser.step(text), *parser.finish()])


def joined(parts: Sequence[Part]) -> ParsedAnswer:
    """Return the parts of an answer, in pieces, as a whole."""
    texts = {"content": "", "reasoning": ""}
    calls: list[FunctionCall] = []
    for part in parts:
        if isinstance(part, TextPart):
            texts[part.kind] += part.text
        elif part.name:
            calls.append(FunctionCall(part.id, part.name, part.arguments))
        else:
            calls[-1] = FunctionCall(calls[-1].id, calls[-1].name, calls[-1].arguments + part.arguments)
    return ParsedAnswer(texts["content"], texts["reasoning"], tuple(calls))


@final
class AnswerParser:
    """Parser of one answer: `step` takes its text in pieces, `finish` ends it."""

    def __init__(
        self, form: CallForm | None = None, names: Collection[str] = (), *, reasons: bool = False, inside: bool = False
    ) -> None:
        """Make a parser for calls in a form of functions of these names, None for no calls.

        `reasons`: text may begin with reasoning; `inside`: the prompt has opened it already.
        """
        self._reasoning = _Reasoning(inside) if reasons else None
        self._calls = None if form is None else _Calls(form, names)

    def step(self, text: str, last: bool = False) -> list[Part]:
        """Return the parts that are known now that `text` has come; all of them if it is the last one."""
        if self._reasoning is None:
            return self._content(text, last)
        thought, answer = self._reasoning.step(text, last)
        parts: list[Part] = [TextPart("reasoning", thought)] if thought else []
        return parts + self._content(answer, last)

    def finish(self) -> list[Part]:
        """Return the parts that were withheld."""
        return self.step("", last=True)

    def _content(self, text: str, last: bool) -> list[Part]:
        if self._calls is not None:
            return self._calls.step(text, last)
        return [TextPart("content", text)] if text else []


@final
class NamedCall:
    """Parser of an answer that is the arguments of a call, of a function that the request names."""

    def __init__(self, name: str, short_ids: bool) -> None:
        self._name, self._id = name, new_id(short_ids)

    def step(self, text: str, last: bool = False) -> list[Part]:
        """Return the next part of the call."""
        name, self._name = self._name, ""
        if name:
            return [CallPart(0, text, self._id, name)]
        return [CallPart(0, text)] if text else []

    def finish(self) -> list[Part]:
        """Return no further part: nothing is withheld."""
        return []


@final
class _Reasoning:
    """Split of an answer into the reasoning that it may begin with, and the rest."""

    def __init__(self, inside: bool) -> None:
        self._state: Literal["before", "inside", "behind", "over"] = "inside" if inside else "before"
        self._pending = ""
        self._is_first = True

    def step(self, text: str, last: bool) -> tuple[str, str]:
        """Return further text of the reasoning, and of the answer."""
        if self._state == "over":
            return "", text
        pending, self._pending, thought = self._pending + text, "", ""
        if self._state == "before":
            begins = pending.lstrip()
            if begins.startswith(THINK[0]):
                self._state, pending = "inside", begins[len(THINK[0]) :]
            elif not last and THINK[0].startswith(begins):
                self._pending = pending
                return "", ""
            else:
                self._state = "over"
                return "", pending
        if self._state == "inside":
            thought, pending = self._thought(pending, last)
        if self._state == "behind":  # spaces between the reasoning and the answer belong to neither
            pending = pending.lstrip()
            if pending:
                self._state = "over"
        return thought, pending

    def _thought(self, pending: str, last: bool) -> tuple[str, str]:
        if self._is_first:
            pending = pending.lstrip()
            self._is_first = not pending
        thought, mark, behind = pending.partition(THINK[1])
        if mark:
            self._state = "behind"
            return thought.rstrip(), behind
        keep = len(pending) if last else len(pending) - _withheld(pending, (THINK[1],))
        keep = len(pending[:keep].rstrip())  # spaces before the end of the reasoning are no part of it
        self._pending = "" if last else pending[keep:]
        return pending[:keep], ""


@final
class _Calls:
    """Split of an answer's text into content and calls."""

    def __init__(self, form: CallForm, names: Collection[str]) -> None:
        self._form, self._names = form, names
        self._marks = (*form.opening, *form.closing)
        self._pending = ""
        self._scanner: CallScanner | None = None
        self._opening = ""
        """Text before the calls that are scanned, which is content if they turn out to be none."""
        self._has_content = False
        self.count = 0

    def step(self, text: str, last: bool) -> list[Part]:
        """Return the parts that are known now that `text` has come."""
        parts: list[Part] = []
        text, self._pending = self._pending + text, ""
        while True:
            if self._scanner is not None:
                text, is_over = self._scanned(self._scanner, text, last, parts)
                if not is_over:
                    return parts
            if text:
                text = self._searched(text, last, parts)
            if self._scanner is None and not text:
                return parts

    def _scanned(self, scanner: CallScanner, text: str, last: bool, parts: list[Part]) -> tuple[str, bool]:
        """Scan calls; return the text behind them, and True, without the scanner, once they are over."""
        used, is_over = 0, False
        while used < len(text) and not is_over:
            is_over = scanner.step(text[used])
            used += 1
        if last and not is_over:
            is_over = scanner.step("")
        parts += scanner.taken()
        if not is_over:
            return "", False
        self._scanner = None
        self.count += scanner.count
        if scanner.count:
            self._has_content = False
            return scanner.unused + text[used:], True
        self._say(self._opening + scanner.unused, parts)
        return text[used:], True

    def _searched(self, text: str, last: bool, parts: list[Part]) -> str:
        """Return content up to calls as a part, and the text that begins with them."""
        form = self._form
        if form.bare and not self._has_content and not self.count:
            begins = text.lstrip()
            if begins.startswith(("{", "[")):
                return self._scan(text[: len(text) - len(begins)], begins)
        found = [(place, -len(mark), mark) for mark in self._marks if (place := text.find(mark)) >= 0]
        if found and not last:  # "```" may become "```json"
            place, _, mark = min(found)
            if any(longer != mark and longer.startswith(text[place:]) for longer in self._marks):
                found = []
        if not found:
            keep = len(text) if last else len(text) - _withheld(text, self._marks)
            if not last:
                keep = len(text[:keep].rstrip())  # spaces before a call are no content
            self._pending = "" if last else text[keep:]
            self._say(text[:keep], parts)
            return ""
        place, _, mark = min(found)
        if mark in form.opening:
            self._say(text[:place].rstrip(), parts)
            return self._scan(mark, text[place + len(mark) :])
        self._say(text[:place] if self.count else text[: place + len(mark)], parts)
        return text[place + len(mark) :]

    def _scan(self, opening: str, text: str) -> str:
        self._opening = opening
        form = self._form
        self._scanner = CallScanner(self._names, self.count, short_ids=form.short_ids, named=form.named)
        return text

    def _say(self, text: str, parts: list[Part]) -> None:
        """Add content; spaces between calls are none."""
        if text and (self._has_content or text.strip()):
            self._has_content = True
            parts.append(TextPart("content", text))


def _withheld(text: str, marks: Collection[str]) -> int:
    """Return how many characters at the end of a text may be the beginning of one of `marks`."""
    longest = max((len(mark) for mark in marks), default=1) - 1
    for length in range(min(len(text), longest), 0, -1):
        if any(mark.startswith(text[-length:]) for mark in marks):
            return length
    return 0


__all__ = [
    "FORMS", "JSON_CALLS", "THINK", "AnswerParser", "CallForm", "FunctionCall", "NamedCall", "ParsedAnswer", "Part",
    "TextPart", "form_of", "joined", "parse_answer", "reasons",
]  # fmt: skip
