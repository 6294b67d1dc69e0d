"""`stellwerk why` without an object: which of the objects that need attention are explained on their own."""

from __future__ import annotations

import pytest

from stellwerk.cli.look import why
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.runtime.insight.diagnosis import Diagnosis, Finding


def unready(name: str, *texts: str, kind: str = "Component") -> ObjectSummary:
    """An object whose findings are a chain with these texts."""
    chain: tuple[Finding, ...] = ()
    for text in reversed(texts):
        chain = (Finding(text, because=chain),)
    ref = ObjectRef(GroupVersionKind("example.org", "v1", kind), ObjectKey("shop", name))
    return ObjectSummary(ref, ObjectHealth("False"), Diagnosis(chain))


def explained(*summaries: ObjectSummary) -> list[str]:
    return [each.ref.key.name for each in why.without_causes(summaries)]


def test_an_object_that_another_one_waits_for_is_explained_there() -> None:
    database = unready("database", "Deployment shop/postgres: 0 of 1 replicas available")
    front = unready("front", "Dependency not ready", "waits for Component shop/database: Processing")
    assert explained(database, front) == ["front"]


def test_of_two_objects_that_name_each_other_the_first_one_is_explained() -> None:
    tenant = unready("acme", "waiting", "CAPTenantOperation shop/acme-1: no Secret", kind="CAPTenant")
    operation = unready("acme-1", "CAPTenant shop/acme has no annotation", kind="CAPTenantOperation")
    assert explained(tenant, operation) == ["acme"]
    assert explained(operation, tenant) == ["acme-1"]


def test_of_objects_in_a_circle_the_first_one_is_explained_and_what_it_does_not_show() -> None:
    a, b, c = (unready(name, f"waits for Component shop/{other}") for name, other in ("ab", "bc", "ca"))
    assert explained(a, b, c) == ["a", "c"]


def test_an_object_that_names_itself_is_explained() -> None:
    assert explained(unready("front", "Component shop/front has failed.")) == ["front"]


@pytest.mark.parametrize(
    "text",
    ["Component shop/database-2: Processing", "Component other/database: Processing", "Job shop/database: Failed", ""],
)
def test_an_object_with_a_similar_name_hides_nothing(text: str) -> None:
    assert explained(unready("database", "no pod"), unready("front", text)) == ["database", "front"]


def test_the_last_word_of_a_sentence_is_an_object_without_its_full_stop() -> None:
    assert explained(unready("database"), unready("front", "it waits for Component shop/database.")) == ["front"]
