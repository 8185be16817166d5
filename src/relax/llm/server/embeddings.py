"""Embeddings: vectors of texts by the server's second model."""

from __future__ import annotations

import base64
from typing import Any, Final

import numpy as np

from ...runtime.records import dataclass
from .body import Body, kind_of, shown
from .errors import CONTEXT, RequestError, invalid
from .parameters import IGNORED
from .service import Service

MOST_TEXTS: Final = 2048


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Request for embeddings, read and checked."""

    texts: list[str]
    tokens: int
    is_binary: bool
    """True if vectors are sent as base64 of little-endian float32 numbers."""
    dimensions: int | None


def embedding_request(service: Service, body: Body) -> EmbeddingRequest:
    """Read the body of a request for embeddings. Raises RequestError, 404 for a model that embeds no texts."""
    model = service.embedding
    if model is None:
        message = "The server has no model of embeddings: relax serve --embedding FOLDER"
        raise RequestError(message, status=404, param="model", code="model_not_found")
    name = body.text("model")
    if name not in (None, service.embedding_name):
        message = f"The model {shown(name)} embeds no texts; there is {service.embedding_name!r}"
        raise RequestError(message, status=404, param="model", code="model_not_found")
    value = body.needed("input")
    texts: list[Any] = [value] if isinstance(value, str) else body.items("input", MOST_TEXTS) or []
    if not texts:
        raise invalid("input", "an empty array", "empty_array")
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    if wrong is not None:
        hint = "tokens of another model's vocabulary mean nothing to this one"
        raise invalid("input", f"{kind_of(wrong)}, expected a string or an array of strings; {hint}", "invalid_type")
    if not all(texts):
        raise invalid("input", "an empty string", "invalid_value")
    form = body.choice("encoding_format", ("float", "base64"))
    dimensions = body.integer("dimensions", 1, 1 << 20)
    body.finish(IGNORED)
    lengths = [len(model.tokenizer.encode(text)) for text in texts]
    if max(lengths) > model.longest:
        message = f"This model's maximum context length is {model.longest} tokens. However, your input has"
        raise RequestError(f"{message} {max(lengths)} tokens.", param="input", code=CONTEXT)
    return EmbeddingRequest(texts, sum(lengths), form == "base64", dimensions)


def embedding_object(service: Service, request: EmbeddingRequest, vectors: Any) -> dict[str, Any]:
    """Return the object of some vectors (texts, hidden). Raises RequestError for vectors of another size."""
    hidden = vectors.shape[1]
    if request.dimensions not in (None, hidden):
        raise invalid("dimensions", f"{request.dimensions}, and vectors have {hidden}", "unsupported_parameter")
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(vector, request.is_binary)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": request.tokens, "total_tokens": request.tokens}
    return {"object": "list", "data": data, "model": service.embedding_name, "usage": usage}


def _vector(vector: Any, is_binary: bool) -> Any:
    if is_binary:
        return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode("ascii")
    return vector.tolist()


__all__ = ["EmbeddingRequest", "embedding_object", "embedding_request"]
