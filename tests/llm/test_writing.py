"""The writer of an answer: tokens from logits, drafts that count where they are chosen, and reasons to end."""

import numpy as np
import pytest
from small_models import small_model

from relax.llm import Sampler, tokenizer_of
from relax.llm.writing import Writer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return tokenizer_of(small_model(tmp_path_factory.mktemp("llama")))


def rows(tokenizer, text):
    """Logits whose greatest are those of a text's characters; the matrix has rows that stand for no token."""
    ids = tokenizer.encode(text)
    logits = np.zeros((len(ids), tokenizer.vocabulary_size + 8), np.float32)
    logits[np.arange(len(ids)), ids] = 5
    logits[:, -1] = 9
    return logits


def writer(tokenizer, **options):
    return Writer(tokenizer, [1, 2], Sampler(temperature=0.0), **options)


def test_a_row_of_logits_is_a_token(tokenizer):
    made = writer(tokenizer)
    written = made.take(rows(tokenizer, "a"))
    assert (written.text, written.accepted, written.finish) == ("a", 0, None)
    assert made.tokens == [1, 2, *tokenizer.encode("a")]
    assert made.new == 1


@pytest.mark.parametrize(
    ("drafts", "text", "accepted"), [("abc", "abcd", 3), ("axc", "ab", 1), ("xbc", "a", 0), ("", "a", 0)]
)
def test_drafts_count_up_to_the_first_that_is_not_chosen(tokenizer, drafts, text, accepted):
    made = writer(tokenizer)
    written = made.take(rows(tokenizer, "abcd")[: len(drafts) + 1], tokenizer.encode(drafts))
    assert (written.text, written.accepted) == (text, accepted)
    assert made.new == len(written.choices) == accepted + 1


def test_a_stop_text_ends_the_answer_among_drafts(tokenizer):
    written = writer(tokenizer, stop=["bc"]).take(rows(tokenizer, "abcd"), tokenizer.encode("abc"))
    assert (written.text, written.finish, len(written.choices)) == ("a", "stop", 3)


def test_text_that_may_begin_a_stop_text_comes_at_the_end(tokenizer):
    made = writer(tokenizer, stop=["bx"], most=2)
    assert made.take(rows(tokenizer, "b")).text == ""
    assert made.take(rows(tokenizer, "c"))[0::3] == ("bc", "length")
    assert made.room == 0


def test_the_token_that_ends_a_turn_is_no_part_of_the_answer(tokenizer):
    end = min(tokenizer.eot)
    logits = rows(tokenizer, "ab")
    logits[1, end] = 7
    made = writer(tokenizer)
    written = made.take(logits, tokenizer.encode("a"))
    assert (written.text, written.accepted, written.finish) == ("a", 1, "stop")
    assert (len(written.choices), made.new) == (1, 2)
    ignoring = writer(tokenizer, ignore_end=True)
    assert ignoring.take(logits[1:]).finish is None


class Failing:
    """Constraint that allows everything, and fails from the second token on."""

    is_finished = False

    def __init__(self):
        self.count = 0

    def mask(self):
        if self.count:
            raise ValueError("nothing may follow")

    def accept(self, token):
        self.count += 1


def test_what_was_chosen_before_a_fault_is_returned_first(tokenizer):
    made = writer(tokenizer, constraint=Failing())
    logits = rows(tokenizer, "abc")
    written = made.take(logits, tokenizer.encode("ab"))
    assert (written.text, written.accepted) == ("a", 0)  # the logits behind "a" are computed again
    with pytest.raises(ValueError, match="nothing may follow"):
        made.take(logits[1:2])
