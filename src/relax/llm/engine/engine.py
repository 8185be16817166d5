"""Engine: many requests to one model, answered together.

    with relax.llm.Engine(model) as engine:
        for event in engine.add(Request("Once upon a time", max_new_tokens=50)): print(event.text, end="")
        answer = engine.add(Request("The capital of France is")).result()
        async for event in engine.add(request): ...

A thread of its own runs the model while there are requests. Each step takes one token of each answer (or several, where
a drafter proposed them) and parts of prompts, up to the number of tokens that the cache takes at once. Requests that
begin alike share the pages of the cache. If pages run out, the request that came last gives up its own and is computed
once more when there are pages again.
"""

from __future__ import annotations

import heapq
import logging
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from ...runtime.records import dataclass
from ..drafting import Drafter
from ..language_model import LanguageModel
from ..runner import PAGE, NoPages
from .answers import Answer
from .generation import Generation, Mailbox
from .planning import Part, plan, waits_for
from .requests import EngineBusy, Event, Finish, Request

Array: TypeAlias = "NDArray[Any]"

STALL: Final = 0.25
"""Seconds that the prompts in a step may hold up the answers that decode beside them."""
LEAST: Final = 32
"""Tokens of prompts in each step, at least."""

PASSED: Final = 64
"""Requests that others pass in a step, at most, while they wait for a prompt that begins as theirs do."""
PAUSE: Final = 0.01
"""Seconds to wait for a sequence that other users of the model have."""

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counts of an engine since its start, and its state now."""

    running: int
    waiting: int
    finished: Mapping[str, int]
    """Requests that ended, by reason: "stop", "length", "abort", "timeout", "error"."""
    prompt_tokens: int
    """Tokens of prompts that were computed, those of requests that were computed twice included."""
    cached_tokens: int
    """Tokens of prompts that were in the cache."""
    new_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    preemptions: int
    """Requests that gave up their pages for others."""
    steps: int
    step_seconds: float
    free_tokens: int
    """Tokens for which the cache has pages, those of requests that ended included."""
    total_tokens: int


@final
class Engine:
    """Engine of a model. Close it, or use it in `with`; methods may be called by any thread.

    `max_sequences` requests are answered at a time (None: as many as the model's cache has sequences), `max_waiting`
    wait at most. `prefix_cache`: requests that begin as earlier ones did share what these computed. `drafter` proposes
    tokens, which are checked several at a time: answers stay the same. While the engine runs, the model answers other
    callers too, between two steps. Raises ValueError for numbers below 1, a model without a tokenizer, and a drafter
    that does not fit the model.
    """

    model: LanguageModel

    def __init__(
        self, model: LanguageModel, *, max_sequences: int | None = None, max_waiting: int = 256,
        prefix_cache: bool = True, drafter: Drafter | None = None,
    ) -> None:  # fmt: skip
        limits = model.runner.limits
        most = limits.sequences if max_sequences is None else max_sequences
        for name, value in (("max_sequences", most), ("max_waiting", max_waiting)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected 1 or more")
        if not model.has_tokenizer:
            raise ValueError("an engine answers by text, and the model's folder has no tokenizer")
        if drafter is not None:
            drafter.check(model)
        self.model, self.max_waiting = model, max_waiting
        self.max_sequences = min(most, limits.sequences, limits.chunk)
        self._prefix_cache, self._drafter = prefix_cache, drafter
        self._beside = limits.chunk
        self._seconds = 1.0
        """Mean duration of requests."""
        self._changed = threading.Condition(threading.RLock())
        """Guards the lists of requests. Only the engine's thread changes answers that run."""
        self._waiting: deque[Answer] = deque()
        self._running: list[Answer] = []
        self._live: dict[int, Answer] = {}
        """Requests that have not ended, by number."""
        self._deadlines: list[tuple[float, int]] = []
        """Heap of the times at which requests with a timeout end, and their numbers."""
        self._aborted: deque[int] = deque()
        """Numbers of requests to abort: appended to without a lock, since garbage collection does it at any place."""
        self._count = 0
        self._finished: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._step_seconds = 0.0
        self._closing: float | None = None
        """Time at which answers that are under way are aborted; None: the engine takes requests."""
        self._process = os.getpid()
        with model.lock:
            model.forget()
        self._thread = threading.Thread(target=self._loop, name="relax engine", daemon=True)
        self._thread.start()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(drain=exc[0] is None)

    # ------------------------------------------------------------------------------------ requests

    def add(self, request: Request) -> Generation:
        """Queue a request, and return its answer under way.

        Raises EngineBusy if `max_waiting` requests wait, RuntimeError if the engine is closed, and ValueError or
        TypeError for a prompt that is empty, too long or holds no tokens, parameters of sampling out of range, and
        schemas, expressions and grammars that are refused.
        """
        if os.getpid() != self._process:
            raise RuntimeError("the engine belongs to the process that forked: make one in this process")
        answer = Answer(request, self.model.writer(request), Mailbox())
        with self._changed:
            if self._closing is not None:
                raise RuntimeError("the engine is closed")
            if len(self._waiting) >= self.max_waiting:
                seconds = self._seconds * (1 + len(self._waiting) / self.max_sequences)
                raise EngineBusy(f"{len(self._waiting)} requests wait already, as many as the engine takes", seconds)
            self._count += 1
            answer.number = self._count
            self._live[answer.number] = answer
            if request.timeout is not None:
                heapq.heappush(self._deadlines, (answer.added + request.timeout, answer.number))
            if answer.writer.room or answer.scored:
                self._waiting.append(answer)
                self._changed.notify_all()
            else:
                self._end(answer, "length")
        return Generation(answer.number, request, answer.mailbox, self.abort)

    def abort(self, number: int) -> bool:
        """End a request with "abort"; False if there is none of that number, or it has ended."""
        if number not in self._live:
            return False
        self._aborted.append(number)
        return True

    def stats(self) -> EngineStats:
        """Return the counts since the start, and the state now."""
        with self._changed:
            runner, counts = self.model.runner, self._counts
            return EngineStats(
                len(self._running), len(self._waiting), dict(self._finished), counts["prompt"], counts["cached"],
                counts["new"], counts["drafted"], counts["accepted"], counts["preemptions"], counts["steps"],
                self._step_seconds, runner.free_tokens, runner.limits.tokens,
            )  # fmt: skip

    def close(self, drain: bool = True, timeout: float | None = None) -> None:
        """Take no more requests, end those that are under way, and the engine's thread.

        `drain`: answer them first, for up to `timeout` seconds. The others end with "abort".
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            now = time.monotonic()
            end = now if not drain else math.inf if timeout is None else now + timeout
            self._closing = end if self._closing is None else min(end, self._closing)
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # ------------------------------------------------------------------------------------ thread

    def _loop(self) -> None:
        """Run steps until the engine is closed."""
        try:
            while self._wait():
                with self.model.lock:
                    worked = self._step()
                if not worked:  # other users of the model have all of its sequences
                    with self._changed:
                        self._changed.wait(PAUSE)
        except BaseException as error:  # a fault of the engine itself: readers must not wait for ever
            _logger.exception("the engine has failed")
            self._end_all("error", f"the engine has failed: {error!r}")
            raise

    def _wait(self) -> bool:
        """Wait for requests; False if there will be none."""
        with self._changed:
            while not self._waiting and not self._running:
                if self._closing is not None:
                    return False
                self._changed.wait()
            if self._closing is None or time.monotonic() < self._closing:
                return True
        self._end_all("abort", "")
        return False

    def _end_all(self, finish: Finish, error: str) -> None:
        with self.model.lock, self._changed:
            self._closing = -math.inf
            for answer in (*self._live.values(),):  # a fault may have left some in neither list
                self._end(answer, finish, error=error)
            self._running.clear()
            self._waiting.clear()

    def _step(self) -> bool:
        """Compute the next tokens of some requests; False if none can start.

        The caller holds the model's lock, which is taken before that of the lists.
        """
        self._remove_ended()
        self._admit()
        if not self._running and self.model.forget():
            self._admit()
        if not self._running:
            return False
        self._propose()
        parts = plan(self._running, self.model.runner.limits.chunk, self._beside)
        start = time.monotonic()
        done: list[tuple[Part, Array]] = []
        for adapter in dict.fromkeys(part.answer.request.adapter for part in parts):
            done += self._computed([part for part in parts if part.answer.request.adapter == adapter])
        seconds = time.monotonic() - start
        self._step_seconds += seconds
        self._counts["steps"] += 1
        self._measure(parts, seconds)
        for part, logits in done:
            if part.answer.sequence is not None:  # it has not given up its pages since
                self._take(part, logits)
        return True

    def _measure(self, parts: Sequence[Part], seconds: float) -> None:
        """Adapt the tokens of prompts beside answers that decode to the speed of the model."""
        prompts = sum(len(part.tokens) for part in parts if len(part.tokens) > part.rows)
        if prompts >= LEAST:
            wanted = int(STALL * sum(len(part.tokens) for part in parts) / max(seconds, 1e-9))
            self._beside = min(max((self._beside + wanted) // 2, LEAST), self.model.runner.limits.chunk)

    def _remove_ended(self) -> None:
        """End requests that were aborted, or whose time is over."""
        now = time.monotonic()
        with self._changed:
            ended: list[tuple[int, Finish]] = []
            while self._aborted:
                ended.append((self._aborted.popleft(), "abort"))
            while self._deadlines and self._deadlines[0][0] < now:
                ended.append((heapq.heappop(self._deadlines)[1], "timeout"))
            waited = False
            for number, finish in ended:
                answer = self._live.get(number)
                if answer is not None:
                    waited |= answer.sequence is None
                    self._end(answer, finish)
            if waited:  # many may wait: they are walked only where one has ended
                self._waiting = deque(answer for answer in self._waiting if not answer.is_over)

    def _admit(self) -> None:
        """Start requests that wait, in their order, while there are sequences and pages for their prompts.

        One that begins as a prompt under way does waits until that one is computed; others pass it.
        """
        with self._changed:
            held: list[Answer] = []
            while self._waiting and len(self._running) < self.max_sequences and len(held) < PASSED:
                answer = self._waiting.popleft()
                if self._prefix_cache and not answer.is_scored and waits_for(answer, self._running, 0):
                    held.append(answer)
                    continue
                try:
                    sequence, shared = self._sequence(answer)
                except ValueError:  # no sequence, or no pages, before others end
                    held.append(answer)
                    break
                if not answer.was_started:
                    self._counts["cached"] += shared
                answer.start(sequence, shared)
                self._running.append(answer)
                if self._drafter is not None:
                    try:
                        self._drafter.start(answer.number, answer.tokens)
                    except Exception:  # noqa: BLE001 answers do not need it
                        self._leave_drafter()
            self._waiting.extendleft(reversed(held))

    def _sequence(self, answer: Answer) -> tuple[int, int]:
        """Return a sequence for a request, and how many of its tokens it has. Raises ValueError without room."""
        runner = self.model.runner
        sequence, shared = self._new_sequence(answer)
        needed = len(answer.tokens) - shared + PAGE * (1 + len(self._running))
        if self._running and runner.free_tokens < needed:
            runner.remove(sequence)
            raise NoPages("other requests need the pages that are left")
        return sequence, shared

    def _new_sequence(self, answer: Answer) -> tuple[int, int]:
        if self._prefix_cache and not answer.is_scored:
            return self.model.runner.add_with_prefix(answer.tokens, answer.request.adapter)
        return self.model.runner.add(), 0

    def _propose(self) -> None:
        """Let the drafter propose tokens for the answers that decode."""
        decoding = [answer for answer in self._running if answer.remaining == 1]
        room = self.model.runner.limits.chunk - len(decoding)  # `plan` would drop the proposals of others
        decoding = [answer for answer in decoding if answer.writer.room > 1][: max(room, 0)]
        if self._drafter is None or not decoding:
            return
        try:
            found = self._drafter.propose([(answer.number, answer.tokens) for answer in decoding])
            proposed = [*zip(decoding, found, strict=True)]
        except Exception:  # noqa: BLE001 answers do not need it
            self._leave_drafter()
            return
        for answer, drafts in proposed:
            answer.drafts = drafts

    def _leave_drafter(self) -> None:
        """Go on without the drafter, whose exception is being handled."""
        _logger.exception("the drafter has failed: answers go on without it")
        self._drafter = None

    def _computed(self, parts: list[Part]) -> list[tuple[Part, Array]]:
        """Return the logits of parts of one adapter; those of requests that gave up their pages are left out."""
        while parts := [part for part in parts if part.answer.sequence is not None]:
            try:
                return self._run(parts)
            except NoPages:
                parts = self._with_fewer_pages(parts)
            except Exception as error:  # noqa: BLE001 of a request, or of the model
                if len(parts) == 1:
                    self._fail(parts[0].answer, error)
                    return []
                return [pair for part in parts for pair in self._computed([part])]
        return []

    def _run(self, parts: Sequence[Part]) -> list[tuple[Part, Array]]:
        batch = [(part.answer.sequence, part.tokens) for part in parts if part.answer.sequence is not None]
        rows = [part.rows for part in parts]
        logits = self.model.runner.step(batch, rows=rows, adapter=parts[0].answer.request.adapter)
        return list(zip(parts, np.split(logits, np.cumsum(rows)[:-1]), strict=True))

    def _with_fewer_pages(self, parts: Sequence[Part]) -> list[Part]:
        """Make room: forget proposed tokens, then the model's own conversation, then a request's pages."""
        drafted = [part.answer for part in parts if part.answer.drafts]
        if drafted:
            cut = [part._replace(tokens=part.tokens[:1], rows=1) if part.answer in drafted else part for part in parts]
            for answer in drafted:
                answer.drafts = []
            return cut
        if self.model.forget():
            return list(parts)
        if len(self._running) == 1:  # all pages are its own: the cache is full
            self._end(self._running[0], "length")
            return list(parts)
        self._preempt(self._running[-1])
        return list(parts)

    def _preempt(self, answer: Answer) -> None:
        """Give up the pages of a request, which waits again, before all others."""
        with self._changed:
            self._release(answer)
            self._running.remove(answer)
            self._waiting.appendleft(answer)
            self._counts["preemptions"] += 1

    def _take(self, part: Part, logits: Array) -> None:
        """Continue an answer by the logits behind its tokens."""
        answer, proposed = part.answer, len(part.answer.drafts)
        prompt, first = len(part.tokens) > part.rows or answer.computed < answer.prompt, answer.computed
        answer.computed += len(part.tokens) - proposed
        if prompt:
            self._counts["prompt"] += len(part.tokens)
        try:
            if prompt and self._prefix_cache:
                self._register(answer)
            if answer.is_scored:
                answer.score(first, logits)
                logits = logits[-1:]
            if answer.remaining:
                return
            before = answer.usage()
            event = answer.take(logits)
            usage = answer.usage()
            for name in ("new", "drafted", "accepted"):
                self._counts[name] += getattr(usage, f"{name}_tokens") - getattr(before, f"{name}_tokens")
            if self._drafter is not None and proposed:
                self._drafter.accepted(answer.number, proposed, usage.accepted_tokens - before.accepted_tokens)
            if event.finish:
                self._end(answer, event.finish, event)
                return
            answer.send(event)
            if proposed:
                self._shorten(answer)
        except Exception as error:  # noqa: BLE001 a fault of one request ends that request
            self._fail(answer, error)

    def _register(self, answer: Answer) -> None:
        """Let other requests share what the cache has of a request."""
        assert answer.sequence is not None
        self.model.runner.register(answer.sequence, answer.tokens[: answer.computed], answer.request.adapter)

    def _shorten(self, answer: Answer) -> None:
        """Remove proposed tokens that were not chosen from the cache."""
        assert answer.sequence is not None
        try:
            self.model.runner.shorten(answer.sequence, answer.computed)
        except ValueError:  # a window has slid past
            self._preempt(answer)

    # ------------------------------------------------------------------------------------ ends

    def _fail(self, answer: Answer, error: Exception) -> None:
        if not isinstance(error, ValueError):
            _logger.warning("a request has failed", exc_info=error)
        self._end(answer, "error", error=str(error) or type(error).__name__)

    def _end(self, answer: Answer, finish: Finish, event: Event | None = None, error: str = "") -> None:
        """End an answer; the prefix cache keeps its pages until their memory is needed."""
        if answer.is_over:
            return
        with self._changed:
            self._live.pop(answer.number, None)
            self._finished[finish] += 1
            if answer in self._running:
                self._release(answer)
                self._running.remove(answer)
            duration = time.monotonic() - answer.added
            self._seconds += 0.1 * (duration - self._seconds)
        answer.end(Event(answer.writer.rest(), (), finish, error) if event is None else event)

    def _release(self, answer: Answer) -> None:
        """Give the sequence of an answer back."""
        runner, sequence = self.model.runner, answer.sequence
        answer.drafts = []
        if self._drafter is not None:
            try:
                self._drafter.stop(answer.number)
            except Exception:  # noqa: BLE001 answers do not need it
                self._leave_drafter()
        if sequence is not None:
            if self._prefix_cache:
                self._register(answer)
            runner.remove(sequence)
            answer.sequence, answer.computed = None, 0


__all__ = ["Engine", "EngineStats"]
