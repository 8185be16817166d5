"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".answer_parts": "FunctionCall ParsedAnswer parse_answer",
    ".constraints": "Constraint constraint_of",
    ".drafting": "Drafter",
    ".embedding_model": "EmbeddingModel",
    ".engine.drafters": "DraftModel PromptLookup",
    ".engine.engine": "Engine EngineStats",
    ".engine.generation": "Generation",
    ".engine.requests": "Completion EngineBusy Event Request Usage",
    ".language_model": "LanguageModel Stats",
    ".loading": "load load_embedding",
    ".quantizing": "QuantizedFile quantize",
    ".sampling": "Choice Sampler",
    ".speech.loading": "load_speech",
    ".speech.speech_model": "Segment SpeechModel Transcript",
    ".stops": "StopStream",
    ".tokenizer": "DecodeStream Tokenizer tokenizer_of",
}
