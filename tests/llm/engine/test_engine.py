"""The engine: answers are those of `generate`, whatever else runs, and a request ends by itself alone."""

import asyncio
import dataclasses
import gc
import math
import multiprocessing
import threading
import time

import numpy as np
import pytest
from small_models import small_model

import relax
from relax.llm import Engine, EngineBusy, PromptLookup, Request, Sampler
from relax.llm.runner import Limits, Runner


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of which no answer ends by itself within 128 tokens; texts are bytes."""
    return relax.llm.load(small_model(tmp_path_factory.mktemp("llama")), cache_tokens=1024)


@pytest.fixture
def engine(model):
    with Engine(model) as engine:
        yield engine


def with_cache(model, tokens, sequences=16):
    """The same model with another cache."""
    runner = Runner(model.runner.machine.executable, model.runner.weights, Limits(sequences, tokens, min(tokens, 64)))
    return relax.llm.LanguageModel(model.mod, runner, model.tokenizer, model.vocabulary, relax.llm.Stats(), 128)


def finishes(answers):
    return [answer.result().finish for answer in answers]


# ---------------------------------------------------------------------------------------------- answers


def test_the_answer_is_that_of_generate(model, engine):
    answer = engine.add(Request("The sky", max_new_tokens=12)).result()
    assert answer.text == model.generate("The sky", max_new_tokens=12)
    assert answer.finish == "length"
    assert len(answer.tokens) == answer.usage.new_tokens == 12
    assert answer.usage.prompt_tokens == 7
    assert 0 <= answer.usage.started <= answer.usage.first_token <= answer.usage.finished


def test_many_requests_are_answered_together(model):
    prompts = [f"Text number {i} " * (1 + i % 5) for i in range(40)]
    expected = [model.generate(prompt, max_new_tokens=6) for prompt in prompts]
    with Engine(model) as engine:
        answers = [engine.add(Request(prompt, max_new_tokens=6)) for prompt in prompts]
        assert [answer.result().text for answer in answers] == expected
        assert engine.stats().finished == {"length": 40}
        assert engine.stats().steps < 40 * 6  # several in a step


def test_a_seed_determines_the_text_whatever_else_runs(engine):
    request = Request("Once", max_new_tokens=30, sampling={"temperature": 1.0, "seed": 7})
    alone = engine.add(request).result().text
    others = [Request("x" * (i + 1), max_new_tokens=40, sampling={"temperature": 1.0}) for i in range(9)]
    answers = [engine.add(r) for r in (*others[:4], request, *others[4:])]
    assert answers[4].result().text == alone


def test_events_are_the_pieces_of_the_text(engine):
    events = list(engine.add(Request("abc", max_new_tokens=5, sampling={"logprobs": 2})))
    assert [event.finish for event in events] == [None] * 4 + ["length"]
    assert all(len(event.tokens) == 1 and len(event.tokens[0].top) == 2 for event in events)
    assert all(event.tokens[0].logprob == event.tokens[0].top[0][1] for event in events)


def test_a_stop_text_ends_the_answer_and_is_left_out(model, engine):
    whole = model.generate("abc", max_new_tokens=20)
    stop = whole[8:10]
    answer = engine.add(Request("abc", max_new_tokens=20, stop=[stop])).result()
    assert (answer.text, answer.finish) == (whole[: whole.index(stop)], "stop")


def test_the_token_that_ends_a_turn_ends_the_answer_unless_it_is_ignored(model, engine):
    end = min(model.tokenizer.eot)
    sampling = {"logit_bias": {end: 1e9}}
    answer = engine.add(Request("abc", sampling=sampling)).result()
    assert (answer.text, answer.finish, answer.tokens, answer.usage.new_tokens) == ("", "stop", (), 1)
    ignoring = engine.add(Request("abc", max_new_tokens=3, sampling=sampling, ignore_end=True)).result()
    assert [choice.token for choice in ignoring.tokens] == [end] * 3


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (None, 128 - 3)])
def test_an_answer_has_at_most_as_many_tokens_as_asked_and_as_the_context_has(engine, limit, count):
    answer = engine.add(Request("abc", max_new_tokens=limit)).result()
    assert (len(answer.tokens), answer.finish) == (count, "length")


def test_a_schema_constrains_the_answer(engine):
    request = Request("abc", regex="[0-9]{3}-[a-f]{2}", sampling={"temperature": 1.0, "seed": 1})
    answer = engine.add(request).result()
    assert answer.finish == "stop"
    assert len(answer.text) == 6
    assert answer.text[3] == "-"


# ---------------------------------------------------------------------------------------------- cache


def test_a_prompt_that_begins_as_an_earlier_one_is_computed_from_where_they_differ(model, engine):
    prefix = "A long beginning, which several requests share. " * 2
    first = engine.add(Request(prefix + "one", max_new_tokens=4)).result()
    second = engine.add(Request(prefix + "two", max_new_tokens=4)).result()
    assert (first.usage.cached_tokens, second.usage.cached_tokens) == (0, len(prefix) // 16 * 16)
    assert second.text == model.generate(prefix + "two", max_new_tokens=4)


def test_an_answer_is_shared_as_the_prompt_of_the_next_turn(engine):
    prompt = "A question of some length?"
    answer = engine.add(Request(prompt, max_new_tokens=40)).result()
    longer = [*engine.model.tokenizer.encode(prompt), *(choice.token for choice in answer.tokens)]
    again = engine.add(Request(longer, max_new_tokens=4)).result()
    assert again.usage.cached_tokens == (len(longer) - 1) // 16 * 16


def test_requests_that_come_together_compute_a_common_prompt_once(model):
    prompt = [*range(1, 100)]
    with Engine(model) as engine:
        with model.lock:  # both are queued before the first step
            answers = [engine.add(Request(prompt, max_new_tokens=4)) for _ in range(3)]
        assert sorted(answer.result().usage.cached_tokens for answer in answers) == [0, 96, 96]


def test_without_a_prefix_cache_nothing_is_shared(model):
    with Engine(model, prefix_cache=False) as engine:
        for _ in range(2):
            assert engine.add(Request([*range(1, 60)], max_new_tokens=2)).result().usage.cached_tokens == 0
        assert engine.stats().cached_tokens == 0


def scores(model, tokens):
    """Log-probabilities of tokens behind those before them, by the model's logits."""
    logits = model.logits(tokens).astype("float64")
    logits -= logits.max(axis=-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return [float(row[token]) for row, token in zip(logits, tokens[1:], strict=False)]


@pytest.mark.parametrize("size", [1, 2, 40, 120])
@pytest.mark.parametrize("new", [0, 3])
def test_a_prompt_has_log_probabilities_on_request(model, size, new):
    tokens = [1 + i * 7 % 200 for i in range(size)]
    plain, asked = (Request(tokens, max_new_tokens=3), Request(tokens, max_new_tokens=new, prompt_logprobs=2))
    with Engine(with_cache(model, 1024)) as engine:  # steps of 64 tokens
        expected = engine.add(plain).result()
        answers = [engine.add(request) for request in (asked, plain, asked)]
        first, other, second = (answer.result() for answer in answers)
    assert expected.prompt == other.prompt == ()
    assert other.text == expected.text
    assert first == dataclasses.replace(second, usage=first.usage)
    assert (first.text, first.finish) == (expected.text if new else "", "length")
    assert first.usage.cached_tokens == 0
    assert [choice.token for choice in first.prompt] == tokens
    assert math.isnan(first.prompt[0].logprob)
    assert [choice.logprob for choice in first.prompt[1:]] == pytest.approx(scores(model, tokens), abs=1e-5)
    assert all(len(choice.top) == 2 and choice.logprob <= choice.top[0][1] for choice in first.prompt[1:])


def test_a_prompt_is_scored_once_more_when_its_pages_were_given_up(model):
    requests = [Request([1 + i, *range(2, 60)], max_new_tokens=50, prompt_logprobs=0) for i in range(4)]
    with Engine(with_cache(model, 160)) as engine:
        answers = [answer.result() for answer in [engine.add(request) for request in requests]]
        assert engine.stats().preemptions > 0
    for request, answer in zip(requests, answers, strict=True):
        found = [choice.logprob for choice in answer.prompt]
        assert found[1:] == pytest.approx(scores(model, [*request.prompt]), abs=1e-5)
        assert not any(choice.top for choice in answer.prompt)


def test_requests_give_up_pages_and_go_on_later(model):
    requests = [Request(f"Number {i}.", max_new_tokens=60) for i in range(6)]
    expected = [model.generate(request.prompt, max_new_tokens=60) for request in requests]
    with Engine(with_cache(model, 160)) as engine:
        answers = [engine.add(request) for request in requests]
        assert [answer.result().text for answer in answers] == expected
        assert engine.stats().preemptions > 0
        assert engine.stats().free_tokens == 160


def test_an_answer_ends_when_it_has_all_pages_that_are_left(model):
    small = with_cache(model, 64)
    with small.lock:
        small.runner.step([(small.runner.add(), [1] * 20)])  # somebody else's sequence takes two of four pages
    with Engine(small) as engine:
        answer = engine.add(Request("abcd", sampling={"temperature": 1.0, "seed": 3})).result()
    assert (answer.finish, answer.usage.new_tokens) == ("length", 32 - 4 + 1)


def test_the_model_answers_others_meanwhile(model, engine):
    expected = model.generate("Others", max_new_tokens=10)
    answers = [engine.add(Request(f"Engine {i}", max_new_tokens=30)) for i in range(3)]
    assert model.generate("Others", max_new_tokens=10) == expected
    assert finishes(answers) == ["length"] * 3


def test_the_model_answers_beside_as_many_requests_as_there_are_sequences(model):
    small = with_cache(model, 256, sequences=2)
    with Engine(small) as engine:
        answers = [engine.add(Request("abc", max_new_tokens=60)) for _ in range(4)]
        next(answers[1])
        assert small.generate("Others", max_new_tokens=3) == model.generate("Others", max_new_tokens=3)
        assert finishes(answers) == ["length"] * 4


def test_requests_wait_while_others_have_all_sequences(model):
    small = with_cache(model, 64, sequences=1)
    with small.lock:
        taken = [small.runner.add() for _ in range(2)]  # that of the model's own conversation, too
    with Engine(small) as engine:
        answer = engine.add(Request("abcd", max_new_tokens=3))
        with pytest.raises(TimeoutError):
            answer.result(timeout=0.05)
        assert engine.stats().steps == 0
        with small.lock:
            small.runner.remove(taken[0])
        assert answer.result().finish == "length"


def test_a_conversation_of_the_model_gives_its_sequence_up(model):
    small = with_cache(model, 64, sequences=1)
    with small.lock:
        small.runner.add()
    with Engine(small) as engine:
        text = small.generate("abcd", max_new_tokens=3)
        assert engine.add(Request("abcd", max_new_tokens=3)).result().text == text


def test_a_conversation_of_the_model_gives_way(model):
    small = with_cache(model, 96)
    with Engine(small) as engine:
        small.generate("x" * 60, max_new_tokens=2)
        answer = engine.add(Request("y" * 70, max_new_tokens=3)).result()
    assert answer.finish == "length"
    assert answer.text == model.generate("y" * 70, max_new_tokens=3)


# ---------------------------------------------------------------------------------------------- drafters


def test_proposed_tokens_change_nothing_but_the_number_of_steps(model):
    requests = [Request("ab" * 20, max_new_tokens=40), Request("xyz", max_new_tokens=40, sampling={"seed": 2})]
    with Engine(model, prefix_cache=False) as plain:
        expected = [plain.add(request).result().text for request in requests]
    with Engine(model, prefix_cache=False, drafter=PromptLookup(shortest=1)) as engine:
        assert [answer.result().text for answer in [engine.add(request) for request in requests]] == expected
        stats = engine.stats()
    assert 0 < stats.accepted_tokens <= stats.drafted_tokens
    assert stats.free_tokens == stats.total_tokens


class Failing(PromptLookup):
    def propose(self, batch):
        raise ZeroDivisionError


class Short(PromptLookup):
    def propose(self, batch):
        return []


class NotStarting(PromptLookup):
    def start(self, request, prompt):
        raise ZeroDivisionError


class NotStopping(PromptLookup):
    def stop(self, request):
        raise ZeroDivisionError


@pytest.mark.parametrize("drafter", [Failing, Short, NotStarting, NotStopping])
def test_a_drafter_that_fails_is_left_out(model, drafter, caplog):
    expected = model.generate("abc", max_new_tokens=5)
    with Engine(model, drafter=drafter()) as engine:
        answers = [engine.add(Request("abc", max_new_tokens=5)) for _ in range(2)]
        assert [answer.result(timeout=60).text for answer in answers] == [expected] * 2
        stats = engine.stats()
    assert stats.free_tokens == stats.total_tokens
    assert "the drafter has failed: answers go on without it" in caplog.text


# ---------------------------------------------------------------------------------------------- ends


def test_an_aborted_request_ends_and_others_go_on(engine):
    first, second = (engine.add(Request("abc", max_new_tokens=100)) for _ in range(2))
    next(first)
    first.abort()
    assert first.result().finish == "abort"
    assert second.result().finish == "length"
    assert not engine.abort(first.id)
    assert not engine.abort(12345)


def test_a_request_is_aborted_while_it_waits(model):
    with Engine(model, max_sequences=1) as engine:
        first, second = (engine.add(Request("abc", max_new_tokens=100)) for _ in range(2))
        second.abort()
        assert (second.result().finish, first.result().finish) == ("abort", "length")
        assert second.usage.new_tokens == 0


def test_a_generation_that_nobody_reads_is_aborted(engine):
    engine.add(Request("abc", max_new_tokens=100))
    with engine.add(Request("abc", max_new_tokens=100)) as left:
        next(left)
    gc.collect()
    assert left.result().finish == "abort"
    engine.close()
    assert engine.stats().finished == {"abort": 2}


def test_time_ends_a_request(engine):
    answer = engine.add(Request("abc", timeout=1e-6)).result()
    assert (answer.finish, answer.text) == ("timeout", "")


def test_requests_that_wait_end_by_their_time_or_by_abort(model):
    with Engine(model, max_sequences=1, max_waiting=1000) as engine:
        with model.lock:  # the engine takes no step meanwhile
            kinds = [("late", {"timeout": 1e-6}), ("left", {}), ("kept", {"timeout": 600.0})] * 100
            answers = [engine.add(Request("abc", max_new_tokens=1, **fields)) for _, fields in kinds]
            for (kind, _), answer in zip(kinds, answers, strict=True):
                if kind == "left":
                    assert engine.abort(answer.id)
        ends = [answer.result(timeout=60) for answer in answers]
        assert [end.finish for end in ends] == ["timeout", "abort", "length"] * 100
        started = [end.usage.started for end in ends if end.finish == "length"]
        assert not any(math.isnan(seconds) for seconds in started)
        stats = engine.stats()
    assert stats.finished == {"timeout": 100, "abort": 100, "length": 100}
    assert (stats.waiting, stats.free_tokens) == (0, stats.total_tokens)


def test_a_reader_does_not_wait_for_ever(engine):
    with engine.model.lock:
        answer = engine.add(Request("abc", max_new_tokens=3))
        with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
            answer.result(timeout=0.01)
    assert answer.result().finish == "length"
    with pytest.raises(RuntimeError, match="was read to its end already"):
        answer.result()


def test_a_fault_of_a_sampler_ends_its_request_alone(engine):
    good = engine.add(Request("abc", max_new_tokens=30))
    bad = engine.add(Request("abc", sampling={"logit_bias": {9999: 1.0}})).result()
    assert bad.finish == "error"
    assert "logit_bias has the token 9999, which is outside of the vocabulary" in bad.error
    assert good.result().finish == "length"


class Broken:
    """A runner that computes nothing for one sequence."""

    def __init__(self, runner, sequence):
        self._runner, self._sequence = runner, sequence

    def __getattr__(self, name):
        return getattr(self._runner, name)

    def step(self, batch, **options):
        if any(sequence == self._sequence for sequence, _ in batch):
            raise RuntimeError("no result")
        return self._runner.step(batch, **options)


def test_a_step_that_fails_ends_the_requests_that_fail_alone(model):
    broken = with_cache(model, 512)
    broken.runner = Broken(broken.runner, 1)
    with Engine(broken) as engine:
        with broken.lock:
            answers = [engine.add(Request(f"{i} abc", max_new_tokens=8)) for i in range(3)]
        results = [answer.result() for answer in answers]
    assert [result.finish for result in results] == ["length", "error", "length"]
    assert results[1].error == "no result"
    assert results[2].text == model.generate("2 abc", max_new_tokens=8)


def test_a_fault_while_requests_start_leaves_no_reader_waiting(model, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    engine = Engine(model)
    monkeypatch.setattr(engine, "_sequence", lambda answer: 1 / 0)  # the request is in neither list then
    with model.lock:
        answers = [engine.add(Request("abc")) for _ in range(3)]
    assert [answer.result(timeout=60).finish for answer in answers] == ["error"] * 3


def test_a_fault_of_the_engine_ends_all_requests(model, monkeypatch, caplog):
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    engine = Engine(model)
    monkeypatch.setattr(engine, "_admit", lambda: 1 / 0)
    answer = engine.add(Request("abc")).result()
    assert (answer.finish, answer.error) == ("error", "the engine has failed: ZeroDivisionError('division by zero')")
    with pytest.raises(RuntimeError, match="the engine is closed"):
        engine.add(Request("abc"))
    assert "the engine has failed" in caplog.text


# ---------------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request([]), "the prompt is empty"),
        (Request([1] * 200), "the prompt has 200 tokens, and the context 128"),
        (Request([1, 300]), "300 is no token: the vocabulary has 260"),
        (Request("a", sampling={"top_p": 2}), "top_p is 2, expected between 0 and 1"),
        (Request("a", regex="("), "regex"),
        (Request("a", adapter="french"), "the model has no adapter 'french'"),
    ],
)
def test_bad_requests_are_refused_when_they_come(engine, request_, message):
    with pytest.raises(ValueError, match=message):
        engine.add(request_)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"max_new_tokens": -1}, ValueError, "max_new_tokens is -1, expected 0 or more"),
        ({"prompt_logprobs": -1}, ValueError, "prompt_logprobs is -1, expected 0 or more"),
        ({"stop": "end"}, TypeError, "stop is a sequence of texts, found 'end'"),
        ({"stop": [1]}, TypeError, r"stop is a sequence of texts, found \[1\]"),
        ({"timeout": 0}, ValueError, "timeout is 0, expected seconds above 0"),
        ({"regex": "a", "grammar": "b"}, ValueError, "an answer has one constraint, found regex and grammar"),
    ],
)
def test_fields_of_requests_are_checked(fields, error, message):
    with pytest.raises(error, match=message):
        Request("a", **fields)


