"""Refusals of requests, as the objects that OpenAI's interface defines: `RequestError`.

{"error": {"message": "…", "type": "invalid_request_error", "param": "temperature", "code": null}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, final

INVALID: Final = "invalid_request_error"
"""Type of an error that the request causes."""
CONTEXT: Final = "context_length_exceeded"
"""Code of an error for a prompt that is longer than the context."""


@final
class RequestError(Exception):
    """Refusal of a request: an HTTP status, and the fields of the error object."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = INVALID, param: str | None = None,
        code: str | None = None, retry_after: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message, self.status, self.kind, self.param, self.code = message, status, kind, param, code
        self.retry_after = retry_after
        """Seconds after which the client may try again, for the header Retry-After."""

    def body(self) -> dict[str, Any]:
        """Return the error object."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def headers(self) -> Mapping[str, str]:
        """Return the headers of the response."""
        if self.retry_after is not None:
            return {"retry-after": str(max(1, math.ceil(min(self.retry_after, 3600.0))))}
        return {"www-authenticate": "Bearer"} if self.status == 401 else {}


def invalid(param: str | None, message: str, code: str | None = None) -> RequestError:
    """Return the refusal, with status 400, of the value of a field."""
    return RequestError(message if param is None else f"{param}: {message}", param=param, code=code)


__all__ = ["CONTEXT", "INVALID", "RequestError", "invalid"]
