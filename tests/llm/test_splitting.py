"""Pre-tokenizers by their names in GGUF files: where they split a text."""

from __future__ import annotations

import pytest

from relax.llm.splitting import SPLITTINGS

package = pytest.importorskip("tokenizers")

TEXT = "It's 12345 naïveHTTPCamel\n\n  x=1, 你好！"


def pieces(name, text):
    steps = [package.pre_tokenizers.Split(package.Regex(e), "isolated") for e in SPLITTINGS[name].expressions]
    return [piece for piece, _ in package.pre_tokenizers.Sequence(steps).pre_tokenize_str(text)]


EXPECTED = {
    "gpt-2": "It|'s| 12345| naïveHTTPCamel|\n\n | x|=|1|,| 你好|！",
    "smollm": "It|'s| |1|2|3|4|5| naïveHTTPCamel|\n\n | x|=|1|,| 你好|！",
    "default": "It|'|s| |123|45| naïveHTTPCamel|\n\n | x|=|1|,| 你好|！",
    "falcon": "It|'|s| |123|45| naïveHTTPCamel|\n\n | x|=|1|,| 你好|！",
    "llama-bpe": "It|'s| |123|45| naïveHTTPCamel|\n\n| | x|=|1|,| 你好|！",
    "qwen2": "It|'s| |1|2|3|4|5| naïveHTTPCamel|\n\n| | x|=|1|,| 你好|！",
    "gpt-4o": "It's| |123|45| naïve|HTTPCamel|\n\n| | x|=|1|,| 你好|！",
    "tekken": "It|'s| |1|2|3|4|5| naïve|HTTPCamel|\n\n| | x|=|1|,| 你好|！",
    "deepseek-llm": "It|'|s| |12345| na|ï|veHTTPCamel|\n|\n| | x|=|1|,| |你好|！",
    "deepseek-coder": "It|'|s| |1|2|3|4|5| naïveHTTPCamel|\n|\n| | x|=|1|,| |你好|！",
    "deepseek-v3": "It|'s| |123|45| naïveHTTPCamel|\n\n| | x|=|1|,| |你好|！",
    "bloom": "It's| 12345| naïveHTTPCamel|\n\n | x=1|,| 你好！",
    "viking": "It's| |1|2|3|4|5| naïveHTTPCamel|\n\n | x=|1|,| 你好！",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_pieces_of_a_text(name):
    assert "|".join(pieces(name, TEXT)) == EXPECTED[name]


def test_contractions():
    """Llama 3 knows them in capitals, GPT-2 does not, GPT-4o leaves them at their word."""
    assert pieces("llama-bpe", "WE'LL don't") == ["WE", "'LL", " don", "'t"]
    assert pieces("gpt-2", "WE'LL don't") == ["WE", "'", "LL", " don", "'t"]
    assert pieces("gpt-4o", "WE'LL don't") == ["WE'LL", " don't"]


def test_combining_marks():
    """Vowel signs belong to the word for Qwen 3.5 and GPT-4o; for Llama 3 and Qwen 2 they begin a new one."""
    assert pieces("qwen2", "हिन्दी") == ["ह", "िन", "्द", "ी"]
    assert pieces("qwen35", "हिन्दी") == pieces("gpt-4o", "हिन्दी") == ["हिन्दी"]


def test_line_ends_after_punctuation():
    assert pieces("qwen2", "{\n\nx") == ["{\n\n", "x"]
    assert pieces("seed-coder", "{\n\nx") == ["{", "\n\n", "x"]
    assert pieces("gpt-4o", "a/\n/x") == ["a", "/\n/", "x"]


@pytest.mark.parametrize("name", SPLITTINGS)
def test_nothing_is_lost(name):
    text = "a  b\n\t1234 é\u0301 日本語。 👩‍👩‍👧 \u2028 ǅ \x00"
    assert "".join(pieces(name, text)) == text
