"""What can go wrong between us and an API server.

    ApiError                      the tree's root; `str()` is a sentence for people
    ├── Unreachable               no answer: refused, cut, TLS, timeout; a write may or may not have happened
    │   └── AddressForbidden      the server's address may not be called from here: another try ends in the same way
    ├── LoginFailed               no usable credentials: kubeconfig, exec plugin, token file
    ├── Undecodable               an answer that is not what the API promises
    │   ├── UnreadableObject      one object that is not what its kind promises
    │   └── AnswerTooLarge        an answer, or a list of many, that is larger than we read
    ├── InvalidName               a name that cannot be part of a URL; nothing was sent
    ├── NotServed                 the server knows no such kind (CRD absent)
    ├── Undiscovered              the server does not know at present whether it serves the kind
    └── StatusError               the server refused; keeps its Status object
        ├── BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405
        ├── Conflict 409     (AlreadyExists 409, Outdated)  Busy 409  Gone 410        TooLarge 413    Invalid 422
        └── TooManyRequests 429   ServerFault 5xx (ServerTimeout 504, and a 404 that proves nothing: Unexplained)

Model: httpx's exception tree; `StatusError` keeps metav1.Status as client-go does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from stellwerk.kube.types.object_meta import Record
from stellwerk.kube.types.text_forms import translated


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
    """metav1.Status: the refusal of an API server."""

    status: str = "Failure"
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = msgspec.field(default_factory=StatusDetails)


class ApiError(Exception):
    """Anything that went wrong while speaking to an API server."""


class Unreachable(ApiError):
    """No answer came. `outcome_unknown`: the request may have arrived, so a write may or may not have taken place.

    `cause`: what became of the connection, without the request and the server that the message names.
    """

    def __init__(self, message: str, *, outcome_unknown: bool = True, cause: str = "") -> None:
        self.outcome_unknown = outcome_unknown
        self.cause = cause
        super().__init__(message)


class AddressForbidden(Unreachable):
    """The server's address may not be called from here. Another try ends in the same way."""


class LoginFailed(ApiError):
    """There are no usable credentials."""


class Undecodable(ApiError):
    """The answer is not what the API promises: a proxy's page, a cut body, a wrong type."""


class UnreadableObject(Undecodable):
    """The object exists, and its content is not what its kind promises. `why` names the field and the cause."""

    def __init__(self, attempted: str, why: str) -> None:
        self.why = why
        super().__init__(f"cannot {attempted}: object cannot be read: {why}")


class AnswerTooLarge(Undecodable):
    """The answer, or the list that many answers make, is larger than we read from this server."""


class InvalidName(ApiError):
    """A name or namespace cannot be part of a URL path; nothing was sent."""


class NotServed(ApiError):
    """The API server serves no such kind; mostly its CustomResourceDefinition is absent."""


class Undiscovered(ApiError):
    """The API server does not know whether it serves the kind: an API service behind it does not answer.

    Nothing follows about objects of the kind. It is never raised for kinds of definitions (CRDs) and of Kubernetes.
    """


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on; each once, also where they lead back to one another."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


class StatusError(ApiError):
    """The server refused. `status` is its answer; `attempted` names the request, for messages."""

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


class NotFound(StatusError):
    """The API server has no object of this name; `status.details.name` is that name."""


class MethodNotAllowed(StatusError): ...


class Conflict(StatusError):
    """Another client changed the object, or a precondition did not hold."""


class AlreadyExists(Conflict): ...


class Outdated(Conflict):
    """The object is not as the caller saw it, who must not write without looking again."""


class Busy(StatusError):
    """The server refused with a conflict although nothing has changed, or after change upon change by other clients.

    Nothing was written, and nothing follows about the object: it is an outage like `TooManyRequests`.
    """


class Gone(StatusError):
    """The resourceVersion or continue token is too old; list again."""


class TooLarge(StatusError): ...


class Invalid(StatusError):
    """The object breaks its schema or a validation rule; `status.details.causes` names the fields."""


class TooManyRequests(StatusError): ...


class ServerFault(StatusError):
    """The server failed. A write may have taken place: at this attempt, or at a repetition that got no answer."""


class ServerTimeout(ServerFault): ...


class Unexplained(ServerFault):
    """A 404 that no API server explains: a proxy or load balancer in between has no way to it.

    It is no evidence of absence, so it is not NotFound, and whatever was about to be concluded has to wait.
    """


REFUSED = (BadRequest, Forbidden, Invalid)
"""What the API server answers to a write whose content, or whose author, it does not accept."""

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


LONGEST_MESSAGE = 8 << 10
"""Characters kept of the message of a refusal. It ends up in logs and conditions, and a server may answer anything."""
_LONGEST_WORD = 300
_MOST_CAUSES = 1_000
LONGEST_WAIT_SECONDS = 3_600.0
"""Where a server asks for a longer wait, we ask again after this one."""


def refusal(status: Status, attempted: str = "", retry_after: float | None = None) -> StatusError:
    """The error class that fits a Status. Its message has sentences in the place of regular expressions."""
    fallback = ServerFault if status.code >= 500 else StatusError
    kind = AlreadyExists if status.reason == "AlreadyExists" else _BY_CODE.get(status.code, fallback)
    wait = retry_after or status.details.retry_after_seconds or None
    return kind(
        _bounded(status), attempted, None if wait is None or wait < 0 else float(min(wait, LONGEST_WAIT_SECONDS))
    )


def _bounded(status: Status) -> Status:
    causes = tuple(
        StatusCause(reason=cause.reason[:_LONGEST_WORD], message=_cut(cause.message), field=cause.field[:_LONGEST_WORD])
        for cause in status.details.causes[:_MOST_CAUSES]
    )
    details = msgspec.structs.replace(status.details, causes=causes)
    return msgspec.structs.replace(
        status, message=_cut(status.message), reason=status.reason[:_LONGEST_WORD], details=details
    )


def _cut(message: str) -> str:
    return translated(message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}...")


_WEBHOOK_DOWN = re.compile(r'failed calling webhook "([^"]+)"')
_USER = re.compile(r'\b[Uu]ser "([^"\s]+)"')
_BY_ADMISSION = re.compile(r'" is forbidden: (?![Uu]ser "|cannot set blockOwnerDeletion)')
"""After the object's name. Where a right is missing, the user follows there, or what it may not set."""


def user_in(error: StatusError) -> str:
    """`user NAME`, as the API server names the identity that it refused; empty where it names none."""
    match = _USER.search(error.status.message)
    return f"user {match.group(1)}" if match else ""


def silent_webhook(error: StatusError) -> str:
    """The admission webhook that the API server could not call; empty where the error is about none."""
    match = _WEBHOOK_DOWN.search(error.status.message)
    return match.group(1) if match else ""


def is_refused_by_admission(error: StatusError) -> bool:
    """Whether an admission plugin or policy refused the object (PodSecurity, for example), so that no right helps."""
    return _BY_ADMISSION.search(error.status.message) is not None
