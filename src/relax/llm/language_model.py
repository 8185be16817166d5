"""Language model: a checkpoint, loaded and compiled, that answers.

m = relax.llm.load("model.gguf")
m.generate("The capital of France is", max_new_tokens=20)
m.chat([{"role": "user", "content": "Name three rivers."}])
for piece in m.generate("Once upon a time", stream=True): ...
"""

from __future__ import annotations

import math
import operator
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, final, overload

from numpy.typing import NDArray

from ..ir import IRModule
from ..runtime.forks import ForkLock
from ..runtime.records import dataclass
from .constraints import constraint_of
from .drafting import Drafter, Drafting
from .engine.requests import Request
from .exporting import export_model
from .interrupts import interrupted_later
from .runner import Runner
from .sampling import Sampler
from .tokenizer import Tokenizer
from .writing import Writer

Array: TypeAlias = "NDArray[Any]"
Prompt: TypeAlias = "str | Sequence[int]"


@dataclass
class Stats:
    """Counts of a model: what was done, and how fast."""

    weights: int = 0
    """Bytes of the weights."""
    prompt_tokens: int = 0
    """Tokens of prompts that were computed."""
    reused_tokens: int = 0
    """Tokens of prompts that the cache had already."""
    prompt_seconds: float = 0.0
    new_tokens: int = 0
    seconds: float = 0.0
    """Time of the new tokens, those of the prompt excepted."""
    load_seconds: float = 0.0
    drafted_tokens: int = 0
    """Tokens that drafters proposed."""
    accepted_tokens: int = 0
    """Proposed tokens that became part of an answer."""

    @property
    def prompt_speed(self) -> float:
        """Tokens of prompts a second."""
        return self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def speed(self) -> float:
        """New tokens a second."""
        return self.new_tokens / self.seconds if self.seconds else 0.0


