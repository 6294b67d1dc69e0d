"""Which Secret leads to the cluster of a Kyma."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.kyma.kyma.worlds import PREFIX

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma.access import AccessSecretNotFound, AccessUnclear, access_secret
from stellwerk.operators.kyma.collections import ACCESS_SECRETS
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View

KYMA = ObjectKey("kcp-system", "k")
LABEL = f"{PREFIX}/kyma-name"


def a_secret(name: str, kyma: str, namespace: str = "kcp-system") -> PartialObjectMetadata:
    """The metadata of an access Secret."""
    return PartialObjectMetadata(metadata=ObjectMeta(name=name, namespace=namespace, labels={LABEL: kyma}))


def view(*secrets: PartialObjectMetadata, why: str = "") -> View:
    """A view of Secrets."""
    sources = PlainSources().add(ACCESS_SECRETS, PlainSource(secrets, why=why))
    return View(sources=sources, now=datetime(2026, 1, 1, tzinfo=UTC))


def test_the_label_and_the_namespace_decide_and_the_name_does_not_matter() -> None:
    wanted = a_secret("any", "k")
    others = (a_secret("k", "other"), a_secret("k", "k", namespace="elsewhere"))
    assert access_secret(view(*others, wanted), KYMA) is wanted


@pytest.mark.req("KYMA-02")
def test_without_a_secret_the_message_names_the_label() -> None:
    with pytest.raises(AccessSecretNotFound) as error:
        access_secret(view(a_secret("k", "other")), KYMA)
    expected = f"failed to find the secret with label {LABEL}=k: access secret not found"
    assert str(error.value).startswith(expected)
    assert str(error.value).endswith(f"kubectl get secret -n kcp-system -l {LABEL}=k")


@pytest.mark.req("KYMA-03")
def test_two_secrets_are_refused_and_named() -> None:
    with pytest.raises(AccessUnclear) as error:
        access_secret(view(a_secret("b", "k"), a_secret("a", "k")), KYMA)
    start = "could not safely identify the rest config source: more than one secret found: a, b."
    assert str(error.value).startswith(start)
    assert not isinstance(error.value, AccessSecretNotFound), "its Manifests must keep their finalizers"


def test_secrets_that_are_not_listed_are_not_taken_for_absent() -> None:
    with pytest.raises(NotKnown):
        access_secret(view(why="forbidden"), KYMA)
