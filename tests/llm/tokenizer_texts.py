"""Texts of all kinds for tokenizers, made from a seed."""

from __future__ import annotations

import random

SCRIPTS = {
    "latin": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "accents": "àéîõüçñßøåæœšžğışĐłŽÀÉÎÕÜÇÑØÅÆŒĲǅſ",
    "greek": "αβγδεζηθικλμνξοπρσςτυφχψωΑΒΓΔΩάέήίόύώ",
    "cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЁЙЩЯіїєґ",
    "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهويىءآأؤإئةپچژگ",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשתםןץףך",
    "devanagari": "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसहािीुूेैोौ्ं",
    "tamil": "அஆஇஈஉஊஎஏஐஒஓகஙசஞடணதநபமயரலவழளறனாிீுூெேைொோ்",
    "thai": "กขคงจฉชซญดตถทนบปผฝพฟมยรลวศสหอฮะาิีึืุูเแโใไ็่้๊๋",
    "han": "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后",
    "kana": "あいうえおかきくけこさしすせそたちつてとなにぬねのアイウエオカキクケコサシスセソンー々",
    "hangul": "가나다라마바사아자차카타파하한국어입니다안녕하세요",
    "digits": "0123456789",
    "other digits": "٠١٢٣٤٥٦٧٨٩०१२३४५६七八九十½¾²³ⅣⅫ①②",
    "punctuation": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "other punctuation": "。、，！？；：「」『』（）…—–‘’“”«»¿¡·•§¶†‡",
    "symbols": "€£¥©®™°±×÷≠≤≥∞∑∫√∂→←↑↓⇒■□▲●○★☆♠♥♦♣",
    "emoji": "😀😂🤣😍🙏👍🎉🔥💯🚀🌍🍕🐍👨👩👧🏽🏿🇩🇪🇯🇵",
    "combining": "\u0301\u0300\u0308\u0327\u0323\u0338\u20dd\ufe0f\u200d\u0e31\u093c\u05b8\u064e",
    "math letters": "𝐀𝐁𝐂𝒂𝒃𝔸𝔹𝕏ℵℝℂℕ",
    "rare": "𐍈𐎠𒀀𓀀𝄞𠮷𡃁ꙮᚠᛏ፠ᠠ",
}
"""Characters to draw from, by a name."""
SPACES = (
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    "\u00a0",
    "\u3000",
    "\u2003",
    "\u2028",
    "\x0b",
    "\x85",
)
CONTROLS = "\x00\x01\x1b\x7f\x80\x9f\ufeff\u200b\u200e\u202e\u2060\ufffc\ufffd\uffff\U000e0041"
WORDS = (
    "the The THE I'm it's We'LL don't you'Re they've he'd O'Neil camelCaseName snake_case_name HTTPServer x86_64 "
    "3.14159 1,000,000 2024-11-28 1e-5 0xFF user@example.com https://example.com/a/b?c=d&e=f#g C++ C# a/b a\\b <tag> "
    "</tag> <|im_start|> <|im_end|> <bos> <eos> <s> </s> <unk> <0x0A> [CLS] [MASK] ## ▁ ▁▁ Ġ Ċ straße naïve"
).split(" ")
CODE = (
    "def f(x):\n    return x ** 2\n",
    "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n\t}\n",
    '{"key": [1, 2.5, null], "other": "text"}\n',
    "SELECT * FROM t WHERE a >= 10 AND b != 'x';",
    "#!/bin/sh\nset -e\n\n\n# comment\necho \"$HOME\" | sed 's/a/b/g'\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
)


def text(random: random.Random) -> str:
    """One text: some parts, each a word of a script, a run of blanks, code, or something unusual."""
    parts: list[str] = []
    names = random.sample(sorted(SCRIPTS), k=random.randint(1, 4))
    for _ in range(random.randint(1, 14)):
        kind = random.random()
        if kind < 0.55:
            characters = SCRIPTS[random.choice(names)]
            parts.append("".join(random.choices(characters, k=random.randint(1, 8))))
        elif kind < 0.65:
            parts.append(random.choice(WORDS))
        elif kind < 0.68:
            parts.append(random.choice(CODE))
        elif kind < 0.72:
            parts.append(random.choice(CONTROLS))
        elif kind < 0.76:
            parts.append(random.choice((" ", "\n", "\t", "a", "=", "哈", "!")) * random.randint(2, 40))
        elif kind < 0.78:
            parts.append(
                "".join(
                    chr(random.choice((random.randrange(0xD800), random.randrange(0xE000, 0x110000)))) for _ in range(3)
                )
            )
        if random.random() < 0.7:
            parts.append(random.choice(SPACES))
    return "".join(parts)


def texts(seed: int, count: int) -> list[str]:
    """`count` texts, the first of them special cases."""
    source = random.Random(seed)
    fixed = [
        "",
        " ",
        "  ",
        "\n",
        " a",
        "a ",
        "  a  b  ",
        "\n\n\na",
        "é",
        "e\u0301",
        "👩‍👩‍👧‍👦",
        "a" * 300,
        " " * 70,
        "\x00",
    ]
    return [*fixed, *(text(source) for _ in range(count))][:count]
