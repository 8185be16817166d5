"""Pre-tokenizers of byte-level BPE, by the names that GGUF files give them in ``tokenizer.ggml.pre``.

Merges never cross the borders of the pieces into which a pre-tokenizer splits a text, so that another pre-tokenizer
makes other tokens of the same vocabulary. Each is a sequence of regular expressions in the syntax of Oniguruma: every
match, and every rest between matches, is a piece, which the next expression splits further.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..runtime.records import dataclass

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
"""Runs of white space; the last blank before a word belongs to the word."""
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_WORDS: Final = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
"""Words, split before a capital letter that follows a small one."""
_CONTRACTED_WORDS: Final = "|".join(f"{word}{_CONTRACTIONS}?" for word in _WORDS.split("|"))
_PUNCTUATION: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_PATHS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"

GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3: Final = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_PUNCTUATION}|{_REST}"
QWEN2: Final = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_PUNCTUATION}|{_REST}"
QWEN35: Final = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_REST}"
)
SEED_CODER: Final = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_REST}"
GPT4O: Final = rf"{_CONTRACTED_WORDS}|\p{{N}}{{1,3}}|{_PATHS}|{_REST}"
TEKKEN: Final = rf"{_WORDS}|\p{{N}}|{_PATHS}|{_REST}"
_ASCII_PUNCTUATION: Final = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
DEEPSEEK3: Final = (
    rf"{_ASCII_PUNCTUATION}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_REST}"
)
_CASED: Final = (
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c 38e-3a1 "
    "3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a "
    "1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 "
    "1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 "
    "212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d "
    "a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f "
    "104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)
"""Letters of scripts with capital and small letters, as ranges of code points, as DeepSeek's tokenizer lists them."""
_CASED_LETTERS: Final = re.sub(r"[0-9a-f]+", r"\\x{\g<0>}", _CASED).replace(" ", "")
_CJK: Final = r"[\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+"
_WIDE_PUNCTUATION: Final = r"\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+"
_KANA_AND_HAN: Final = r"[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+"


@dataclass(frozen=True, slots=True)
class Splitting:
    """Pre-tokenizer: its expressions, and defaults of the models that use it.

    `whole_words`: a piece that is a token is not put together by merges. `add_bos`: texts begin with the token "bos"
    unless the file says otherwise.
    """

    expressions: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


def _named(names: str, splitting: Splitting) -> dict[str, Splitting]:
    """Return a pre-tokenizer under each of some names, separated by blanks."""
    return dict.fromkeys(names.split(), splitting)


_QWEN2_NAMES: Final = (
    "qwen2 stablelm2 hunyuan megrez deepseek-r1-qwen kormo f2llmv2 bailingmoe bailingmoe2 llada-moe grok-2 solar-open "
    "ufakzeka"
)
_BLOOM: Final = r" ?[^(\s|.,!?…。，、।۔،)]+"
_THOUSANDS: Final = r"[0-9][0-9][0-9]"

SPLITTINGS: Final[Mapping[str, Splitting]] = {
    "default": Splitting((r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", _THOUSANDS)),
    "falcon": Splitting((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, _THOUSANDS)),
    **_named("gpt-2 phi-2 olmo mpt jais trillion gigachat exaone4 mellum a.x-4.0 granite-docling", Splitting((GPT2,))),
    **_named(
        "roberta-bpe modern-bert jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code", Splitting((GPT2,))
    ),
    **_named("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", Splitting((r"\p{N}", GPT2))),
    **_named(
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        Splitting((LLAMA3,), whole_words=True, add_bos=True),
    ),
    **_named("glm4 glm5", Splitting((LLAMA3,), whole_words=True)),
    **_named("dbrx smaug-bpe chatglm-bpe", Splitting((LLAMA3,))),
    **_named(_QWEN2_NAMES, Splitting((QWEN2,))),
    "qwen35": Splitting((QWEN35,)),
    "seed-coder": Splitting((SEED_CODER,)),
    **_named("gpt-4o llama4 kanana2 talkie minimax-m2", Splitting((GPT4O,))),
    "granite-embed-multi-97m": Splitting((GPT4O,), whole_words=True),
    "tekken": Splitting((TEKKEN,), whole_words=True, add_bos=True),
    "deepseek-llm": Splitting((r"[\r\n]", rf"\s?[{_CASED_LETTERS}]+", _WIDE_PUNCTUATION, r"\s+$", _CJK, r"\p{N}+")),
    "deepseek-coder": Splitting((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
    **_named("deepseek-v3 hunyuan-dense joyai-llm", Splitting((r"\p{N}{1,3}", _KANA_AND_HAN, DEEPSEEK3))),
    **_named("bloom poro-chat gpt3-finnish", Splitting((_BLOOM,))),
    "viking": Splitting((_BLOOM, r"\p{N}")),
}
"""Pre-tokenizers by their names in files."""
