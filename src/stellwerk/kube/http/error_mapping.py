"""What became of a call that failed, as the ApiError that fits.

Messages are made of a few steady words, so that the same failure reads the same at every repetition. A refusal of a
Secret may quote what is in it; then only names of fields are kept.
"""

from __future__ import annotations

import re
from http import HTTPStatus

import msgspec

from stellwerk.kube.http.messages import (
    AddressRefused,
    Answer,
    ClientCertificateRejected,
    NoAnswer,
    NotConnected,
    ServerCertificateInvalid,
)
from stellwerk.kube.types.errors import (
    AddressForbidden,
    LoginFailed,
    Status,
    StatusError,
    Unexplained,
    Unreachable,
    refusal,
)
from stellwerk.kube.types.model import UNREADABLE

NO_ANSWER = (NoAnswer, TimeoutError, ConnectionError)
"""What is raised when there is no answer."""

_MISTYPED = re.compile(r"failed to create typed patch object|unable to convert unstructured object")
_MISTYPED_FIELD = re.compile(r"\.((?:\[[^\]]*\]|[^\s:\[])+): (field not declared in schema|expected \w+)")
_UNKNOWN_FIELD = re.compile(r'unknown field "([\w.\[\]/-]+)"')
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
"""How OpenSSL names the answer of a server that speaks something else."""
_SECONDS = re.compile(r"[0-9]{1,9}")
_status = msgspec.json.Decoder(Status)


class _Kind(msgspec.Struct):
    kind: str = ""


_kind = msgspec.json.Decoder(_Kind)


def refused(answer: Answer, about: str, *, hides_values: bool) -> StatusError:
    """The server's no. `about` finishes the sentence "cannot ..."; `hides_values`: the answer may quote a Secret."""
    try:
        status, is_status = _status.decode(answer.body), _kind.decode(answer.body).kind == "Status"
    except UNREADABLE:
        status, is_status = Status(), False
    if not is_status:  # from a proxy or a web site: its words are none of the API server's, and may be anything
        status = Status(code=answer.code, reason=answer.reason, message=_unsigned(answer.code))
    if status.code != answer.code:  # the head is what proxies and we act on
        status = msgspec.structs.replace(status, code=answer.code)
    if status.code == 500 and _MISTYPED.search(status.message):
        # The API server takes a value of the wrong type for a fault of its own. It is the sender's, and stays one.
        status = msgspec.structs.replace(status, code=422, reason="Invalid")
    if hides_values and status.code in (400, 422):
        status = _without_values(status)
    if status.code == 422 and any(cause.field == "metadata.uid" for cause in status.details.causes):
        # A merge patch that names the uid has met another object of that name. To the API server it is an invalid
        # change, but the uid was a precondition, and one that does not hold is a conflict everywhere else.
        status = msgspec.structs.replace(status, code=409, reason="Conflict")
    if answer.code == HTTPStatus.NOT_FOUND and status.reason != "NotFound":
        return Unexplained(msgspec.structs.replace(status, message=_unsigned(answer.code)), about)
    return refusal(status, about, _seconds(answer.first("Retry-After")))


def _unsigned(code: int) -> str:
    """The message for an answer without a Status of Kubernetes. It does not quote the body."""
    phrase = f" ({HTTPStatus(code).phrase})" if code in set(HTTPStatus) else ""
    return f"a {code}{phrase} that is not an API server's"


def _seconds(retry_after: str) -> float | None:
    """The header as Kubernetes writes it. A date, which HTTP allows too, is ignored: no API server sends one."""
    return float(retry_after) if _SECONDS.fullmatch(retry_after) else None


def _without_values(status: Status) -> Status:
    """A refusal that names the wrong fields without their values."""
    fields = ", ".join(dict.fromkeys(cause.field for cause in status.details.causes if cause.field))
    unknown = ", ".join(dict.fromkeys(_UNKNOWN_FIELD.findall(status.message)))
    mistyped = ", ".join(dict.fromkeys(f".{path}: {why}" for path, why in _MISTYPED_FIELD.findall(status.message)))
    if mistyped:
        return msgspec.structs.replace(status, message=f"failed to create typed patch object: {mistyped}")
    what = f"see {fields}" if fields else f"unknown field {unknown}" if unknown else "see its content"
    causes = tuple(msgspec.structs.replace(cause, message="") for cause in status.details.causes)
    details = msgspec.structs.replace(status.details, causes=causes)
    return msgspec.structs.replace(status, message=f"the Secret is invalid: {what}", details=details)


def unreachable(error: BaseException, about: str, server: str) -> Unreachable | LoginFailed:
    """One of `NO_ANSWER` in our words. What never left us has no unknown outcome."""
    if isinstance(error, ClientCertificateRejected):
        return LoginFailed(f"cannot {about}: {server} does not accept our certificate: {error}")
    if isinstance(error, ServerCertificateInvalid):
        cause = str(error)
        if cause in _NO_TLS:
            return LoginFailed(f"cannot {about}: {server} does not speak TLS: its port may be one for plain HTTP")
        return LoginFailed(f"cannot {about}: {server} does not prove its identity: {cause}")
    kind, cause = AddressForbidden if isinstance(error, AddressRefused) else Unreachable, _cause(error)
    return kind(
        f"cannot {about}: {server} does not answer: {cause}",
        outcome_unknown=not isinstance(error, NotConnected),
        cause=cause,
    )


def _cause(error: BaseException) -> str:
    match error:
        case NoAnswer():
            return str(error)
        case TimeoutError():
            return "no answer in time"
        case _:
            return "the connection was cut"
