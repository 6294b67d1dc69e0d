"""Requests are read as the API server reads them."""

from __future__ import annotations

import pytest

from stellwerk.testing.faults.traffic import understand

APPS = "/apis/apps/v1/namespaces/here/deployments"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET /api/v1/pods", "list pods"),
        ("GET /api/v1/pods?watch=true&resourceVersion=7", "watch pods"),
        ("GET /api/v1/pods?watch=0", "list pods"),
        ("GET /api/v1/namespaces/here/pods/one", "get pods here/one"),
        ("GET /api/v1/namespaces/here/pods/one/log?follow=1", "get pods/log here/one"),
        ("GET /api/v1/namespaces", "list namespaces"),
        ("GET /api/v1/namespaces/here", "get namespaces here/here"),
        ("PUT /api/v1/namespaces/here/finalize", "update namespaces/finalize here/here"),
        (f"POST {APPS}", "create deployments.apps here"),
        (f"PUT {APPS}/one/status", "update deployments.apps/status here/one"),
        (f"PATCH {APPS}/one", "patch deployments.apps here/one"),
        (f"DELETE {APPS}/one", "delete deployments.apps here/one"),
        (f"DELETE {APPS}?labelSelector=a%3Db", "deletecollection deployments.apps here"),
        ("POST /api/v1/namespaces/here/pods/one/eviction", "create pods/eviction here/one"),
        ("GET /apis", "get /apis"),
        ("GET /apis/apps/v1", "get /apis/apps/v1"),
        ("GET /version?a=b", "get /version?a=b"),
        ("GET /api/v1/nodes/a%2Fb", "get nodes a/b"),
    ],
)
def test_a_request_line_says_who_is_meant(line: str, expected: str) -> None:
    method, path = line.split()
    assert str(understand(method, path)) == expected


def test_a_server_side_apply_is_told_from_a_patch() -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    assert understand("PATCH", f"{APPS}/one", headers=headers).verb == "apply"


def test_a_create_takes_its_name_from_the_body() -> None:
    named = understand("POST", APPS, body=b'{"metadata": {"name": "one"}}')
    generated = understand("POST", APPS, body=b'{"metadata": {"generateName": "one-"}}')
    assert (named.name, generated.name) == ("one", "one-*")


def test_equal_json_has_one_digest_whatever_its_spelling() -> None:
    one = understand("POST", APPS, body=b'{"a":1,"b":2}').body_digest
    other = understand("POST", APPS, body=b'{ "b": 2, "a": 1 }').body_digest
    assert one == other != understand("POST", APPS, body=b'{"a":1,"b":3}').body_digest


@pytest.mark.parametrize(
    "path",
    [
        f"{APPS}?dryRun=All",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ],
)
def test_what_changes_nothing_is_no_write(path: str) -> None:
    request = understand("POST", path)
    assert request.verb == "create"
    assert not request.is_write


def test_what_changes_something_is_a_write() -> None:
    assert understand("POST", APPS).is_write
    assert understand("DELETE", f"{APPS}/one").is_write
    assert not understand("GET", APPS).is_write
