"""Admission webhooks: a question from the API server in, a decision of ours out.

A decision is a plain function from an `Admission` to Allowed, Denied or Patched. It knows neither HTTP nor the
envelope, so it is tested by table, and the same function can judge an object before it is sent. Everything that can
go wrong on the way has its place:

- A user's mistake is a denial, which the user reads. That includes an object that is not of its kind's shape, where
  the write brings that: a stored one may be corrected, and get other labels or finalizers.
- A question that is none (not JSON, no AdmissionReview, a kind that no handler judges) is a 400: a user has
  registered us wrongly, or is not an API server.
- A bug of ours is a 500, and the webhook's failurePolicy decides about the write. Answering "denied" would block
  writes that the policy meant to let pass.

A review may carry an object twice, so a body may be larger here than elsewhere: 7 MiB, as in controller-runtime. An
answer takes at most 5 s; a webhook that is slower makes the whole API server slow.

The user who asks for a dry run decides how large an object is. So a large question is read in a thread, and
`Admission.judged` computes decisions there. Small ones, nearly all, are answered at once.
"""

from __future__ import annotations

import base64
import inspect
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Generic, Protocol, TypeAlias, TypeVar

import msgspec

from stellwerk.api.admission import AdmissionRequest, AdmissionResponse, AdmissionReview, UserInfo
from stellwerk.kube import threads
from stellwerk.kube.client.client import Target, view_of
from stellwerk.kube.client.patch import JsonPatch
from stellwerk.kube.types.errors import Status, StatusCause, StatusDetails
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.model import UNREADABLE, HasMetadata, JsonObject, View, decode_json, encode_json
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.serving.http import ListenAddress, Server, ServerLimits
from stellwerk.runtime.serving.http_messages import JSON, Request, Response, refusal
from stellwerk.runtime.serving.routes import Handler, Route
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics

T = TypeVar("T", bound=HasMetadata)
R = TypeVar("R")

LIMITS = ServerLimits(
    body_bytes=7 * 1024 * 1024, large_requests=16, arrival_seconds=5.0, answer_seconds=5.0, idle_seconds=100.0
)
"""An API server keeps an idle connection for 90 s. It has to close it before we do: a review that meets our close is
not sent again, and its write fails."""
LARGE_BYTES = 64 * 1024
"""Of a question, and of its objects. What is done with more is not done on the event loop."""
API_VERSION = "admission.k8s.io/v1"

_log = logging.getLogger(__name__)
_reviews = msgspec.json.Decoder(AdmissionReview)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The write may go on as it is. `warnings` are shown to the client, one line each."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """The write is refused. `message` is for people: what is wrong, and what would be right.

    `causes` name the fields. The code is 403, or 422 where a field is wrong.
    """

    message: str
    code: int = 403
    causes: tuple[StatusCause, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patched:
    """The write may go on with these changes; a mutating webhook may answer so."""

    patch: JsonPatch
    warnings: tuple[str, ...] = ()


Decision: TypeAlias = Allowed | Denied | Patched


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission(Generic[T]):
    """A write that waits for a decision. `new` is missing on a delete, `old` on a create.

    `old` is missing as well where an update corrects an object that was not of its kind's shape: it is judged as if it
    were created, and `corrected` has what must not change.
    """

    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    key: ObjectKey
    user: UserInfo
    subresource: str = ""
    dry_run: bool = False
    """Nothing will be stored: a decision that writes elsewhere must not."""
    new: T | None = None
    old: T | None = None
    corrected: JsonObject | None = None
    """The former object as it was stored; None where it can be read."""
    size: int = 0
    """Bytes of both objects as JSON."""

    async def judged(self, decide: Callable[[], R]) -> R:
        """What a pure decision about the objects is; computed in a thread where they are large.

        `decide` must not read caches: they change meanwhile.
        """
        return await threads.run_if_large(self.size, decide, large_bytes=LARGE_BYTES)


Decide: TypeAlias = Callable[[Admission[T]], "Decision | Awaitable[Decision]"]


class Malformed(ValueError):
    """What came is not a question that can be answered here."""


class Judge(Protocol):
    """What decides about one kind on one path; `Webhook` is one."""

    @property
    def path(self) -> str: ...
    @property
    def gvk(self) -> GroupVersionKind: ...
    async def answer(self, request: AdmissionRequest) -> AdmissionResponse:
        """The answer to a question about this kind."""
        ...


class Webhook(Generic[T]):
    """Decides about the objects of one kind. Several kinds may share a path.

    The message of each denial starts with `denial_prefix`, also where the object is not of its kind's shape.
    """

    def __init__(self, path: str, target: Target[T], decide: Decide[T], *, denial_prefix: str = "") -> None:
        self.path = path
        self._denial_prefix = denial_prefix
        self._view = view_of(target)
        self._decide = decide

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind that it decides about."""
        return self._view.resource.gvk

    async def answer(self, request: AdmissionRequest) -> AdmissionResponse:
        """Decide about one write. Whatever `decide` raises is a bug and passes."""
        decision = await self._decision(request)
        if isinstance(decision, Denied):
            decision = replace(decision, message=self._denial_prefix + decision.message)
        return response(request.uid, decision)

    async def _decision(self, request: AdmissionRequest) -> Decision:
        run = partial(threads.run_if_large, _size(request), large_bytes=LARGE_BYTES)
        try:
            admission = await run(partial(admission_of, self._view, request))
        except msgspec.DecodeError as error:
            keeps_content = await run(partial(_keeps_content, self._view, request))
            return Allowed() if keeps_content else _wrong_shape(self.gvk, error)
        decision = self._decide(admission)
        return await decision if inspect.isawaitable(decision) else decision


