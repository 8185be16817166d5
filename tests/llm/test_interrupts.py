"""Ctrl-C while a model computes: the step ends first, and the model answers the next prompt as before."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_models import small_model

from relax import llm
from relax.llm.interrupts import interrupted_later


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    """Python's own handler: a shell that starts the tests in the background has them ignore interruptions."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_an_interruption_waits_for_the_end_of_the_block() -> None:
    done: list[int] = []

    def block() -> None:
        with interrupted_later():
            _thread.interrupt_main()
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_ignored_interruptions_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def block() -> None:
        with interrupted_later():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        block()
    finally:
        signal.signal(signal.SIGINT, previous)
    assert found == [signal.default_int_handler, signal.SIG_IGN]


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_model_answers_after_an_interruption(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = llm.load(small_model(tmp_path / "small"))
    expected, free = model.generate("Hello", 8), model.runner.free_tokens
    forward, calls = model.runner._forward, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == at:
            _thread.interrupt_main()
        return forward(*arguments)

    monkeypatch.setattr(model.runner, "_forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.generate("Hello there, all of you", 8)
    assert model.generate("Hello", 8) == expected
    assert model.runner.free_tokens == free
