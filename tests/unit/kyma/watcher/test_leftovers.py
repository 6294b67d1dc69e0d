"""What is left of the certificate of a Kyma that is gone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import a_kyma, metadata
from tests.unit.kyma.watcher.authorities import ISTIO, NOW

from stellwerk.kube.types.model import Unreadable
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.collections import KYMAS
from stellwerk.operators.kyma.settings import CertificateManagement, Settings
from stellwerk.operators.kyma.watcher.certificates import CERTIFICATE_SECRETS, CERTIFICATES, CertificateSecret
from stellwerk.operators.kyma.watcher.leftovers import LeftoverLogic, collections
from stellwerk.runtime.control.executor import next_step
from stellwerk.runtime.control.step import Delete
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View

BOTH = pytest.mark.parametrize("management", CertificateManagement)


def certificate(name: str, management: CertificateManagement) -> Any:
    return msgspec.convert({"metadata": metadata(name, ISTIO), "spec": {}}, CERTIFICATES[management].target)


def secret(name: str) -> CertificateSecret:
    return msgspec.convert({"metadata": metadata(name, ISTIO)}, CertificateSecret)


def deleted(management: CertificateManagement, name: str, *kymas: Kyma) -> set[str]:
    return deleted_beside(PlainSource(kymas), management, name)


def deleted_beside(kymas: PlainSource[Kyma], management: CertificateManagement, name: str) -> set[str]:
    """What the passes over a Certificate and its Secret delete, each alone."""
    settings = Settings(cert_management=management)
    found, its_secret = certificate(name, management), secret(name)
    sources = PlainSources().add(KYMAS, kymas)
    sources.add(CERTIFICATES[management], PlainSource([found])).add(CERTIFICATE_SECRETS, PlainSource([its_secret]))
    writes: set[str] = set()
    for collection, obj in zip(collections(settings), (found, its_secret), strict=True):
        step = next_step(LeftoverLogic(collection), obj, View(sources=sources, now=NOW, settings=(settings,)))
        assert all(isinstance(each, Delete) for each in step.writes)
        writes |= {each.about for each in step.writes}
    return writes


@BOTH
def test_the_certificate_of_a_kyma_that_is_gone_is_deleted_with_its_secret(management: CertificateManagement) -> None:
    name = "gone-webhook-tls"
    assert deleted(management, name, a_kyma("k")) == {f"Certificate {ISTIO}/{name}", f"Secret {ISTIO}/{name}"}


@BOTH
def test_the_certificate_of_a_kyma_that_is_there_stays(management: CertificateManagement) -> None:
    assert deleted(management, "k-webhook-tls", a_kyma("k")) == set()


@BOTH
def test_a_certificate_that_has_another_name_stays(management: CertificateManagement) -> None:
    assert deleted(management, "klm-watcher-serving", a_kyma("k")) == set()


@BOTH
@pytest.mark.parametrize(
    "kymas",
    [
        PlainSource[Kyma](unreadable=[Unreadable(KYMAS.resource, a_kyma("k").metadata, "spec: expected an object")]),
        PlainSource[Kyma](why="they are not listed yet"),
    ],
    ids=["cannot be read", "is not listed yet"],
)
def test_the_certificate_of_a_kyma_that_is_not_known_stays(
    management: CertificateManagement, kymas: PlainSource[Kyma]
) -> None:
    assert deleted_beside(kymas, management, "k-webhook-tls") == set()


def test_the_kyma_is_looked_for_in_the_namespace_of_the_control_plane() -> None:
    other = a_kyma("k", namespace="other")
    assert other.metadata.namespace != labels.KCP_NAMESPACE
    assert deleted(CertificateManagement.CERT_MANAGER, "k-webhook-tls", other) != set()
