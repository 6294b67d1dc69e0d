"""What can go wrong between us and an API server.

    ApiError                      the tree's root; `str()` is a sentence for people
    ├── Unreachable               no answer: refused, cut, TLS, timeout; a write may or may not have happened
    ├── LoginFailed               no usable credentials: kubeconfig, exec plugin, token file
    ├── Undecodable               an answer that is not what the API promises
    ├── NotServed                 the server knows no such kind (CRD absent)
    └── StatusError               the server said no; keeps its Status object
        ├── BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405
        ├── Conflict 409     (AlreadyExists 409)  Gone 410        TooLarge 413    Invalid 422
        └── TooManyRequests 429   ServerFault 5xx (ServerTimeout 504)

Model: httpx's exception tree; `StatusError` keeps metav1.Status as client-go does.
"""

from __future__ import annotations

import msgspec

from stellwerk.kube.meta import Record


class StatusCause(Record, frozen=True, kw_only=True):
    """One reason behind a refusal, with the field it is about."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Record, frozen=True, kw_only=True):
    """What the refusal is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Record, frozen=True, kw_only=True):
    """metav1.Status: how an API server says no."""

    status: str = "Failure"
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = msgspec.field(default_factory=StatusDetails)


class ApiError(Exception):
    """Anything that went wrong while speaking to an API server."""


class Unreachable(ApiError):
    """No answer came. `outcome_unknown`: the request may have arrived, so a write may or may not have taken place."""

    def __init__(self, message: str, *, outcome_unknown: bool = True) -> None:
        self.outcome_unknown = outcome_unknown
        super().__init__(message)


class LoginFailed(ApiError):
    """There are no usable credentials."""


class Undecodable(ApiError):
    """The answer is not what the API promises: a proxy's page, a cut body, a wrong type."""


class NotServed(ApiError):
    """The API server serves no such kind; mostly its CustomResourceDefinition is absent."""


class StatusError(ApiError):
    """The server refused. `status` is its own word; `attempted` says what was asked, for people."""

    def __init__(self, status: Status, attempted: str = "", retry_after: float | None = None) -> None:
        self.status = status
        self.attempted = attempted
        self.retry_after = retry_after
        """Seconds the server asked us to wait, from the Retry-After header or the Status details."""
        said = status.message or status.reason or f"HTTP {status.code}"
        super().__init__(f"cannot {attempted}: {said}" if attempted else said)

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code


class BadRequest(StatusError): ...


class Unauthorized(StatusError): ...


class Forbidden(StatusError): ...


class NotFound(StatusError): ...


class MethodNotAllowed(StatusError): ...


class Conflict(StatusError):
    """Somebody else changed the object, or a precondition did not hold."""


class AlreadyExists(Conflict): ...


class Gone(StatusError):
    """The resourceVersion or continue token is too old; list again."""


class TooLarge(StatusError): ...


class Invalid(StatusError):
    """The object breaks its schema or a validation rule; `status.details.causes` names the fields."""


class TooManyRequests(StatusError): ...


class ServerFault(StatusError): ...


class ServerTimeout(ServerFault): ...


_BY_CODE: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
    504: ServerTimeout,
}


def refusal(status: Status, attempted: str = "", retry_after: float | None = None) -> StatusError:
    """The error class that fits a Status."""
    fallback = ServerFault if status.code >= 500 else StatusError
    kind = AlreadyExists if status.reason == "AlreadyExists" else _BY_CODE.get(status.code, fallback)
    return kind(status, attempted, retry_after or status.details.retry_after_seconds or None)
