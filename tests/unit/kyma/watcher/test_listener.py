"""Reports of remote clusters: who may send them, what they look like, and what they wake."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.api.core import Secret
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.watcher import listener
from stellwerk.operators.kyma.watcher.listener import (
    HEADER,
    LIMITS,
    PATH,
    GatewayAuthorities,
    Identify,
    Listener,
    ListenerMetrics,
    described,
)
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import KeyPair, Wish
from stellwerk.runtime.certificates.client_certificates import CertificateRefused
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.serving.http import ListenAddress, Server
from stellwerk.runtime.serving.http_messages import Headers, Request
from stellwerk.runtime.serving.rate_limit import RateLimit
from stellwerk.runtime.serving.routes import Route
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock

pytestmark = pytest.mark.req("R-704")

NOW = datetime.now(UTC)
REPORT = (
    b'{"watched":{"namespace":"kyma-system","name":"default"},"watchedGvk":{"group":"g","version":"v1","kind":"K"}}'
)
SECRET = ObjectKey("istio-system", "klm-istio-gateway")


def authority(name: str = "ca") -> KeyPair:
    return certs.new_authority(Wish(common_name=name, names=(), lifetime=timedelta(days=1), now=NOW))


OURS, OTHERS = authority(), authority()


def certificate(runtime: str = "r-1", of: KeyPair = OURS, lifetime: timedelta = timedelta(days=1)) -> bytes:
    return certs.issue(of, Wish(common_name=runtime, names=(), lifetime=lifetime, now=NOW)).certificate


def named(*names: str) -> bytes:
    """A certificate of our authority with these common names."""
    key, issuer = certs.new_key(0), x509.load_pem_x509_certificate(OURS.certificate)
    signer = load_pem_private_key(OURS.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in names])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer.subject).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(NOW - timedelta(days=1))
    return builder.not_valid_after(NOW + timedelta(days=1)).sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


GOOD = certificate()


def element(pem: bytes = GOOD, *others: str) -> str:
    """As Envoy writes it."""
    shown = ("By=spiffe://cluster.local/ns/istio-system/sa/gateway", "Hash=0a1b", *others)
    return ";".join((*shown, f'Cert="{quote(pem.decode())}"', 'Subject="CN=r-1"'))


def gateway_secret(bundle: bytes, version: str = "1") -> Secret:
    meta = ObjectMeta(name=SECRET.name, namespace=SECRET.namespace, resource_version=version)
    return Secret(metadata=meta, data={"ca.crt": base64.b64encode(bundle).decode()})


def a_kyma(name: str, runtime: str) -> Kyma:
    meta = ObjectMeta(name=name, namespace=labels.KCP_NAMESPACE, labels={labels.RUNTIME_ID_LABEL: runtime})
    return Kyma(metadata=meta)


@dataclass
class Works:
    """A listener, and what it has awakened."""

    kymas: Store[Kyma] = field(default_factory=Store)
    secrets: Store[Secret] = field(default_factory=Store)
    wakes: list[tuple[str, float]] = field(default_factory=list)
    leads: bool = True
    clock: FakeClock = field(default_factory=FakeClock)
    metrics: Metrics = field(default_factory=Metrics)
    server: Server | None = None

    def __post_init__(self) -> None:
        self.kymas.replace(
            [a_kyma("k-1", "r-1"), a_kyma("k-2", "r-2"), a_kyma("twin-a", "r-3"), a_kyma("twin-b", "r-3")]
        )
        self.secrets.replace([gateway_secret(OURS.certificate)])
        self.counts = ListenerMetrics(self.metrics)

    def listener(self, identify: Identify | None = None, *, per_second: float = 2.0) -> Listener:
        return Listener(
            kymas=self.kymas,
            identify=identify or GatewayAuthorities(self.secrets, SECRET, SystemClock()).verified,
            wake=lambda key, seconds: self.wakes.append((key.name, seconds)),
            leads=lambda: self.leads,
            limit=RateLimit(per_second=per_second, at_once=per_second * 5, clock=self.clock),
            counts=self.counts,
        )

    def count(self, series: str) -> float:
        lines = self.metrics.exposition().decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"watcher_listener_{series}"))


async def answered(
    works: Works, header: str | None, body: bytes = REPORT, method: str = "POST", identify: Identify | None = None
) -> int:
    """The status of the answer to one request, without a socket."""
    pairs = [] if header is None else [(HEADER, header)]
    request = Request(method=method, path=PATH, headers=Headers(pairs), body=body)
    return (await works.listener(identify).answer(request)).status


# ---- who reports


async def test_the_kyma_of_the_sender_is_looked_at_and_no_other() -> None:
    works = Works()
    assert await answered(works, element()) == 200
    assert works.wakes == [("k-1", 0.0)]


@pytest.mark.req("KYMA-56")
@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param(None, 401, id="no header"),
        pytest.param("", 401, id="an empty header"),
        pytest.param("Hash=0a1b", 401, id="no certificate in it"),
        pytest.param('Cert=""', 401, id="an empty certificate"),
        pytest.param('Cert="%%%"', 401, id="no certificate"),
        pytest.param(f'Cert="{quote(GOOD.decode())}', 401, id="an open quote"),
        pytest.param(element(certificate(of=OTHERS)), 401, id="another authority of the same name"),
        pytest.param(element(certificate(lifetime=timedelta(hours=-1))), 401, id="over"),
        pytest.param(element(OURS.certificate), 401, id="the authority itself"),
        pytest.param(element(GOOD + GOOD), 401, id="two certificates in one"),
        pytest.param(element() + "," + element(certificate("r-2")), 401, id="one of a second proxy"),
        pytest.param(element(GOOD, f'Cert="{quote(GOOD.decode())}"'), 401, id="one property twice"),
        pytest.param(element(GOOD, 'DNS="a\\";Cert=\\"b'), 401, id="a quote that is not closed"),
        pytest.param(element(named()), 400, id="no common name"),
        pytest.param(element(named("r-1", "r-2")), 400, id="two common names"),
        pytest.param("x" * 8_000, 401, id="a long word"),
        pytest.param(";" * 8_000, 401, id="separators alone"),
        pytest.param("a=" * 4_000, 401, id="properties alone"),
    ],
)
async def test_a_sender_that_is_not_known_wakes_nothing(header: str | None, status: int) -> None:
    works = Works()
    assert await answered(works, header) == status
    assert works.wakes == []
    assert works.count("failed_verification_requests_total") == 1


@pytest.mark.parametrize(
    "header",
    [
        element(GOOD, 'Subject="CN=\\"x;Cert=\\"y\\",O=z"'),
        element() + ',By=spiffe://cluster.local/ns/kcp-system/sa/klm;Hash=1;Subject="";URI=spiffe://gateway',
        f'cert="{quote(GOOD.decode())}"',
        f"Cert={quote(GOOD.decode(), safe='')}",
    ],
)
async def test_what_proxies_write_beside_the_certificate_does_not_count(header: str) -> None:
    works = Works()
    assert await answered(works, header) == 200
    assert works.wakes == [("k-1", 0.0)]


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["Cert=", '"', ";", ",", "\\", "a=", " "]), max_size=12).map("".join)
)
def test_any_header_is_refused_and_nothing_worse(text: str) -> None:
    request = Request(method="POST", path=PATH, headers=Headers([(HEADER, text)]))
    with pytest.raises(CertificateRefused):
        listener.by_header(request)


async def test_authorities_are_those_of_the_gateway_now() -> None:
    works = Works()
    gateway = GatewayAuthorities(works.secrets, SECRET, SystemClock())

    async def statuses() -> list[int]:
        return [
            await answered(works, element(each), identify=gateway.verified)
            for each in (GOOD, certificate("r-2", of=OTHERS))
        ]

    assert await statuses() == [200, 401]
    works.secrets.put(gateway_secret(OTHERS.certificate + OURS.certificate, "2"))
    assert await statuses() == [200, 200]
    works.secrets.put(gateway_secret(OTHERS.certificate, "3"))
    assert await statuses() == [401, 200]
    works.secrets.put(gateway_secret(b"nothing", "4"))
    assert await statuses() == [401, 401]
    works.secrets.put(gateway_secret(OURS.certificate, "5"))
    works.secrets.remove(SECRET)
    assert await statuses() == [401, 401]


async def test_without_an_authority_each_certificate_is_believed_as_by_the_original() -> None:
    works = Works()
    assert await answered(works, element(certificate(of=OTHERS)), identify=listener.by_header) == 200
    assert await answered(works, None, identify=listener.by_header) == 401
    assert works.wakes == [("k-1", 0.0)]


async def test_with_tls_of_our_own_the_header_does_not_count() -> None:
    works = Works()
    assert await answered(works, element(), identify=listener.by_tls) == 401
    der = ssl.PEM_cert_to_DER_cert(certificate("r-2").decode())
    request = Request(method="POST", path=PATH, headers=Headers([(HEADER, element())]), body=REPORT, certificate=der)
    assert (await works.listener(listener.by_tls).answer(request)).status == 200
    assert works.wakes == [("k-2", 0.0)]


# ---- what is reported


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (REPORT, 200),
        (b'{"Watched":{"Namespace":"a","Name":"b"},"WatchedGvk":{"Group":"g","Version":"v","Kind":"K"}}', 200),
        (b'{"watched":null,"watchedGvk":{}}', 200),
        (b"{}", 200),
        (b"null", 200),
        (b'{"more":[1,{"a":2}]}', 200),
        (b'{"watched":{"name":"' + b"x" * 16_000 + b'"}}', 200),
        (b"", 500),
        (b"[]", 500),
        (b'"text"', 500),
        (b'{"watched":', 500),
        (b'{"watched":[]}', 200),
        (b'{"watched":["a"]}', 500),
        (b'{"watched":{"name":7}}', 500),
        (b'{"watched":{"name":{"a":"b"}}}', 500),
        (b"[" * 16_000, 500),
        (b'{"a":' * 3_000, 500),
        (b'{"watched":{"name":"\xff"}}', 500),
        (b'{"watched":{"name":"a\\nb\\u0000\\u202e"}}', 200),
    ],
)
async def test_a_report_is_json_with_fields_in_any_case(body: bytes, status: int) -> None:
    works = Works()
    assert await answered(works, element(), body) == status
    assert works.wakes == ([("k-1", 0.0)] if status == 200 else [])


@given(st.binary(max_size=200))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        assert len(described(body)) < 300
    except ValueError:
        return


@pytest.mark.parametrize("runtime", ["r-9", "r-3", "R-1", "r-1 ", "k-1"])
async def test_a_runtime_that_is_not_that_of_exactly_one_kyma_wakes_nothing(runtime: str) -> None:
    works = Works()
    assert await answered(works, element(certificate(runtime))) == 200
    assert works.wakes == []


async def test_a_replica_that_does_not_lead_leaves_the_report_to_another() -> None:
    works = Works(leads=False)
    request = Request(method="POST", path=PATH, headers=Headers([(HEADER, element())]), body=REPORT)
    response = await works.listener().answer(request)
    assert (response.status, response.closes) == (503, True)
    assert works.wakes == []


@pytest.mark.parametrize(
    ("per_second", "reports", "expected"),
    [(2.0, 10, 0.0), (2.0, 11, 0.5), (2.0, 500, 0.5), (1.0, 6, 1.0), (0.0, 500, 0.0)],
)
async def test_a_runtime_that_reports_too_often_is_looked_at_later(
    per_second: float, reports: int, expected: float
) -> None:
    works = Works()
    listening = works.listener(per_second=per_second)

    async def report(pem: bytes) -> int:
        request = Request(method="POST", path=PATH, headers=Headers([(HEADER, element(pem))]), body=REPORT)
        return (await listening.answer(request)).status

    assert {await report(GOOD) for _ in range(reports)} == {200}
    assert works.wakes[-1] == ("k-1", expected)
    await report(certificate("r-2"))
    assert works.wakes[-1] == ("k-2", 0.0), "others do not wait for it"


# ---- over a socket


@asynccontextmanager
async def serving(works: Works) -> AsyncIterator[str]:
    routes = [Route("*", PATH, works.listener().answer)]
    address = ListenAddress("127.0.0.1", 0)
    server = Server("listener", address, routes, limits=LIMITS, on_answer=works.counts.answered)
    await server.start()
    yield f"http://127.0.0.1:{server.port}"
    await server.stop()


@pytest.mark.req("KYMA-56")
async def test_each_answer_has_its_status_and_is_counted() -> None:
    works, cases = Works(), list[tuple[int, int]]()
    known = {HEADER: element()}
    wanted: Sequence[tuple[str, str, dict[str, str], bytes, int]] = (
        ("POST", PATH, known, REPORT, 200),
        ("GET", PATH, known, b"", 405),
        ("PUT", PATH, known, REPORT, 405),
        ("POST", PATH, {}, REPORT, 401),
        ("POST", PATH, {HEADER: element(named())}, REPORT, 400),
        ("POST", PATH, known, b"{" + b" " * 16_382 + b"}", 200),
        ("POST", PATH, known, b"{" + b" " * 16_383 + b"}", 413),
        ("POST", PATH, {}, b"x" * 17_000, 413),
        ("POST", PATH, known, b"{", 500),
        ("POST", "/v2/other/event", known, REPORT, 404),
    )
    async with serving(works) as url, aiohttp.ClientSession() as session:
        for method, path, headers, body, status in wanted:
            async with session.request(method, url + path, headers=headers, data=body) as response:
                cases.append((response.status, status))
                assert (await response.read() == b"") == (status == 200)
    assert [found for found, _ in cases] == [status for _, status in cases]
    expected = {
        'requests_total{server_name="listener"}': 10,
        'request_errors_total{server_name="listener"}': 8,
        'exceeding_size_limit_requests_total{server_name="listener"}': 2,
        f'failed_verification_requests_total{{request_uri_label="{PATH}",server_name="listener"}}': 2,
        'inflight_requests{server_name="listener"}': 0,
        'request_duration_count{server_name="listener"}': 7,
    }
    assert {series: works.count(series) for series in expected} == expected
    assert works.wakes == [("k-1", 0.0)] * 2