@pytest.mark.parametrize("name", ["max_sequences", "max_waiting"])
def test_numbers_of_an_engine_are_checked(model, name):
    with pytest.raises(ValueError, match=f"{name} is 0, expected 1 or more"):
        Engine(model, **{name: 0})


def test_an_engine_with_many_requests_refuses_more(model):
    with Engine(model, max_sequences=1, max_waiting=2) as engine:
        with model.lock:
            answers = [engine.add(Request("abc", max_new_tokens=100)) for _ in range(2)]
            with pytest.raises(EngineBusy, match="2 requests wait already") as caught:
                engine.add(Request("abc"))
        assert caught.value.retry_after > 0
        assert finishes(answers) == ["length"] * len(answers)
        assert engine.add(Request("abc", max_new_tokens=2)).result().finish == "length"


# ---------------------------------------------------------------------------------------------- close


def test_a_closed_engine_answers_requests_that_came(model):
    engine = Engine(model)
    answers = [engine.add(Request("abc", max_new_tokens=20)) for _ in range(3)]
    engine.close()
    assert finishes(answers) == ["length"] * 3
    with pytest.raises(RuntimeError, match="the engine is closed"):
        engine.add(Request("abc"))
    engine.close()


@pytest.mark.parametrize("drain", [{"drain": False}, {"timeout": 0.0}])
def test_requests_are_aborted_where_the_engine_does_not_wait(model, drain):
    engine = Engine(model, max_sequences=1)
    answers = [engine.add(Request("abc", max_new_tokens=120)) for _ in range(3)]
    engine.close(**drain)
    assert finishes(answers)[1:] == ["abort"] * 2
    assert model.runner.free_tokens == model.runner.limits.tokens