@final
class LanguageModel:
    """A model that answers, one prompt at a time; several threads that ask are answered one after another.

    The last conversation stays in the cache: a prompt that begins as it does is computed from where they differ. A
    stream that goes on after another prompt was answered computes its tokens once more.
    """

    def __init__(
        self, mod: IRModule, runner: Runner, tokenizer: Tokenizer | None, vocabulary: int, stats: Stats,
        context: int | None = None,
    ) -> None:  # fmt: skip
        self.mod = mod
        """The program: `create_cache` and `forward`."""
        self.runner, self.vocabulary, self._stats = runner, vocabulary, stats
        self._tokenizer = tokenizer
        self._sequence: int | None = None
        self._tokens: list[int] = []
        """Tokens that the cache holds of the last conversation; each conversation has a list of its own."""
        self._adapter: str | None = None
        """Adapter by which these were computed."""
        self.context = min(context or runner.limits.tokens, runner.limits.tokens)
        """Tokens of a prompt and its answer together, at most."""
        self.lock = ForkLock()
        """Held while the runner is used: while a text is computed, or a piece of a stream."""

    def stats(self) -> Stats:
        """Counts since the model was loaded."""
        return self._stats

    @property
    def has_tokenizer(self) -> bool:
        """True for a model with a tokenizer."""
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer. Raises ValueError if its files have none."""
        if self._tokenizer is None:
            raise ValueError("the model's folder has no tokenizer: pass tokens, not text")
        return self._tokenizer

    # ------------------------------------------------------------------------------------ text

    @overload
    def generate(
        self, prompt: Prompt, max_new_tokens: int | None = None, *, stop: str | Sequence[str] = (),
        stream: Literal[False] = False, sampler: Sampler | None = None,
        json_schema: Mapping[str, Any] | bool | None = None, regex: str | None = None, grammar: str | None = None,
        drafter: Drafter | None = None, adapter: str | None = None, **sampling: Any,
    ) -> str: ...  # fmt: skip

    @overload
    def generate(
        self, prompt: Prompt, max_new_tokens: int | None = None, *, stop: str | Sequence[str] = (),
        stream: Literal[True], sampler: Sampler | None = None,
        json_schema: Mapping[str, Any] | bool | None = None, regex: str | None = None, grammar: str | None = None,
        drafter: Drafter | None = None, adapter: str | None = None, **sampling: Any,
    ) -> Iterator[str]: ...  # fmt: skip

    def generate(
        self, prompt: Prompt, max_new_tokens: int | None = None, *, stop: str | Sequence[str] = (),
        stream: bool = False, sampler: Sampler | None = None, json_schema: Mapping[str, Any] | bool | None = None,
        regex: str | None = None, grammar: str | None = None, drafter: Drafter | None = None,
        adapter: str | None = None, **sampling: Any,
    ) -> str | Iterator[str]:  # fmt: skip
        """Return the text that follows a prompt, or an iterator of its pieces if `stream`.

        `prompt` is a text, or tokens. Generation ends at a token that ends a turn, at one of the texts `stop` (which is
        left out), behind `max_new_tokens`, or when the context is full. `sampling` are the parameters of `Sampler`:
        temperature (0, the default here: the likeliest token), top_p, top_k, min_p, seed, and so on.

        `json_schema` (True: any object), `regex` or `grammar` (Lark's notation) is what the whole text keeps to, and
        ends with; only a limit of tokens or a stop text cuts it off. A `drafter` proposes tokens, several of which are
        computed at a time; the text stays the same. `adapter` is the name of a LoRA adapter that was loaded with the
        model. Raises ValueError for an empty prompt, one that is longer than the context, parameters out of range,
        schemas and grammars that are refused (`constraint_of`), a drafter with another vocabulary, and an unknown
        adapter.
        """
        if sampler is not None and sampling:
            raise ValueError(f"give a sampler, or its parameters {', '.join(sampling)}")
        request = Request(
            prompt, max_new_tokens, sampling, _stops(stop), json_schema=json_schema, regex=regex, grammar=grammar,
            adapter=adapter,
        )  # fmt: skip
        writer = self.writer(request, sampler)
        if drafter is not None:
            drafter.check(self)
        pieces = self._pieces(writer, drafter, adapter)
        if stream:
            return self._one_by_one(pieces)
        with self.lock:
            return "".join(pieces)

    @overload
    def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, *,
        stream: Literal[False] = False, template: Mapping[str, Any] | None = None, **generation: Any,
    ) -> str: ...  # fmt: skip

    @overload
    def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, *,
        stream: Literal[True], template: Mapping[str, Any] | None = None, **generation: Any,
    ) -> Iterator[str]: ...  # fmt: skip

    def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, *,
        stream: bool = False, template: Mapping[str, Any] | None = None, **generation: Any,
    ) -> str | Iterator[str]:  # fmt: skip
        """Return the answer to messages with "role" and "content", written as the model's chat template says.

        `template` are further variables of the template; the other arguments are those of `generate`. Raises
        ValueError if the model has no template, or it refuses the messages.
        """
        for message in messages:
            if not isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f'a message is a mapping with "role" and "content", not {type(message).__name__}')
        text = self.tokenizer.apply_chat_template(messages, tools=tools, **(template or {}))
        tokens = self.tokenizer.encode(text, add_special=False, parse_special=True)
        return self.generate(tokens, stream=stream, **generation)

    def writer(self, request: Request, sampler: Sampler | None = None) -> Writer:
        """Return the writer of the answer to a request; `sampler` None: one of the request's parameters.

        Raises ValueError and TypeError for requests that the model cannot answer, as `generate` does.
        """
        self.runner.check_adapter(request.adapter)
        prompt = request.prompt
        tokens = self._checked(self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt)
        if sampler is None:
            chosen: dict[str, Any] = {"temperature": 0.0, **request.sampling}
            sampler = Sampler(**chosen)
        constraint = constraint_of(
            self.tokenizer, json_schema=request.json_schema, regex=request.regex, grammar=request.grammar
        )
        limit = math.inf if request.max_new_tokens is None else request.max_new_tokens
        return Writer(
            self.tokenizer, tokens, sampler, most=min(limit, max(self.context - len(tokens), 1)), constraint=constraint,
            stop=request.stop, ignore_end=request.ignore_end,
        )  # fmt: skip

    def _one_by_one(self, pieces: Iterator[str]) -> Iterator[str]:
        """Return the pieces of a text; other threads may ask the model between them."""
        while True:
            with self.lock:
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def _pieces(self, writer: Writer, drafter: Drafter | None, adapter: str | None) -> Iterator[str]:
        stats = self._stats
        drafting = None if drafter is None else Drafting(drafter, writer.tokens)
        try:
            rows, drafts = self._fed(writer.tokens, adapter)[None], list[int]()
            mine = self._tokens
            while writer.room:
                written = writer.take(rows, drafts)
                stats.accepted_tokens += written.accepted
                if drafting is not None:
                    drafting.accepted(len(drafts), written.accepted)
                if written.text:
                    yield written.text
                if written.finish:
                    break
                start = time.perf_counter()
                if self._tokens is mine:
                    rows, drafts = self._next(writer, drafting)
                else:  # other prompts were answered meanwhile
                    rows, drafts = self._fed(writer.tokens, adapter)[None], []
                mine = self._tokens
                stats.seconds += time.perf_counter() - start
                stats.new_tokens += 1 + written.accepted
                stats.drafted_tokens += len(drafts)
        finally:
            if drafting is not None:
                drafting.close()

    def _next(self, writer: Writer, drafting: Drafting | None) -> tuple[Array, list[int]]:
        """Return the logits behind the last token and behind drafts, in rows, and the drafts."""
        known = len(writer.tokens) - 1
        if len(self._tokens) > known:  # drafts that were not chosen
            if not self._goes_back(known):
                return self._fed(writer.tokens, self._adapter)[None], []
            del self._tokens[known:]
        drafts = [] if drafting is None else drafting.proposed(writer)
        return self._step([writer.tokens[-1], *drafts], every=True), drafts

    # ------------------------------------------------------------------------------------ logits

    def logits(self, ids: Sequence[int], adapter: str | None = None) -> Array:
        """Return the logits (len(ids), vocabulary), float32, behind each of the tokens.

        `adapter` is the name of a LoRA adapter that was loaded with the model.
        """
        tokens = self._checked(ids)
        with self.lock:
            return self.runner.step([(self._fresh(), tokens)], every=True, adapter=adapter)

    def export(self, folder: str | os.PathLike[str], linker: str | Sequence[str] | None = None) -> None:
        """Write the model to a folder for C++: ``model.so`` and ``weights.safetensors``.

        The header ``relax/language_model.h`` loads it without Python. `linker` is the command that links, by default
        one that is found. Adapters are left out. Raises ExecutableError for a program that needs Python, such as one
        with recurrent states, ValueError for a model with an encoder, and OSError.
        """
        ends = sorted(self.tokenizer.eot) if self.has_tokenizer else []
        settings = {"vocabulary": self.vocabulary, "ends": " ".join(map(str, ends))}
        with self.lock:
            export_model(folder, self.mod, self.runner, settings, linker)

    def _fed(self, prompt: list[int], adapter: str | None) -> Array:
        """Return the logits behind a prompt, of which the cache may have the beginning."""
        tokens, shared = prompt, 0
        if adapter != self._adapter:
            self._tokens = []
        while shared < min(len(tokens) - 1, len(self._tokens)) and tokens[shared] == self._tokens[shared]:
            shared += 1
        start = time.perf_counter()
        if not self._goes_back(shared):
            self._fresh()
            shared = 0
        self._tokens, self._adapter = tokens[:shared], adapter
        logits = self._step(tokens[shared:])[0]
        self._stats.prompt_seconds += time.perf_counter() - start
        self._stats.prompt_tokens += len(tokens) - shared
        self._stats.reused_tokens += shared
        return logits

    def _goes_back(self, length: int) -> bool:
        """Forget the last conversation from a length on; False if nothing of it is left, or a window has slid past."""
        if self._sequence is None or not length:
            return False
        try:
            self.runner.shorten(self._sequence, length)
        except ValueError:
            return False
        return True

    def _step(self, tokens: list[int], every: bool = False) -> Array:
        """Append tokens to the conversation; return the logits behind the last one, or behind `every` one, in rows."""
        assert self._sequence is not None
        held, self._tokens = self._tokens, []  # after an interruption, nothing is known to be in the cache
        logits = self.runner.step([(self._sequence, tokens)], every=every, adapter=self._adapter)
        held += tokens
        self._tokens = held
        return logits

    @interrupted_later()
    def _fresh(self) -> int:
        """Forget the last conversation; return an empty sequence."""
        self.forget()
        self._sequence = self.runner.add()
        return self._sequence

    @interrupted_later()
    def forget(self) -> bool:
        """Remove the last conversation from the cache; False if there is none. The caller holds `lock`."""
        old, self._sequence, self._tokens = self._sequence, None, []
        if old is not None:
            self.runner.remove(old)
        return old is not None

    def _checked(self, prompt: Sequence[int]) -> list[int]:
        """Return the tokens of a prompt. Raises TypeError for what are no tokens, ValueError for no prompt."""
        if isinstance(prompt, str | bytes | bytearray):
            raise TypeError(f"tokens are a sequence of whole numbers, not {type(prompt).__name__}")
        tokens, size = [*map(operator.index, prompt)], self.vocabulary
        if not tokens:
            raise ValueError("the prompt is empty")
        if len(tokens) > self.context:
            hint = "load the model with a larger context"
            raise ValueError(f"the prompt has {len(tokens)} tokens, and the context {self.context}; {hint}")
        outside = next((token for token in tokens if not 0 <= token < size), None)
        if outside is not None:
            raise ValueError(f"{outside} is no token: the vocabulary has {size}")
        return tokens


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Return the texts that end an answer. Raises TypeError for what are no texts."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    wrong = next((text for text in stops if not isinstance(text, str)), None)  # pyright: ignore[reportUnnecessaryIsInstance]
    if wrong is not None:
        raise TypeError(f"stop is a text or several texts, found {wrong!r}")
    return stops


__all__ = ["LanguageModel", "Stats"]
