"""Parsers of what tenants store and servers answer: any input gives a value, or the one error that is documented."""

from __future__ import annotations

import contextlib
import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.unit.promptly import promptly

from stellwerk.api import flux
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types import lenient
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.model import UNREADABLE, Unreadable, unstructured, view
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator import resources
from stellwerk.operators.btp.btpoperator.probe import ProbeFinding
from stellwerk.operators.btp.errors import DamagedRecord, ModuleUnreadable
from stellwerk.operators.btp.module import release, version_record
from stellwerk.operators.btp.module.release import Places
from stellwerk.operators.component import intervals
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.errors import ComponentFailed, InvalidCredentials, InvalidSpec
from stellwerk.operators.component.references import digests, references
from stellwerk.operators.component.references.references import LOGIN_KEYS, LoginSecret
from stellwerk.operators.component.sources import credentials
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.serving.tls import MountedCertificates

pytestmark = [pytest.mark.req("R-401"), pytest.mark.heavy]

WORDS = some.sampled_from(
    [
        "",
        "a",
        "/",
        "a/b",
        "\u0669",
        "\ud800",
        "9" * 5_000,
        "-",
        "null",
        "2020-01-01T00:00:00",
        "true",
        "sha256:" + "0" * 64,
    ]
)
TEXTS = some.text(max_size=20) | WORDS
LEAVES = some.none() | some.booleans() | some.integers(-(10**30), 10**30) | some.floats() | TEXTS
JSON = some.recursive(
    LEAVES, lambda inner: some.lists(inner, max_size=4) | some.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)


def keyed(*keys: str) -> some.SearchStrategy[dict[str, Any]]:
    """JSON objects with some of these keys and any values."""
    return some.dictionaries(some.sampled_from(keys), JSON, max_size=len(keys))


META = keyed("name", "namespace", "uid", "resourceVersion", "labels", "creationTimestamp", "ownerReferences")
ARTIFACT = keyed("url", "digest", "revision", "lastUpdateTime")
STATUS = some.fixed_dictionaries(
    {},
    optional={
        "artifact": ARTIFACT | JSON,
        "conditions": some.lists(keyed("type", "status", "lastTransitionTime"), max_size=2) | JSON,
    },
)
OBJECTS = some.fixed_dictionaries(
    {}, optional={"metadata": META | JSON, "spec": JSON, "status": STATUS | JSON, "kind": JSON, "apiVersion": JSON}
)


def as_bytes(value: Any) -> bytes:
    """JSON as Python writes it: NaN, half surrogates and numbers of any length included."""
    return json.dumps(value).encode()


BYTES = OBJECTS.map(as_bytes) | JSON.map(as_bytes) | some.binary(max_size=60)


@pytest.mark.req("R-413")
@pytest.mark.parametrize("kind", [Component, BtpOperator, flux.GitRepository])
@given(data=BYTES)
@promptly
def test_any_bytes_are_an_object_or_unreadable(kind: Any, data: bytes) -> None:
    for target in (view(kind), unstructured(kind.resource)):
        with contextlib.suppress(*UNREADABLE):
            target.decode(data)
        found = target.unreadable(data, ValueError("odd"))
        assert found is None or isinstance(found, Unreadable)


@pytest.mark.parametrize("kind", [Component, BtpOperator, flux.GitRepository])
@given(data=BYTES)
def test_an_object_with_odd_times_in_its_status_is_read_or_refused(kind: type[Any], data: bytes) -> None:
    with contextlib.suppress(*UNREADABLE):
        lenient.decode(data, kind)


@given(items=some.lists(BYTES, max_size=3))
def test_any_page_of_a_list_is_read_or_refused(items: list[bytes]) -> None:
    page = b'{"metadata": {}, "items": [' + b",".join(items) + b"]}"
    with contextlib.suppress(*UNREADABLE):
        view(Component).decode_each(page)


@given(some.sampled_from(["ADDED", "BOOKMARK", "ERROR", "x", ""]), BYTES)
def test_any_line_of_a_watch_is_an_event_or_refused(kind: str, data: bytes) -> None:
    for line in (data, b'{"type": "%s", "object": %s}' % (kind.encode(), data)):
        for decode in (view(Component).decode_event, view(Component).decode_odd_event):
            with contextlib.suppress(*UNREADABLE):
                decode(line)


# ---- BTP Manager

RECORD_KEYS = (
    version_record.CURRENT_VERSION,
    version_record.CURRENT_KINDS,
    version_record.OLD_VERSION,
    version_record.OLD_KINDS,
)
KINDS = TEXTS | some.from_regex(r"([a-z.]{0,5}/?v[0-9]{1,3}/?[A-Z]?[a-z]{0,4}[,; {}\n-]?){0,3}", fullmatch=True)


@given(some.dictionaries(some.sampled_from([*RECORD_KEYS, version_record.CREDENTIALS_SECRET]), KINDS | JSON.map(repr)))
@promptly
def test_any_record_of_a_version_is_read_or_damaged(data: dict[str, str]) -> None:
    with contextlib.suppress(DamagedRecord):
        record = version_record.parse(data)
        assert version_record.parse(record.data()) == record


