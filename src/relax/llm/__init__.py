"""Language models: from a checkpoint to an answer.

    m = relax.llm.load("model.gguf")                     or a folder of Hugging Face
    m.generate("The capital of France is", max_new_tokens=20)
    m.chat([{"role": "user", "content": "Name three rivers."}])

`models` has a file for each family; `layers` and `decoder` what they are made of. `load` compiles the family's program
for a checkpoint, `runner` runs it: sequences in a paged cache, and steps that turn their tokens into logits.
`language_model` makes text of that, with tokenizers, chat templates and sampling:

    tokenizer = relax.llm.tokenizer_of("model.gguf")     or a folder of Hugging Face
    ids = tokenizer.encode("Hello")
    token = relax.llm.Sampler(temperature=0.7, top_p=0.9, seed=1).sample(logits, ids)
    tokenizer.decode([token])

`quantize` writes a model as a GGUF file, with weights of few bits. `load_speech` loads a model that writes down what is
spoken (`speech`).

Tokenizers need the package ``tokenizers``, chat templates ``jinja2``: ``pip install relax[llm]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .answer_parts import FunctionCall, ParsedAnswer, parse_answer
    from .constraints import Constraint, constraint_of
    from .drafting import Drafter
    from .embedding_model import EmbeddingModel
    from .engine.drafters import DraftModel, PromptLookup
    from .engine.engine import Engine, EngineStats
    from .engine.generation import Generation
    from .engine.requests import Completion, EngineBusy, Event, Request, Usage
    from .language_model import LanguageModel, Stats
    from .loading import load, load_embedding
    from .quantizing import QuantizedFile, quantize
    from .sampling import Choice, Sampler
    from .speech.loading import load_speech
    from .speech.speech_model import Segment, SpeechModel, Transcript
    from .stops import StopStream
    from .tokenizer import DecodeStream, Tokenizer, tokenizer_of

__all__ = [
    "Choice", "Completion", "Constraint", "DecodeStream", "DraftModel", "Drafter", "EmbeddingModel", "Engine",
    "EngineBusy", "EngineStats", "Event", "FunctionCall", "Generation", "LanguageModel", "ParsedAnswer", "PromptLookup",
    "QuantizedFile", "Request", "Sampler", "Segment", "SpeechModel", "Stats", "StopStream", "Tokenizer", "Transcript",
    "Usage", "constraint_of", "load", "load_embedding", "load_speech", "parse_answer", "quantize", "tokenizer_of",
]  # fmt: skip

load_when_used(__name__, HOMES)
