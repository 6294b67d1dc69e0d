"""Where remote clusters report that something has changed in them.

A report names its sender, by a certificate. Nothing else of it counts: the Kyma of that runtime is looked at, as it
would be later in any case. So a report that is lost costs time, and a report that is false costs one pass.

The gateway verifies the sender's certificate and hands it on in a header. Each client that reaches the port
can write that header, so its certificate is verified again, by the authorities in the Secret of the Gateway. That
refuses clients without a certificate. A client that has seen one of a runtime, which is no secret, can still report for
it; TLS of our own (`--listener-tls-folder`) refuses it, too.

Reports of one runtime have its Kyma looked at so often in a second at most. Further ones are taken and count together,
later: an answer that refuses them would have the sender repeat them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from cryptography import x509
from cryptography.x509.oid import NameOID
from prometheus_client import Counter, Gauge, Histogram

from stellwerk.api.core import Secret
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import UNREADABLE, JsonValue, decode_json
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.settings import ClientAuthority, Settings
from stellwerk.runtime import conditions
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.certificates import certs, client_certificates
from stellwerk.runtime.certificates.client_certificates import CertificateRefused
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.serving.http import ListenAddress, Server, ServerLimits
from stellwerk.runtime.serving.http_messages import Request, Response, closing, refusal
from stellwerk.runtime.serving.rate_limit import RateLimit
from stellwerk.runtime.serving.routes import Route
from stellwerk.runtime.serving.tls import Certified, MountedCertificates
from stellwerk.runtime.telemetry.metrics import Metrics

PATH = f"/v2/{labels.OPERATOR_NAME}/event"
NAME = "listener"
HEADER = "X-Forwarded-Client-Cert"
LIMITS = ServerLimits(body_bytes=16_384)
RUNTIME = "runtime"
"""The index of Kymas by the id of their runtime."""
AT_ONCE_SECONDS = 5
"""The wakes of a runtime at once, in seconds of its rate: a user applies a folder of objects."""
MOST_AUTHORITIES = 32
_LONGEST_SHOWN = 253

_PAIR = re.compile(r"\s*([A-Za-z]+)=(\"(?:[^\"\\]|\\.)*\"|[^\",;\\]*)\s*([,;]|$)")
"""One property of a certificate in the header: a `;` separates those of one, and a `,` those of the next."""
_FIELDS = {"watched": ("namespace", "name"), "watchedgvk": ("group", "version", "kind")}

Identify = Callable[[Request], x509.Certificate]
"""The certificate of the sender. Raises CertificateRefused."""

_log = logging.getLogger(__name__)


class Refused(Exception):
    """A report is not taken."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ListenerMetrics:
    """What the listener counts, under the names of the original."""

    def __init__(self, metrics: Metrics) -> None:
        prefix, server = "watcher_listener_", ("server_name",)
        self._seconds = Histogram(
            f"{prefix}request_duration", "How long reports took, in seconds", server, registry=None
        )
        self._requests = Counter(f"{prefix}requests", "Requests that were answered", server, registry=None)
        self._errors = Counter(f"{prefix}request_errors", "Requests that were refused", server, registry=None)
        self._running = Gauge(f"{prefix}inflight_requests", "Reports that are being answered", server, registry=None)
        self._too_large = Counter(
            f"{prefix}exceeding_size_limit_requests", "Requests whose body was too large", server, registry=None
        )
        self._unverified = Counter(
            f"{prefix}failed_verification_requests",
            "Reports of senders that are not known",
            (*server, "request_uri_label"),
            registry=None,
        )
        plain = (self._seconds, self._requests, self._errors, self._running, self._too_large)
        for collector in plain:
            collector.labels(NAME)
            metrics.register(collector)
        self._unverified.labels(NAME, PATH)
        metrics.register(self._unverified)

    def began(self) -> Callable[[], None]:
        """A report is being answered. What is returned is called when it is."""
        running, began = self._running.labels(NAME), perf_counter()
        running.inc()

        def ended() -> None:
            running.dec()
            self._seconds.labels(NAME).observe(perf_counter() - began)

        return ended

    def answered(self, status: int) -> None:
        """A request was answered, by a handler or before it came to one."""
        self._requests.labels(NAME).inc()
        if status >= 400:
            self._errors.labels(NAME).inc()
        if status == 413:
            self._too_large.labels(NAME).inc()

    def unverified(self) -> None:
        """It is not known who has sent a report."""
        self._unverified.labels(NAME, PATH).inc()


