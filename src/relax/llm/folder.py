"""Tokenizers in folders of Hugging Face: ``tokenizer.json``, or ``tokenizer.model`` of SentencePiece, with settings.

tokenizer_config.json      tokens with a role, chat template
special_tokens_map.json    tokens with a role
generation_config.json     ids that end an answer
config.json                likewise
chat_template.jinja, chat_template.json, additional_chat_templates/NAME.jinja     chat templates
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from ..frontend.tensor_files import BROKEN, PARTS, UNSUPPORTED, failure
from ..runtime.collection import rarely_collected
from . import sentencepiece_model
from .algorithms import assemble
from .packages import needed
from .pieces import SPACE, Convert, Pieces, byte_level, sentencepiece
from .vocabulary import END_OF_TURN, Vocabulary

JSON: Final = "tokenizer.json"
MODEL: Final = "tokenizer.model"
_NAMED: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


def vocabulary_of(folder: Path) -> Vocabulary:
    """Return the vocabulary of a folder.

    Raises DiagnosticError for a folder without one (E6013), for files that are not valid (E6011), or with a model or
    decoder that is not known (E6012), OSError for files that cannot be read, and ImportError without ``tokenizers``.
    """
    with rarely_collected():
        if (folder / JSON).exists():
            vocabulary = _of_json(folder / JSON)
        elif (folder / MODEL).exists():
            vocabulary = assemble(sentencepiece_model.raw_vocabulary(folder / MODEL))
        else:
            raise failure(PARTS, str(folder), "the folder has no tokenizer", f"expected {JSON} or {MODEL} in it")
        return _with_settings(vocabulary, folder)


def _of_json(path: Path) -> Vocabulary:
    """Read ``tokenizer.json``."""
    package = needed("tokenizers", "a tokenizer")
    try:
        core = package.Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # noqa: BLE001 (the package raises nothing more special)
        raise failure(BROKEN, str(path), f"the tokenizer cannot be read: {error}") from None
    core.no_truncation()
    core.no_padding()
    added: dict[int, Any] = core.get_added_tokens_decoder()
    ids: dict[str, int] = core.get_vocab(with_added_tokens=True)
    tokens: list[str | None] = [None] * (max([*ids.values(), *added], default=-1) + 1)
    for token, index in ids.items():
        tokens[index] = token
    for index, token in enumerate(tokens):  # ids of which the text has another id, too
        if token is None:
            tokens[index] = core.id_to_token(index)
    special = {index: token.content for index, token in added.items() if token.special}
    convert, prefix = _decoder(core, path)
    plain = frozenset(added if convert is byte_level else special)
    ends = frozenset(index for index, token in added.items() if token.content in END_OF_TURN)
    return Vocabulary(core, Pieces(tokens, convert, plain), special, None, None, ends, {}, {}, prefix)


def _state(component: Any) -> dict[str, Any]:
    """Settings of a part of a tokenizer, as ``tokenizer.json`` has them; {} for None."""
    return {} if component is None else json.loads(component.__getstate__())


def _steps(state: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Steps of a part, which is a sequence of some or a single one."""
    steps: list[dict[str, Any]] = state[key] if state.get("type") == "Sequence" else [state]
    return [step for step in steps if step]


def _decoder(core: Any, path: Path) -> tuple[Convert, str]:
    """Return how tokens become bytes, and where texts begin with a blank of their own ("", "start", "each")."""
    steps = _steps(_state(core.decoder), "decoders")
    kinds = {step["type"]: step for step in steps}
    if "ByteLevel" in kinds:
        return byte_level, ""
    if "WordPiece" in kinds:
        prefix: str = kinds["WordPiece"]["prefix"]
        return lambda token: (token[len(prefix) :] if token.startswith(prefix) else f" {token}").encode(), "each"
    if "BPEDecoder" in kinds:
        suffix: str = kinds["BPEDecoder"]["suffix"]
        return lambda token: token.replace(suffix, " ").encode(), ""
    if "Metaspace" in kinds:
        scheme, mark = kinds["Metaspace"]["prepend_scheme"], kinds["Metaspace"]["replacement"]
        return _spaced(mark, "ByteFallback" in kinds), {"never": "", "first": "start"}.get(scheme, "each")
    replaced = kinds.get("Replace", {})
    if replaced.get("content") == " " and kinds.keys() <= {"Replace", "ByteFallback", "Fuse", "Strip"}:
        mark = replaced["pattern"].get("String", SPACE)
        before = [step["type"] for step in _steps(_state(core.normalizer), "normalizers")]
        strips = kinds.get("Strip", {}).get("start", 0) > 0
        return _spaced(mark, "ByteFallback" in kinds), "" if not strips else "each" if "Prepend" in before else "start"
    found = " and ".join(step["type"] for step in steps) or "none"
    note = "expected ByteLevel, WordPiece, BPEDecoder, Metaspace, or Replace with ByteFallback"
    raise failure(UNSUPPORTED, str(path), f"the decoder of the tokenizer is not known: {found}", note)