class WebhookCertificates(Protocol):
    """Where a server has its certificate from; `serving.ServingCertificates` is one."""

    @property
    def context(self) -> ssl.SSLContext:
        """TLS that always presents the newest certificate."""
        ...

    async def ensure(self) -> None:
        """Return when there is a certificate."""
        ...

    async def run(self) -> None:
        """Keep it fresh until cancelled."""
        ...


class AdmissionServer:
    """Serves webhooks over TLS; a manager's server."""

    def __init__(
        self,
        address: ListenAddress,
        webhooks: Sequence[Judge],
        certificates: WebhookCertificates,
        *,
        metrics: Metrics | None = None,
        limits: ServerLimits = LIMITS,
    ) -> None:
        self._certificates = certificates
        self._border = Border(metrics or Metrics(), SystemClock())
        self._server = Server(
            "webhook", address, routes(webhooks, metrics), tls=certificates.context, metrics=metrics, limits=limits
        )

    @property
    def port(self) -> int:
        """The port that is listened on. Raises RuntimeError before there is one."""
        return self._server.port

    def unready(self) -> str | None:
        """Why callers are not let in yet; None when they are. A readiness check of a manager."""
        return None if self._server.is_listening else "no certificate yet"

    async def run(self) -> None:
        """Wait for a certificate; then serve, and keep the certificate fresh, until cancelled. Raises CannotListen."""
        await self._certificates.ensure()
        await self._server.start()
        try:
            await self._border.keep("certificate", "certificate of webhook", self._certificates.run)
        finally:
            await self._server.stop()


def routes(webhooks: Sequence[Judge], metrics: Metrics | None = None) -> list[Route]:
    """One POST route for each path, which calls the handler of the kind. Raises ValueError where a kind has two."""
    places: dict[str, dict[tuple[str, str], Judge]] = {}
    for judge in webhooks:
        kinds = places.setdefault(judge.path, {})
        if (kind := (judge.gvk.group, judge.gvk.kind)) in kinds:
            raise ValueError(f"two webhooks judge {judge.gvk.kind} at {judge.path}")
        kinds[kind] = judge
    return [Route("POST", path, _endpoint(path, kinds, metrics)) for path, kinds in places.items()]


def _endpoint(path: str, judges: dict[tuple[str, str], Judge], metrics: Metrics | None) -> Handler:
    async def endpoint(request: Request) -> Response:
        began, code = perf_counter(), 500
        try:
            answered = await review(judges, request.body)
            code = 200
            return Response(200, answered, JSON)
        except Malformed as error:
            code = 400
            return refusal(code, f"admission error: {error}")
        finally:
            if metrics is not None:
                metrics.admitted(path, code, perf_counter() - began)

    return endpoint