# ---- who reports


def by_tls(request: Request) -> x509.Certificate:
    """The certificate that our own TLS has verified."""
    try:
        return x509.load_der_x509_certificate(request.certificate)
    except ValueError:
        raise CertificateRefused("the client certificate cannot be read") from None


def by_header(request: Request) -> x509.Certificate:
    """The certificate that the header has, believed as it is."""
    return client_certificates.unverified(forwarded_certificate(request.headers.all(HEADER)))


@dataclass(slots=True)
class GatewayAuthorities:
    """The authorities of the Gateway, by which the certificate of the header is verified again."""

    secrets: Store[Secret]
    key: ObjectKey
    clock: Clock
    _version: str = ""
    _found: Sequence[bytes] = ()

    def verified(self, request: Request) -> x509.Certificate:
        """As `Identify`."""
        header = forwarded_certificate(request.headers.all(HEADER))
        if not (authorities := self.current()):
            raise CertificateRefused(
                f"key ca.crt of Secret {self.key} has no certificate of an authority: kubectl get secret "
                f"{self.key.name} -n {self.key.namespace}; --listener-client-authority=none takes all reports"
            )
        return client_certificates.verified(header, authorities, self.clock.now())

    def current(self) -> Sequence[bytes]:
        """The authorities as the Secret has them now, each as PEM."""
        secret = self.secrets.get(self.key)
        if secret is None:
            return ()
        if secret.metadata.resource_version != self._version:
            try:
                bundle = secret.text("ca.crt") or ""
            except ValueError:
                bundle = ""
            self._version = secret.metadata.resource_version
            self._found = certs.split(bundle.encode())[:MOST_AUTHORITIES]
        return self._found


def forwarded_certificate(headers: Sequence[str]) -> str:
    """The one certificate that proxies have put into the header, with URL escapes. Raises CertificateRefused.

    A proxy adds what it knows of its own client, which has no certificate with a sidecar. Of two certificates the
    second is not known to be the gateway's, nor the first.
    """
    text, place, found = ",".join(headers), 0, list[str]()
    while place < len(text):
        pair = _PAIR.match(text, place)
        if pair is None:
            raise CertificateRefused(f"header {HEADER} cannot be read")
        if pair[1].lower() == "cert":
            found.append(pair[2].strip('"'))
        place = pair.end()
    if len(found) != 1:
        raise CertificateRefused(f"header {HEADER} has {len(found) or 'no'} certificates, and one is expected")
    return found[0]