def test_an_exception_in_the_block_ends_the_engine_at_once(model):
    engine = Engine(model, max_sequences=1)
    answers = [engine.add(Request("abc", max_new_tokens=120)) for _ in range(2)]
    engine.__exit__(KeyError, KeyError(), None)
    assert answers[1].result().finish == "abort"


def _in_a_child(engine, pipe):
    try:
        engine.add(Request("abc"))
    except RuntimeError as error:
        pipe.send(str(error))
    engine.close()


def test_a_child_process_has_no_engine(engine):
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(engine, theirs))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == "the engine belongs to the process that forked: make one in this process"
    child.join(60)
    assert child.exitcode == 0


# ---------------------------------------------------------------------------------------------- asyncio and threads


def test_answers_are_read_by_asyncio(model, engine):
    expected = [model.generate(f"Number {i}", max_new_tokens=5) for i in range(30)]

    async def text(i):
        return "".join([event.text async for event in engine.add(Request(f"Number {i}", max_new_tokens=5))])

    async def main():
        return await asyncio.gather(*(text(i) for i in range(30)))

    assert asyncio.run(main()) == expected


def test_a_cancelled_task_aborts_its_request(engine):
    async def main():
        async with engine.add(Request("abc", max_new_tokens=120)) as answer:
            task = asyncio.ensure_future(answer.wait())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return await answer.wait()

    assert asyncio.run(main()).finish == "abort"


