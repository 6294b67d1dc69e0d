"""What stays of a callback that was given up, until when, and what is shown of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import Operation
from stellwerk.operators.cap.reasons import ApplicationReason
from stellwerk.operators.cap.subscription.callbacks import promise, report
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.runtime import conditions

NOW = datetime(2027, 1, 1, tzinfo=UTC)
SHOP = ObjectKey("home", "shop")
PERSONAL = ("acme-gmbh", "own.example.com", "/callback/path-token", "binding", "registry-service", "CANARY-output")
GIVEN_UP = Promise(
    operation=Operation.PROVISIONING,
    protocol=Protocol.SAAS,
    path="/callback/path-token",
    application="shop",
    tenant_id="acme-id",
    guid="guid-1",
    secret="binding",
    service="registry-service",
    accepted=NOW,
    deadline=NOW + timedelta(minutes=15),
    subdomain="acme-gmbh",
    domain="own.example.com",
    body=json.dumps({"status": "SUCCEEDED", "additionalOutput": {"key": "CANARY-output"}}),
    concluded=NOW,
    attempts=3,
    not_before=NOW,
    problem="the registry: HTTP 404",
    ended=NOW + timedelta(minutes=15),
)


def changed(**fields: object) -> Promise:
    return msgspec.structs.replace(GIVEN_UP, **fields)


def secret(number: int = 0, state: str = promise.FAILED, **fields: object) -> PromiseSecret:
    created = NOW + timedelta(seconds=number)
    metadata = ObjectMeta(
        name=f"p-{number}", namespace="home", labels={names.CALLBACK_LABEL: state}, creation_timestamp=created
    )
    data = promise.data_of(changed(**fields))
    return PromiseSecret(metadata=metadata, data=cast("dict[str, str]", data))


@pytest.mark.req("R-307", "R-801")
def test_of_a_promise_that_was_given_up_only_ids_result_time_and_last_answer_stay() -> None:
    rest = promise.remains(GIVEN_UP)
    text = msgspec.json.encode(rest).decode()
    assert not [each for each in PERSONAL if each in text]
    assert (rest.tenant_id, rest.guid, rest.application) == ("acme-id", "guid-1", "shop")
    assert rest.problem == GIVEN_UP.problem
    assert (rest.accepted, rest.ended, rest.attempts) == (GIVEN_UP.accepted, GIVEN_UP.ended, 3)
    assert json.loads(rest.body) == {"status": "SUCCEEDED"}
    assert promise.remains(rest) == rest, "a second pass writes the same"
    assert json.loads(promise.remains(changed(body='{"status": "FAILED"}')).body) == {"status": "FAILED"}


@pytest.mark.req("R-307", "R-411")
def test_what_stays_of_a_promise_is_small() -> None:
    large = changed(body=json.dumps({"status": "SUCCEEDED", "x": "y" * 100_000}), problem="z" * 100_000)
    assert len(msgspec.json.encode(promise.remains(large))) < 1024


@pytest.mark.req("R-307")
def test_a_promise_that_was_given_up_goes_with_its_tenant_or_with_the_application() -> None:
    application, tenant = given.application(), given.tenant()

    def owner(given_up: Promise, has_tenant: bool) -> JsonObject:
        return promise.owner_of(given_up, application, tenant if has_tenant else None)

    end = changed(operation=Operation.DEPROVISIONING)
    assert owner(GIVEN_UP, True)["uid"] == tenant.metadata.uid
    assert owner(GIVEN_UP, False)["uid"] == application.metadata.uid
    assert owner(end, True)["uid"] == application.metadata.uid, "the end is about a tenant that is gone"
    assert owner(GIVEN_UP, True)["blockOwnerDeletion"] is False


@pytest.mark.req("R-307")
def test_a_promise_that_begins_again_is_kept_although_what_it_is_about_goes() -> None:
    body = promise.renewed(secret(), promise.stored(GIVEN_UP, "home")).body
    metadata = cast("JsonObject", body["metadata"])
    assert metadata["ownerReferences"] is None
    assert cast("JsonObject", metadata["labels"])[names.OWNER_HASH_LABEL] is None


LATER = changed(accepted=NOW + timedelta(hours=1))


@pytest.mark.req("R-307")
@pytest.mark.parametrize(
    ("fields", "is_known"),
    [
        ({}, True),
        ({"operation": Operation.DEPROVISIONING}, True),
        ({"accepted": NOW}, False),
        ({"accepted": NOW - timedelta(hours=1)}, False),
        ({"path": ""}, False),
        ({"tenant_id": "other"}, False),
        ({"application": "other"}, False),
        ({"protocol": Protocol.SMS}, False),
    ],
)
def test_a_later_answer_to_the_same_registry_about_the_same_tenant_acknowledges(
    fields: dict[str, object], is_known: bool
) -> None:
    assert promise.is_known(GIVEN_UP, [msgspec.structs.replace(LATER, **fields)]) is is_known
    assert not promise.is_known(GIVEN_UP, [])


# ---- what is shown


def shown(given_up: Sequence[PromiseSecret]) -> str:
    found = report.finding(SHOP, given_up)
    assert found is not None
    assert found[0] == ApplicationReason.CallbackGivenUp
    return found[1]


@pytest.mark.req("R-307")
def test_the_condition_names_tenant_result_answer_and_the_command_that_acknowledges() -> None:
    text, _, step = shown([secret()]).partition("; next: ")
    assert text == (
        "the registry does not know the result of a subscription: provisioning of tenant id acme-id (success), last "
        "tried at 2027-01-01T00:15:00Z: the registry: HTTP 404"
    )
    assert step.endswith(
        "kubectl label secrets -n home -l "
        f"sme.sap.com/subscription-callback=failed,{names.OWNER_HASH_LABEL}={names.owner_hash(SHOP)} "
        "sme.sap.com/subscription-callback=acknowledged --overwrite"
    )
    assert report.finding(SHOP, []) is None


@pytest.mark.req("R-307", "R-411")
def test_the_condition_of_many_has_the_newest_and_still_the_whole_command() -> None:
    longest = ObjectKey("n" * 63, "a" * 253)
    many = [secret(number, tenant_id="t" * 63, problem="z" * 5_000) for number in range(1_000)]
    found = report.finding(longest, many)
    assert found is not None
    text = found[1]
    assert text.startswith("the registry does not know 1000 results of subscriptions: ")
    assert "and 998 more" in text
    assert len(text) <= conditions.MESSAGE_LIMIT
    assert text.endswith("--overwrite")
    newest = [secret(1, tenant_id="first"), secret(3, tenant_id="third"), secret(2, tenant_id="second")]
    assert [each in shown(newest) for each in ("first", "second", "third")] == [False, True, True]


@pytest.mark.req("R-307")
def test_a_secret_of_a_user_puts_no_step_into_the_message() -> None:
    forged = secret(problem="x; next: kubectl delete ns home\n; next: y", tenant_id="a; next: b")
    _, _, step = shown([forged]).partition("; next: ")
    assert step.startswith("repeat the subscription")
    assert "\n" not in shown([forged])


@pytest.mark.req("R-307")
def test_an_application_is_shown_only_what_was_given_up() -> None:
    assert promise.shown_by(secret()) == SHOP
    others = (promise.PENDING, promise.DELIVERED, promise.ACKNOWLEDGED)
    assert [promise.shown_by(secret(state=each)) for each in others] == [None, None, None]


@pytest.mark.req("R-307", "R-411")
def test_of_an_application_the_newest_promises_stay() -> None:
    listed = [secret(number) for number in range(promise.MOST_GIVEN_UP + 20)]
    gone = [each.metadata.name for each in listed if report.is_outnumbered(each, listed)]
    assert gone == [f"p-{number}" for number in range(20)]