def _spaced(mark: str, byte_fallback: bool) -> Convert:
    """Return the conversion of tokens in which `mark` stands for a blank."""
    if mark == SPACE and byte_fallback:
        return sentencepiece
    return lambda token: token.replace(mark, " ").encode()


def _with_settings(vocabulary: Vocabulary, folder: Path) -> Vocabulary:
    """Add the roles of tokens and the chat templates that the other files tell."""
    config = _read(folder / "tokenizer_config.json")
    settings = {name: value for name, value in config.items() if value is not None}
    tokens = {**_read(folder / "special_tokens_map.json"), **settings}
    named = {name: text for name in _NAMED if (text := _text(tokens.get(name))) is not None}
    core = vocabulary.core
    bos = _id(core, named.get("bos_token", named.get("cls_token")))
    eos = _id(core, named.get("eos_token", named.get("sep_token")))
    size = len(vocabulary.pieces)
    generation, model = _read(folder / "generation_config.json"), _read(folder / "config.json")
    ends = {index for values in (generation, model) for index in _numbers(values.get("eos_token_id")) if index < size}
    listed = {index for text in _texts(config.get("added_tokens_decoder")) if (index := _id(core, text)) is not None}
    bos = vocabulary.bos if bos is None else bos
    eos = vocabulary.eos if eos is None else eos
    ends |= vocabulary.ends | ({eos} if eos is not None else set())
    ends |= {index for index in listed if core.id_to_token(index) in END_OF_TURN}
    return dataclasses.replace(
        vocabulary, bos=bos, eos=eos, ends=frozenset(ends), named={**vocabulary.named, **named},
        chat_templates=_templates(folder, config),
    )  # fmt: skip


def _id(core: Any, text: str | None) -> int | None:
    return None if text is None else core.token_to_id(text)


def _read(path: Path) -> dict[str, Any]:
    """Read an object of JSON; {} if there is no file. Raises DiagnosticError for another content."""
    if not path.exists():
        return {}
    try:
        content: Any = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise failure(BROKEN, str(path), f"the file is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise failure(BROKEN, str(path), "the file has no settings", "expected an object of JSON")
    return cast("dict[str, Any]", content)


def _text(token: Any) -> str | None:
    """Text of a token, given as a string or as an object with its settings."""
    if isinstance(token, dict):
        token = cast("dict[str, Any]", token).get("content")
    return token if isinstance(token, str) else None


def _texts(tokens: Any) -> Iterable[str]:
    """Texts of the special tokens among ``added_tokens_decoder``."""
    if isinstance(tokens, dict):
        for token in cast("dict[str, Any]", tokens).values():
            if (text := _text(token)) is not None:
                yield text


def _numbers(value: Any) -> list[int]:
    """Ids of a setting, which is one, a list of them, or missing."""
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [index for index in values if isinstance(index, int) and index >= 0]


def _templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the chat templates by their names; a file of its own comes before settings."""
    templates: dict[str, str] = {}
    value = config.get("chat_template") or _read(folder / "chat_template.json").get("chat_template")
    if isinstance(value, str):
        templates["default"] = value
    for entry in cast("list[Any]", value) if isinstance(value, list) else []:
        if isinstance(entry, dict):
            named = cast("dict[str, Any]", entry)
            templates[str(named.get("name"))] = str(named.get("template"))
    for file in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        templates[file.stem] = file.read_text("utf-8")
    if (folder / "chat_template.jinja").exists():
        templates["default"] = (folder / "chat_template.jinja").read_text("utf-8")
    return templates