def runtime_of(certificate: x509.Certificate) -> str:
    """The id of the runtime that has the certificate. Empty if it has no common name, or several."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def runtime_id_of(kyma: Kyma) -> Iterable[str]:
    """An index: by which runtime a Kyma is found."""
    runtime = kyma.metadata.labels.get(labels.RUNTIME_ID_LABEL, "")
    return (runtime,) if runtime else ()


# ---- what is reported


def described(body: bytes) -> str:
    """What has changed, for the log. Raises ValueError if it is no report.

    Names of fields count in any case: those of the original's senders begin with a capital letter.
    """
    try:
        report = {} if body.strip() == b"null" else _lower_case(decode_json(body))
    except UNREADABLE:
        raise ValueError("the body is no JSON object") from None
    words = list[str]()
    for field, names in _FIELDS.items():
        part = report.get(field) or {}
        if not isinstance(part, dict):
            raise ValueError(f"field {field} of the body is no object")
        values = _lower_case(part)
        for name in names:
            value = values.get(name)
            if not isinstance(value, str | None):
                raise ValueError(f"field {field}.{name} of the body is no text")
            words.append(value or "")
    namespace, name, group, _, kind = words
    return conditions.truncated(f"{kind}.{group} {namespace}/{name}", _LONGEST_SHOWN)


def _lower_case(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name.lower(): value for name, value in fields.items()}


# ---- the listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Takes reports, and has the Kyma of their sender looked at."""

    kymas: Store[Kyma]
    identify: Identify
    wake: Callable[[ObjectKey, float], None]
    """Have the Kyma under a key looked at, after so many seconds."""
    leads: Callable[[], bool]
    """Whether Kymas are looked at by this process."""
    limit: RateLimit
    counts: ListenerMetrics

    def __post_init__(self) -> None:
        self.kymas.add_index(RUNTIME, runtime_id_of)

    async def answer(self, request: Request) -> Response:
        """The answer to a report."""
        ended = self.counts.began()
        try:
            self._take(request)
            return Response()
        except Refused as error:
            response = refusal(error.status, str(error))
            return closing(response) if error.status == 503 else response
        finally:
            ended()

    def _take(self, request: Request) -> None:
        """Raises Refused."""
        if request.method != "POST":
            raise Refused(405, "a report is sent by POST")
        runtime = self._runtime(request)
        try:
            what = described(request.body)
        except ValueError as error:
            raise Refused(500, str(error)) from None
        if not self.leads():
            raise Refused(503, "this replica does not lead: try again")
        found = self.kymas.by(RUNTIME, runtime)
        if len(found) != 1:
            shown = conditions.truncated(runtime, _LONGEST_SHOWN)
            _log.info("runtime %r reports, and %d Kymas have the label of it", shown, len(found))
            return
        key = found[0].key
        _log.debug("runtime %r reports a change of %r: Kyma %s is looked at", runtime, what, key)
        self.wake(key, self.limit.wait_seconds(runtime))

    def _runtime(self, request: Request) -> str:
        """The runtime that sends a request. Raises Refused."""
        try:
            certificate = self.identify(request)
        except CertificateRefused as error:
            self.counts.unverified()
            _log.info("a report is refused: %s", error)
            raise Refused(401, "the certificate of a runtime is expected") from None
        runtime = runtime_of(certificate)
        if not runtime:
            self.counts.unverified()
            raise Refused(400, "the certificate has no common name, which is the id of its runtime")
        return runtime


def install(
    manager: Manager,
    settings: Settings,
    kymas: Informer[Kyma],
    wake: Callable[[ObjectKey, float], None],
) -> Server | None:
    """Give the listener to a manager. None if it is off. Raises AddressInvalid."""
    address = ListenAddress.parse(settings.kyma_skr_listener_bind_address)
    if address is None or settings.disable_watcher:
        return None
    counts, per_second = ListenerMetrics(manager.metrics), settings.listener_wakes_per_second
    listener = Listener(
        kymas=kymas.store,
        identify=_identify(manager, settings),
        wake=wake,
        leads=lambda: manager.leads,
        limit=RateLimit(per_second=per_second, at_once=per_second * AT_ONCE_SECONDS, clock=manager.clock),
        counts=counts,
    )
    certificates = None
    if settings.listener_tls_folder:
        certificates = MountedCertificates(Path(settings.listener_tls_folder), clients="ca.crt", clock=manager.clock)
    server = Server(
        NAME,
        address,
        [Route("*", PATH, listener.answer)],
        metrics=manager.metrics,
        tls=certificates.context if certificates is not None else None,
        limits=LIMITS,
        on_answer=counts.answered,
    )
    manager.add_server(NAME, server if certificates is None else Certified(certificates, server, manager.border))
    return server


def _identify(manager: Manager, settings: Settings) -> Identify:
    if settings.listener_tls_folder:
        return by_tls
    if settings.listener_client_authority is ClientAuthority.NONE:
        _log.warning(
            "each client that reaches %s may report for any runtime: --listener-client-authority is none",
            settings.kyma_skr_listener_bind_address,
        )
        return by_header
    key = ObjectKey(settings.istio_namespace, labels.GATEWAY_SECRET_NAME)
    secrets = manager.informer(Secret, namespace=key.namespace, fields=f"metadata.name={key.name}")
    return GatewayAuthorities(secrets.store, key, manager.clock).verified
