"""VCAP_SERVICES out of binding Secrets."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.operators.cap.pods import vcap
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable, SecretData

SERVICES = given.application().spec.btp.services
PLAIN: SecretData = {"credentials": b'{"clientid": "id", "url": "https://a?b=1&c"}'}


def described(**data: bytes) -> SecretData:
    """A Secret with the SAP service binding metadata for these keys."""
    metadata = {
        "metaDataProperties": [
            {"name": "instance_name", "format": "text"},
            {"name": "label", "sourceName": "type", "format": "text"},
            {"name": "tags", "format": "json"},
        ],
        "credentialProperties": [
            {"name": "clientid", "format": "text"},
            {"name": "nested", "format": "json"},
            {"name": "all", "format": "json", "container": True},
            {"name": "after", "format": "text"},
        ],
    }
    return {".metadata": json.dumps(metadata).encode(), **data}


def entry(data: SecretData) -> dict[str, object]:
    return dict(vcap.entry(SERVICES[0], data))


def test_services_are_grouped_by_class_in_the_order_of_the_application() -> None:
    secrets = dict.fromkeys(("uaa-secret", "hana-secret", "uaa2-secret"), PLAIN)
    found = json.loads(vcap.variable(SERVICES, ("uaa2", "hana", "uaa"), secrets))

    assert [*found] == ["service-manager", "xsuaa"]
    assert [each["name"] for each in found["xsuaa"]] == ["uaa", "uaa2"]


def test_only_consumed_services_are_read() -> None:
    assert vcap.variable(SERVICES, (), {}) == "{}"


def test_the_text_is_compact_and_sorted_and_escaped_as_go_does() -> None:
    assert vcap.variable(SERVICES, ("uaa",), {"uaa-secret": PLAIN}) == (
        '{"xsuaa":[{"credentials":{"clientid":"id","url":"https://a?b=1\\u0026c"},'
        '"instance_name":"uaa","label":"xsuaa","name":"uaa","tags":["xsuaa"]}]}'
    )


def test_a_secret_with_metadata_lists_its_properties() -> None:
    found = entry(described(instance_name=b"my-uaa", type=b"xsuaa-x", tags=b'["a"]', clientid=b"id", nested=b'{"a":1}'))

    assert found == {
        "instance_name": "my-uaa",
        "label": "xsuaa-x",
        "tags": ["a"],
        "name": "my-uaa",
        "credentials": {"clientid": "id", "nested": {"a": 1}},
    }


def test_a_container_is_all_of_the_credentials() -> None:
    found = entry(described(clientid=b"id", all=b'{"everything": true}', after=b"ignored"))

    assert found["credentials"] == {"everything": True}
    assert found["label"] == "xsuaa"
    assert found["name"] == "uaa"


def test_metadata_may_be_spelled_in_any_case() -> None:
    metadata = {"METADATAPROPERTIES": [{"Name": "plan", "Format": "text"}], "CredentialProperties": []}
    found = entry({".metadata": json.dumps(metadata).encode(), "plan": b"broker"})

    assert found["plan"] == "broker"


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        ({}, "could not find credentials for secret uaa-secret"),
        ({"credentials": b"secret words"}, "key credentials of secret uaa-secret is not JSON"),
        ({"credentials": b"[1]"}, "key credentials of secret uaa-secret is not a JSON object"),
        ({".metadata": b"\xff"}, "key .metadata of secret uaa-secret is not JSON"),
        (described(all=b"7"), "key all of secret uaa-secret is not a JSON object"),
        (described(nested=b"{"), "key nested of secret uaa-secret is not JSON"),
        ({"credentials": b"[" * 100_000}, "key credentials of secret uaa-secret is not JSON"),
    ],
)
def test_unusable_credentials_are_named_without_their_values(data: SecretData, cause: str) -> None:
    with pytest.raises(CredentialsUnusable, match=cause) as raised:
        vcap.entry(SERVICES[0], data)

    assert "secret words" not in str(raised.value)


def test_lists_of_metadata_that_are_no_lists_are_empty() -> None:
    found = entry({".metadata": b'{"metaDataProperties": 1, "credentialProperties": [1, {"name": 2}]}'})

    assert found == {"credentials": {}, "label": "xsuaa", "name": "uaa"}


@pytest.mark.req("R-410")
@pytest.mark.parametrize("levels", [101, 900, 100_000])
def test_credentials_that_are_nested_too_deep_are_refused_without_a_value(levels: int) -> None:
    text = b'{"a":' + b"[" * levels + b'"s3cr3t"' + b"]" * levels + b"}"

    with pytest.raises(CredentialsUnusable, match="key credentials of secret uaa-secret is") as refused:
        vcap.variable(SERVICES, ("uaa",), {"uaa-secret": {"credentials": text}})
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.req("R-411")
def test_credentials_that_no_secret_can_hold_are_refused_before_and_after_escaping() -> None:
    large = {"credentials": json.dumps({"a": "x" * 600_000}).encode()}
    growing = {"credentials": json.dumps({"a": "<" * 200_000}).encode()}

    for consumed, secrets in (
        (("uaa", "hana"), {"uaa-secret": large, "hana-secret": large}),
        (("uaa",), {"uaa-secret": growing}),
    ):
        with pytest.raises(CredentialsUnusable, match="consume fewer services"):
            vcap.variable(SERVICES, consumed, secrets)


def repeating(count: int, size: int) -> SecretData:
    """A Secret whose metadata list one value so many times."""
    listed = [{"name": "a", "sourceName": "b", "format": "json"}] * count
    return {".metadata": json.dumps({"credentialProperties": listed}).encode(), "b": json.dumps("x" * size).encode()}


@pytest.mark.req("R-411")
def test_a_key_that_is_listed_many_times_is_read_no_more_often_than_a_secret_can_hold() -> None:
    with pytest.raises(CredentialsUnusable, match="services uaa have more than"):
        vcap.entry(SERVICES[0], repeating(10_000, 500_000))


@pytest.mark.req("R-411")
def test_services_with_one_binding_secret_share_its_bound() -> None:
    services = [msgspec.structs.replace(SERVICES[0], name=f"uaa{number}") for number in range(100)]
    consumed, secrets = [each.name for each in services], {"uaa-secret": repeating(20, 5_000)}

    assert vcap.variable(services, consumed[:5], secrets)
    with pytest.raises(CredentialsUnusable, match="services uaa0, uaa1, uaa2, uaa3, uaa4 have more than"):
        vcap.variable(services, consumed, secrets)


@pytest.mark.req("R-412")
def test_a_key_that_is_listed_many_times_is_parsed_once() -> None:
    metadata = {"credentialProperties": [{"name": name, "sourceName": "b", "format": "json"} for name in "xy"]}
    credentials = entry({".metadata": json.dumps(metadata).encode(), "b": b"[1]"})["credentials"]
    assert credentials == {"x": [1], "y": [1]}
    assert isinstance(credentials, dict)
    assert credentials["x"] is credentials["y"]
