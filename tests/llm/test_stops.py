"""Stop strings: nothing of one is returned, and nothing else is withheld longer than needed."""

from __future__ import annotations

import random

import pytest

from relax.llm import StopStream


def run(stops, pieces):
    """The texts that a stream returns for each piece, and at the end."""
    stream = StopStream(stops)
    return [*(stream.step(piece) for piece in pieces), stream.finish()], stream.stop


def test_text_without_a_stop_string_passes():
    assert run([], ["Hello", " world"]) == (["Hello", " world", ""], None)
    assert run(["END"], ["Hello", " world"]) == (["Hello", " world", ""], None)


def test_a_stop_string_over_several_pieces():
    assert run(["</end>"], ["a<", "/en", "d>b", "c"]) == (["a", "", "", "", ""], "</end>")


def test_what_only_looked_like_a_stop_string_is_returned():
    assert run(["</end>"], ["a</", "em>", "b"]) == (["a", "</em>", "b", ""], None)
    assert run(["</end>"], ["a</en"]) == (["a", "</en"], None)
    assert run(["aab"], ["a", "a", "a", "b", "c"]) == (["", "", "a", "", "", ""], "aab")


def test_one_string():
    assert run("\n\n", ["a\n", "b\n\nc"]) == (["a", "\nb", ""], "\n\n")


def test_the_first_complete_string_stops():
    assert run(["xyz", "y"], ["wxyz"]) == (["wx", ""], "y")
    assert run(["bc", "abc"], ["abc"]) == (["", ""], "abc")


def test_nothing_follows():
    stream = StopStream(["."])
    assert stream.step("One. Two.") == "One"
    assert stream.stopped
    assert (stream.step("Three"), stream.finish()) == ("", "")


def test_an_empty_stop_string_is_refused():
    with pytest.raises(ValueError, match="a stop string is empty: it would end every text"):
        StopStream(["a", ""])


@pytest.mark.parametrize("seed", range(40))
def test_pieces_do_not_matter(seed):
    """However a text is cut, the answer ends before the stop string that is complete first."""
    source = random.Random(seed)
    for _ in range(50):
        text = "".join(source.choices("abé", k=source.randint(0, 20)))
        stops = ["".join(source.choices("abé", k=source.randint(1, 4))) for _ in range(source.randint(0, 3))]
        complete = min(
            (end for end in range(len(text) + 1) if any(text[:end].endswith(stop) for stop in stops)), default=None
        )
        longest = max((stop for stop in stops if complete and text[:complete].endswith(stop)), key=len, default=None)
        expected = text if complete is None else text[: complete - len(longest)]
        cuts = sorted(source.choices(range(len(text) + 1), k=3))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
        returned, stop = run(stops, pieces)
        assert ("".join(returned), stop) == (expected, longest)
