"""A content of a Blueprint is kept under a name of its own for as long as somebody needs it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.component.given import component

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import Blueprint, BlueprintSpec, Component
from stellwerk.operators.component.sources import blueprint_versions as versions
from stellwerk.operators.component.sources.blueprint_versions import VersionSummary
from stellwerk.render.errors import SourceError

DIGEST = "d" * 64
KEY = ObjectKey("shop", "print")


def blueprint(**files: str) -> Blueprint:
    return Blueprint(metadata=ObjectMeta(namespace="shop", name="print", generation=3), spec=BlueprintSpec(files=files))


def version(digest: str, *, deleting: bool = False) -> VersionSummary:
    metadata = {"namespace": "shop", "name": versions.version_name("print", digest)}
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    body = {"metadata": {**metadata, **gone}, "spec": {"blueprint": "print", "digest": digest}}
    return msgspec.convert(body, VersionSummary)


def user(name: str, taken: str = "", *, namespace: str = "shop", deleting: bool = False) -> Component:
    artifact: JsonObject = {"url": versions.url(KEY, taken), "digest": taken, "revision": "r"}
    status: JsonObject = {"sourceRef": {"artifact": artifact}} if taken else {}
    spec: JsonObject = {"sourceRef": {"blueprint": {"name": "print", "namespace": "shop"}}}
    return component(name, namespace, spec=spec, status=status, deleting=deleting)


def usage(
    current: str, digests: Collection[str], *components: Component, cross_namespace: bool = True
) -> versions.BlueprintUsage:
    def users(url: str) -> list[Component]:
        return [one for one in components if url in versions.index_by_version(one)]

    return versions.usage(
        KEY, current, map(version, digests), users, lambda value: components, cross_namespace=cross_namespace
    )


def test_an_artifact_names_blueprint_content_and_generation() -> None:
    artifact = versions.artifact(blueprint(a="1"))

    assert artifact.url == f"blueprint://shop/print/{artifact.digest}"
    assert artifact.revision == "generation:3"
    assert versions.version_of(KEY, artifact, versions.files({"a": "1"})) == {
        "apiVersion": "core.cs.sap.com/v1alpha1",
        "kind": "BlueprintVersion",
        "metadata": {"name": f"print--{artifact.digest}", "namespace": "shop"},
        "spec": {
            "blueprint": "print",
            "digest": artifact.digest,
            "revision": "generation:3",
            "files": {"a": "1"},
        },
    }


def test_a_component_is_found_by_the_version_it_has_taken() -> None:
    assert list(versions.index_by_version(user("a", DIGEST))) == [f"blueprint://shop/print/{DIGEST}"]
    assert versions.blueprint_of(f"blueprint://shop/print/{DIGEST}") == KEY
    flux: JsonObject = {"sourceRef": {"artifact": {"url": "http://x/a.tar.gz", "digest": "d", "revision": "r"}}}
    for one in (user("a"), component(status=flux)):
        assert list(versions.index_by_version(one)) == []


@pytest.mark.req("R-408")
@given(st.text("abc", min_size=1, max_size=253), st.text("abc", min_size=1, max_size=253))
def test_names_fit_and_do_not_collide(one: str, other: str) -> None:
    names = [versions.version_name(blueprint, DIGEST) for blueprint in (one, other)]

    assert all(len(name) <= 253 and name.endswith(f"--{DIGEST}") for name in names)
    assert (names[0] == names[1]) is (one == other)


@pytest.mark.req("R-408")
@pytest.mark.parametrize("path", ["../up", "/abs", "a/../b", "a//b", "./a", ""])
def test_a_path_that_is_unclean_or_leads_out_is_refused(path: str) -> None:
    with pytest.raises(SourceError, match="invalid file path in blueprint: "):
        versions.files({path: "x"})
    assert versions.files({"deploy/a.yaml": "x"})["deploy/a.yaml"] == b"x"


def test_a_version_is_needed_by_those_that_took_it_and_the_present_one_by_those_that_may_take_it() -> None:
    found = usage("new", ["old", "new", "older"], user("a", "old"), user("b"))

    assert {key.name: [one.name for one in users] for key, users in found.used.items()} == {
        "print--old": ["a"],
        "print--new": ["a", "b"],
    }
    assert [one.spec.digest for one in found.unused] == ["older"]
    assert [one.name for one in found.components] == ["a", "b"]
    assert found.has_followers


@pytest.mark.req("R-502")
def test_a_reference_that_is_refused_holds_no_blueprint_of_another_namespace() -> None:
    foreign = user("evil", "old", namespace="evil"), user("follower", namespace="evil")
    found = usage("new", ["old", "new"], *foreign, cross_namespace=False)
    assert [one.spec.digest for one in found.unused] == ["old", "new"]
    assert (found.used, found.has_followers) == ({}, False)

    own = usage("new", ["old", "new"], *foreign, user("web", "old"), cross_namespace=False)
    assert own.components == (ObjectKey("shop", "web"),)
    allowed = usage("new", ["old", "new"], *foreign)
    assert allowed.components == (ObjectKey("evil", "evil"), ObjectKey("evil", "follower"))


def test_without_a_blueprint_or_components_nothing_is_needed() -> None:
    assert [one.spec.digest for one in usage("", ["old"], user("b")).unused] == ["old"]
    assert usage("new", ["new"]).used == {}
    assert usage("new", ["new"], user("b", deleting=True)).used == {}
    assert not usage("new", ["new"], user("b", deleting=True)).has_followers


@pytest.mark.req("R-510")
def test_a_component_that_cannot_be_decoded_may_need_any_version() -> None:
    found = usage("new", ["old", "new"], user("a"))
    assert [one.spec.digest for one in found.unused] == ["old"]
    assert versions.used_unseen(found, []) == found

    kept = versions.used_unseen(found, [ObjectKey("shop", "odd")])
    assert {key.name: [one.name for one in users] for key, users in kept.used.items()} == {
        "print--old": ["odd"],
        "print--new": ["a"],
    }
    assert kept.unused == ()


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    found = versions.usage(KEY, "", [version("old", deleting=True)], lambda _: (), lambda _: (), cross_namespace=True)

    assert (found.used, found.unused) == ({}, ())


@pytest.mark.req("R-411")
def test_a_blueprint_has_as_many_files_as_an_archive_at_most() -> None:
    contents = {f"{number}": "" for number in range(10_001)}
    with pytest.raises(SourceError, match="the blueprint has 10001 files; at most 10000 are allowed"):
        versions.files(contents)
    del contents["0"]
    assert len(versions.files(contents)) == 10_000