def test_a_reader_whose_loop_is_closed_disturbs_nobody(engine):
    async def main():
        answer = engine.add(Request("abc", max_new_tokens=100))
        waiting = asyncio.ensure_future(answer.wait())
        await asyncio.sleep(0)
        return answer, waiting

    answer, _ = asyncio.run(main())
    assert engine.add(Request("abc", max_new_tokens=3)).result().finish == "length"
    assert answer.result().finish == "length"


def test_threads_add_and_abort_at_random(model):
    rng = np.random.default_rng(11)
    plans = [
        [(f"{'abcdefgh'[int(rng.integers(8))] * int(rng.integers(1, 40))}", int(rng.integers(1, 12)), int(rng.integers(4)))
         for _ in range(12)]
        for _ in range(6)
    ]  # fmt: skip
    expected = {(p, n): model.generate(p, max_new_tokens=n) for plan in plans for p, n, _ in plan}
    wrong = []

    def client(plan):
        for prompt, count, action in plan:
            answer = engine.add(Request(prompt, max_new_tokens=count))
            if action == 0:
                answer.abort()
            result = answer.result()
            text = expected[prompt, count]
            if not (result.text == text if result.finish == "length" else text.startswith(result.text)):
                wrong.append((prompt, count, result))

    with Engine(with_cache(model, 256, 8)) as engine:
        threads = [threading.Thread(target=client, args=(plan,)) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = engine.stats()
    assert not wrong
    assert sum(stats.finished.values()) == 72
    assert stats.free_tokens == 256


def test_an_idle_engine_does_nothing(engine):
    engine.add(Request("abc", max_new_tokens=2)).result()
    steps = engine.stats().steps
    time.sleep(0.05)
    assert engine.stats().steps == steps
    assert engine.stats().running == engine.stats().waiting == 0


def test_log_probabilities_are_those_of_the_model(model, engine):
    answer = engine.add(Request("abc", max_new_tokens=1, sampling={"logprobs": 3})).result()
    logits = model.logits(model.tokenizer.encode("abc"))[-1, : model.tokenizer.vocabulary_size]
    expected = Sampler(temperature=0.0, logprobs=3).choose(logits)
    assert answer.tokens == (expected,)