async def review(judges: dict[tuple[str, str], Judge], body: bytes) -> bytes:
    """The AdmissionReview that answers an AdmissionReview, both as JSON. Raises Malformed."""
    request = await threads.run_if_large(len(body), partial(question, body), large_bytes=LARGE_BYTES)
    judge = judges.get((request.kind.group, request.kind.kind))
    if judge is None:
        raise Malformed(f"no webhook here validates kind {request.kind.kind!r} of group {request.kind.group!r}")
    return encode_json(AdmissionReview(response=await judge.answer(request)))


def question(body: bytes) -> AdmissionRequest:
    """The request inside an AdmissionReview. Raises Malformed."""
    try:
        envelope = _reviews.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(f"the body is not an AdmissionReview: {error}") from error
    if (envelope.api_version, envelope.kind) != (API_VERSION, "AdmissionReview"):
        raise Malformed(f"the body is {envelope.api_version} {envelope.kind}; expected {API_VERSION} AdmissionReview")
    if envelope.request is msgspec.UNSET or not envelope.request.uid:
        raise Malformed("the AdmissionReview has no request, or its request has no uid")
    return envelope.request


def admission_of(view: View[T], request: AdmissionRequest) -> Admission[T]:
    """The request with its objects read.

    Raises msgspec.DecodeError where the new object, or that of a deletion, is not of the view's shape.
    """
    new, old, corrected = _read(view, request.object), None, None
    try:
        old = _read(view, request.old_object)
    except msgspec.DecodeError:
        if new is None:
            raise
        corrected = _json(bytes(request.old_object)) or {}
    return Admission(
        operation=request.operation,
        key=ObjectKey(request.namespace, request.name),
        user=request.user_info,
        subresource=request.sub_resource,
        dry_run=request.dry_run,
        new=new,
        old=old,
        corrected=corrected,
        size=_size(request),
    )


def response(uid: str, decision: Decision) -> AdmissionResponse:
    """The decision as the API server reads it (pure)."""
    warnings = decision.warnings or msgspec.UNSET
    match decision:
        case Allowed():
            return AdmissionResponse(uid=uid, allowed=True, warnings=warnings)
        case Patched(patch):
            encoded = base64.b64encode(encode_json(patch.operations)).decode()
            return AdmissionResponse(uid=uid, allowed=True, patch=encoded, patch_type="JSONPatch", warnings=warnings)
        case Denied():
            return AdmissionResponse(uid=uid, allowed=False, status=_status(decision), warnings=warnings)


def _status(denied: Denied) -> Status:
    reason = {403: "Forbidden", 422: "Invalid"}.get(denied.code, "")
    details = StatusDetails(causes=denied.causes)
    return Status(message=denied.message, reason=reason, code=denied.code, details=details)


def _size(request: AdmissionRequest) -> int:
    return memoryview(request.object).nbytes + memoryview(request.old_object).nbytes


def _read(view: View[T], raw: msgspec.Raw) -> T | None:
    data = bytes(raw)
    try:
        return None if data in (b"", b"null") else view.decode(data)
    except (RecursionError, UnicodeDecodeError) as error:  # msgspec lets both through
        said = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not UTF-8"
        raise msgspec.DecodeError(said) from None


def _keeps_content(view: View[T], request: AdmissionRequest) -> bool:
    """Whether an update of an object that is not of the view's shape changes only metadata, or the status."""
    try:
        _read(view, request.old_object)
    except msgspec.DecodeError:
        new, old = (_content(bytes(raw)) for raw in (request.object, request.old_object))
        return new is not None and new == old
    return False


def _content(data: bytes) -> bytes | None:
    """As text: for Python, 1 and true are equal."""
    body = _json(data)
    if body is None:
        return None
    content = {field: value for field, value in body.items() if field not in ("metadata", "status")}
    return msgspec.json.encode(content, order="deterministic")


def _json(data: bytes) -> JsonObject | None:
    try:
        return decode_json(data)
    except UNREADABLE:
        return None


def _wrong_shape(gvk: GroupVersionKind, error: msgspec.DecodeError) -> Denied:
    said, _, place = str(error).partition(" - at `$.")
    field = place.rstrip("`")
    where = f"field {field}: " if field else ""
    return Denied(
        f"this is not a valid {gvk.kind}: {where}{said}",
        code=422,
        causes=(StatusCause(reason="FieldValueInvalid", message=said, field=field),) if field else (),
    )
