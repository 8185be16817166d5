"""Drafters: what they propose, and texts that stay the same with them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import small_model

from relax import llm
from relax.llm import Engine, Request, Sampler
from relax.llm.drafting import LONGEST_PAUSE, Pace
from relax.llm.engine.drafters import Drafter, DraftModel, PromptLookup
from relax.llm.language_model import LanguageModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return llm.load(folder, cache_dtype="float32")


@pytest.fixture(scope="module")
def second(folder: Path) -> LanguageModel:
    """The same model once more, to draft with."""
    return llm.load(folder, cache_dtype="float32")


def proposed(drafter: Drafter, history: list[int]) -> list[int]:
    drafter.start(1, history)
    found = drafter.propose([(1, history)])[0]
    drafter.stop(1)
    return found


class TestPace:
    def test_more_tokens_while_all_are_taken(self) -> None:
        pace = Pace(12)
        counts: list[int] = []
        for _ in range(4):
            counts.append(pace.next())
            pace.accepted(counts[-1], counts[-1])
        assert counts == [3, 6, 12, 12]

    def test_as_many_as_were_taken_and_one_more(self) -> None:
        pace = Pace(12)
        pace.accepted(4, 2)
        assert pace.next() == 3
        pace.accepted(3, 0)
        assert pace.next() == 1

    def test_pauses_that_grow_while_nothing_is_taken(self) -> None:
        pace = Pace(4)
        pauses: list[int] = []
        for _ in range(9):
            count = 0
            while not (wanted := pace.next()):
                count += 1
            pauses.append(count)
            pace.accepted(wanted, 0)
        assert pauses == [0, 0, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
        while not pace.next():
            pass
        pace.accepted(1, 1)
        assert pace.next() == 2


class TestPromptLookup:
    def test_the_tokens_that_followed_the_same_ones_before(self) -> None:
        assert proposed(PromptLookup(tokens=3), [1, 2, 3, 4, 5, 6, 9, 2, 3]) == [4, 5, 6]

    def test_the_longest_equal_end_counts_and_then_the_latest(self) -> None:
        history = [7, 1, 2, 50, 0, 8, 1, 2, 60, 0, 1, 2, 70, 0]
        assert proposed(PromptLookup(tokens=1), [*history, 7, 1, 2]) == [50]
        assert proposed(PromptLookup(tokens=1), [*history, 9, 1, 2]) == [70]
        assert proposed(PromptLookup(longest=2, tokens=1), [*history, 7, 1, 2]) == [70]

    def test_no_proposal_without_an_earlier_occurrence(self) -> None:
        assert proposed(PromptLookup(), [1, 2, 3, 4]) == []
        assert proposed(PromptLookup(), [1]) == []
        assert proposed(PromptLookup(shortest=3), [1, 2, 5, 1, 2]) == []

    def test_a_text_that_repeats_itself_goes_on_likewise(self) -> None:
        assert proposed(PromptLookup(tokens=3), [9, 1, 2, 1, 2]) == [1, 2, 1]
        assert proposed(PromptLookup(tokens=3), [5, 5, 5]) == [5, 5, 5]

    def test_histories_grow_by_any_number_of_tokens(self) -> None:
        rng = np.random.default_rng(3)
        drafter = PromptLookup(longest=4, tokens=2)
        history = rng.integers(0, 4, 30).tolist()
        drafter.start(1, history)
        for _ in range(60):
            history += rng.integers(0, 4, rng.integers(1, 4)).tolist()
            found = drafter.propose([(1, history)])[0]
            drafter.accepted(1, len(found), len(found))
            assert found == proposed(PromptLookup(longest=4, tokens=2), history)

    def test_requests_have_histories_of_their_own(self) -> None:
        drafter = PromptLookup(tokens=1)
        drafter.start(1, [1, 2, 3])
        drafter.start(2, [1, 2, 4])
        assert drafter.propose([(2, [1, 2, 4, 1, 2]), (1, [1, 2, 3, 1, 2])]) == [[4], [3]]
        drafter.stop(1)
        drafter.stop(1)
        with pytest.raises(ValueError, match="there is no request 1"):
            drafter.propose([(1, [1])])
        with pytest.raises(ValueError, match="the request 2 has been started already"):
            drafter.start(2, [])

    def test_fewer_proposals_where_they_are_not_taken(self) -> None:
        drafter = PromptLookup()
        history = [1, 2] * 10
        drafter.start(1, history)
        counts: list[int] = []
        for _ in range(100):
            counts.append(len(drafter.propose([(1, history)])[0]))
            drafter.accepted(1, counts[-1], 0)
        assert counts[0] == 3
        assert sum(counts) < 20

    def test_numbers_that_are_refused(self) -> None:
        with pytest.raises(ValueError, match="shortest is 3 and longest 2, expected 1 <= shortest <= longest"):
            PromptLookup(longest=2, shortest=3)
        with pytest.raises(ValueError, match="tokens is 0, expected 1 or more"):
            PromptLookup(tokens=0)


class TestDraftModel:
    def greedy(self, model: LanguageModel, history: list[int], count: int) -> list[int]:
        tokens = [*history]
        for _ in range(count):
            tokens.append(int(model.logits(tokens)[-1].argmax()))
        return tokens[len(history) :]

    def test_the_likeliest_tokens_of_several_requests(self, second: LanguageModel, model: LanguageModel) -> None:
        drafter = DraftModel(second, tokens=4)
        first, other = list(b"Hello"), list(b"Good morning")
        drafter.start(1, first)
        drafter.start(2, other)
        expected = [self.greedy(model, history, 3) for history in (other, first)]
        assert drafter.propose([(2, other), (1, first)]) == expected
        for history in ([*first, *expected[1][:2], 77], [*first, *expected[1][:2], 77, 78, 79, 80, 81]):
            drafter.accepted(1, 3, 3)
            assert drafter.propose([(1, history)]) == [self.greedy(model, history, 4)]
        drafter.accepted(2, 3, 1)
        history = [*other, expected[0][0], 7]
        assert drafter.propose([(2, history)]) == [self.greedy(model, history, 2)]

    def test_sequences_of_stopped_requests_are_removed(self, folder: Path) -> None:
        small = llm.load(folder, cache_dtype="float32", max_sequences=2)
        drafter = DraftModel(small)
        whole = small.runner.free_tokens
        for number in range(5):
            drafter.start(number, [1, 2, 3])
            assert drafter.propose([(number, [1, 2, 3])])[0]
            drafter.stop(number)
        drafter.start(9, [1])
        drafter.propose([(9, [1])])
        assert small.runner.free_tokens == whole - 16

    def test_requests_without_room_get_no_proposals(self, folder: Path) -> None:
        small = llm.load(folder, cache_dtype="float32", max_sequences=1, context=64)
        # one sequence, and that of the model's own conversation
        drafter = DraftModel(small)
        for number in range(3):
            drafter.start(number, [number])
        found = drafter.propose([(number, [number]) for number in range(3)])
        assert [bool(tokens) for tokens in found] == [True, True, False]
        drafter.stop(0)
        drafter.start(4, [])
        assert drafter.propose([(4, [5] * 49)]) == [[]]
        drafter.stop(1)
        drafter.start(5, [])
        assert len(drafter.propose([(5, [5] * 61)])[0]) == 3
        assert drafter.propose([(5, [5] * 64)]) == [[]]

    def test_vocabularies_that_differ(self, tmp_path: Path, model: LanguageModel) -> None:
        drafter = DraftModel(llm.load(small_model(tmp_path / "plain", has_tokenizer=False), cache_dtype="float32"))
        with pytest.raises(ValueError, match="the token 0 is 0 for the drafting model, and b'!' for the model"):
            drafter.check(model)
        with pytest.raises(ValueError, match="a model cannot draft for itself: load it twice"):
            DraftModel(model).check(model)
        with pytest.raises(ValueError, match="vocabularies differ"):
            model.generate("Hello", 3, drafter=drafter)


class TestGenerate:
    @pytest.mark.parametrize("sampling", [{}, {"temperature": 0.2, "seed": 4}, {"temperature": 0.2, "seed": 5}])
    def test_texts_are_those_without_a_drafter(
        self, second: LanguageModel, model: LanguageModel, sampling: dict[str, Any]
    ) -> None:
        prompt = "one two one two one two"
        expected = model.generate(prompt, 60, **sampling)
        before = model.stats().accepted_tokens
        for drafter in (PromptLookup(shortest=1), DraftModel(second, tokens=5)):
            for count in (60, 7, 1, 0):
                assert model.generate(prompt, count, drafter=drafter, **sampling) == model.generate(
                    prompt, count, **sampling
                )
            assert "".join(model.generate(prompt, 60, stream=True, drafter=drafter, **sampling)) == expected
        assert model.stats().accepted_tokens > before

    def test_equal_models_take_all_proposals(self, second: LanguageModel, model: LanguageModel) -> None:
        drafted, accepted = model.stats().drafted_tokens, model.stats().accepted_tokens
        model.generate("Hello", 41, drafter=DraftModel(second, tokens=4))
        assert model.stats().drafted_tokens - drafted == model.stats().accepted_tokens - accepted == 31

    def test_the_context_may_be_full(self, folder: Path) -> None:
        short = llm.load(folder, cache_dtype="float32", context=40)
        expected = short.generate([5] * 20)
        assert short.generate([5] * 20, drafter=PromptLookup(shortest=1)) == expected

    def test_with_a_constraint_and_a_stop_text(self, model: LanguageModel) -> None:
        form = {"regex": "(ab|ac){20}", "temperature": 1.0, "seed": 3}
        expected = model.generate("ababab", 60, **form)
        before = model.stats().accepted_tokens
        assert model.generate("ababab", 60, drafter=PromptLookup(), **form) == expected
        assert model.stats().accepted_tokens > before
        assert model.generate("ababab", 60, drafter=PromptLookup(), stop=expected[5:8], **form) == model.generate(
            "ababab", 60, stop=expected[5:8], **form
        )

    def test_streams_that_take_turns(self, model: LanguageModel) -> None:
        prompts = ("one two one two", "three three three")
        expected = [model.generate(prompt, 40) for prompt in prompts]
        drafter = PromptLookup(shortest=1)
        streams = [model.generate(prompt, 40, stream=True, drafter=drafter) for prompt in prompts]
        texts = ["", ""]
        for _ in range(50):
            for index, stream in enumerate(streams):
                texts[index] += next(stream, "")
        assert texts == expected


class TestEngine:
    REPEATED = "one two one two one two"

    @pytest.fixture(params=["look-up", "model"])
    def drafter(self, request: pytest.FixtureRequest, second: LanguageModel) -> Drafter:
        return PromptLookup(shortest=1) if request.param == "look-up" else DraftModel(second, tokens=3)

    def test_answers_are_those_without_a_drafter(self, model: LanguageModel, drafter: Drafter) -> None:
        requests = [
            Request(self.REPEATED + "!" * number, 60, {"temperature": temperature, "seed": number})
            for number, temperature in enumerate((0.0, 0.2, 0.0, 0.5))
        ]
        with Engine(model) as engine:
            expected = [answer.result().text for answer in [engine.add(request) for request in requests]]
        with Engine(model, drafter=drafter) as engine:
            answers = [engine.add(request).result() for request in requests]
            together = [answer.result().text for answer in [engine.add(request) for request in requests]]
            assert engine.stats().accepted_tokens > 0
        assert [answer.text for answer in answers] == together == expected
        assert sum(answer.usage.accepted_tokens for answer in answers) > 0

    def test_constrained_answers_match(self, model: LanguageModel, drafter: Drafter) -> None:
        with Engine(model, drafter=drafter) as engine:
            answers = [
                engine.add(Request("ababab", regex="(ab|ac){9}", sampling={"temperature": 1.0, "seed": seed}))
                for seed in range(12)
            ]
            for answer in answers:
                completion = answer.result()
                assert re.fullmatch("(ab|ac){9}", completion.text)
                assert completion.finish == "stop"

    @pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
    def test_samples_have_the_distribution_of_the_model(
        self, model: LanguageModel, drafter: Drafter, count: int
    ) -> None:
        """Chi-squared test of three tokens in sequence; each is one of the two likeliest."""
        prompt = [*b"abababab"]
        expected: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(3):
            longer: dict[tuple[int, ...], float] = {}
            for tokens, chance in expected.items():
                row = Sampler(top_k=2).probabilities(model.logits([*prompt, *tokens])[-1])
                longer |= {(*tokens, int(token)): chance * row[token] for token in np.flatnonzero(row)}
            expected = longer
        counts: Counter[tuple[int, ...]] = Counter()
        with Engine(model, drafter=drafter) as engine:
            requests = [
                Request(prompt, 3, {"temperature": 1.0, "top_k": 2, "seed": seed}, ignore_end=True)
                for seed in range(count)
            ]
            for first in range(0, count, 100):
                for answer in [engine.add(request) for request in requests[first : first + 100]]:
                    counts[tuple(choice.token for choice in answer.result().tokens)] += 1
            if isinstance(drafter, DraftModel):
                assert engine.stats().accepted_tokens > count / 10
        assert {*counts} <= {*expected}
        observed = np.array([counts[tokens] for tokens in expected])
        wanted = np.array([*expected.values()]) * count
        squared = float(((observed - wanted) ** 2 / wanted).sum())
        assert squared < 24.3, (observed, wanted)  # exceeded once in 1,000 times, with seven degrees of freedom