@given(some.dictionaries(TEXTS, TEXTS, max_size=3))
def test_any_annotations_are_a_finding_of_the_probe(annotations: dict[str, str]) -> None:
    operator = BtpOperator(metadata=ObjectMeta(annotations=annotations))
    assert ProbeFinding.on(operator).alerts in (True, False)


@given(
    keyed("kind", "metadata", "spec")
    | some.fixed_dictionaries(
        {
            "kind": some.just("Deployment"),
            "spec": some.fixed_dictionaries({"template": some.fixed_dictionaries({"spec": keyed("containers")})}),
        }
    )
)
def test_any_deployment_says_what_runs(body: dict[str, Any]) -> None:
    assert isinstance(resources.operand_image(body), str)
    assert isinstance(resources.Running.of(body, {}, {}).template_checksum, str)


YAML = some.text(max_size=80) | some.sampled_from(
    ["a: &x [1]\nb: *x", "- " * 200, "%YAML 9.9", "---\n---\n", "kind: x", "{" * 50]
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    chart=YAML.map(str.encode) | some.binary(max_size=60),
    manifest=YAML.map(lambda text: text.encode(errors="replace")) | BYTES,
)
@promptly
def test_any_files_are_a_module_or_unreadable(chart: bytes, manifest: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "apply").mkdir()
        (folder / "delete").mkdir()
        (folder / "apply" / "all.yml").write_bytes(manifest)
        (folder / "delete" / "to-delete.yml").write_bytes(manifest)
        (folder / release.CHART_FILE).write_bytes(chart)
        with contextlib.suppress(ModuleUnreadable):
            release.load(Places(folder, folder, folder))


# ---- Components


@pytest.mark.req("R-413")
@given(
    spec=JSON | keyed("sourceRef", "values", "kubeConfig", "requeueInterval", "valuesFrom", "dependencies", "timeout")
)
def test_any_spec_of_a_component_is_used_or_refused(spec: Any) -> None:
    data = as_bytes({"metadata": {"name": "a", "namespace": "b"}, "spec": spec})
    try:
        component = view(Component).decode(data)
    except UNREADABLE:
        return
    with contextlib.suppress(ComponentFailed):
        references.find(component)
    with contextlib.suppress(ComponentFailed):
        digests.of_component(component, {})
    with contextlib.suppress(InvalidSpec):
        assert intervals.Intervals.of(component.spec).requeue > timedelta()


@given(ARTIFACT)
def test_any_artifact_has_a_digest_or_is_refused(data: dict[str, Any]) -> None:
    try:
        artifact = msgspec.json.decode(as_bytes(data), type=Artifact)
    except UNREADABLE:
        return
    assert digests.of_source(ObjectMeta(name="a"), artifact) != digests.of_download(artifact)


PEM = some.sampled_from(
    [b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"-----BEGIN CERTIFICATE-----"]
)


@given(some.dictionaries(some.sampled_from(LOGIN_KEYS), some.binary(max_size=60) | PEM, max_size=6))
@promptly
def test_any_secret_for_a_web_server_is_a_login_or_refused(data: dict[str, bytes]) -> None:
    with contextlib.suppress(InvalidCredentials):
        credentials.of("https://example.com/a", LoginSecret("Secret a/b", data))


# ---- certificates and logins of the process


@given(certificate=some.binary(max_size=60) | PEM, key=some.binary(max_size=60) | PEM)
def test_any_mounted_files_are_a_certificate_or_are_waited_for(certificate: bytes, key: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tls.crt").write_bytes(certificate)
        Path(folder, "tls.key").write_bytes(key)
        assert not MountedCertificates(Path(folder), clock=SystemClock()).check()


CLUSTERS = some.lists(
    some.fixed_dictionaries(
        {},
        optional={
            "name": JSON,
            "cluster": keyed("server", "proxy-url", "tls-server-name", "certificate-authority-data"),
        },
    ),
    max_size=2,
)
USERS = some.lists(
    some.fixed_dictionaries(
        {}, optional={"name": JSON, "user": keyed("token", "client-key-data", "as", "exec", "username")}
    ),
    max_size=2,
)
CONTEXTS = some.lists(
    some.fixed_dictionaries({}, optional={"name": JSON, "context": keyed("cluster", "user", "namespace")}), max_size=2
)


@given(
    some.fixed_dictionaries(
        {},
        optional={
            "clusters": CLUSTERS | JSON,
            "users": USERS | JSON,
            "contexts": CONTEXTS | JSON,
            "current-context": JSON,
        },
    )
)
@promptly
def test_any_kubeconfig_is_a_login_or_refused(content: dict[str, Any]) -> None:
    with contextlib.suppress(LoginFailed):
        ClusterConfig.from_kubeconfig_text(json.dumps(content))
