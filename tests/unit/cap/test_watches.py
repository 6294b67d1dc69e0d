"""The Secrets of a namespace are watched for as long as it has applications."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.core import Secret
from stellwerk.api.prometheus_operator import ServiceMonitor
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata, Unreadable, metadata_of, owner_reference
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced, WatchSuspended
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionStatus
from stellwerk.operators.cap.routing import targets
from stellwerk.operators.cap.subscription.callers.bindings import Bindings
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.operators.cap.tenant import subscription_objects
from stellwerk.operators.cap.watches import Caches, wire_applications, wire_versions
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.process.manager import Manager


def application(name: str, version: int) -> CAPApplication:
    body = {
        "metadata": {"namespace": "team", "name": name, "uid": name, "resourceVersion": str(version)},
        "spec": {"btpAppName": name, "btp": {"services": []}},
    }
    return msgspec.convert(body, CAPApplication)


@pytest.fixture
def manager() -> Manager:
    return Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))


async def test_the_secrets_of_a_namespace_are_watched_until_its_last_application_is_gone(manager: Manager) -> None:
    found = Caches(manager)
    found.applications.take(Synced((application("a", 1), application("b", 1)), "1"))
    secrets = found.secrets("team")
    found.applications.take(Removed(application("a", 2)))
    assert found.secrets("team") is secrets, "another one is left"
    found.applications.take(Removed(application("b", 3)))
    assert secrets not in manager.home.informers
    found.applications.take(Changed(application("c", 4)))
    assert found.secrets("team") is not secrets


def test_each_application_goes_on_when_the_secrets_of_its_namespace_can_be_read_again(manager: Manager) -> None:
    found, woken = Caches(manager), list[ObjectKey]()
    found.applications.take(Synced((application("a", 1),), "1"))
    controller = cast("Any", SimpleNamespace(queue=SimpleNamespace(add=woken.append)))
    found.secrets_wake(controller, lambda application: [application])
    secrets = found.secrets("team")
    secrets.take(WatchSuspended("not permitted", is_not_served=False))
    secrets.take(Synced((), "1"))
    assert woken == [ObjectKey("team", "a")], "it shows why they could not be read, though it has no services"


def test_an_application_goes_on_when_the_payload_of_its_provider_is_gone(manager: Manager) -> None:
    found, woken = Caches(manager), list[ObjectKey]()
    shop = given.application()
    payload, _ = subscription_objects.of_provider(shop, "1.0.0")
    found.applications.take(Synced((shop,), "1"))
    controller = cast("Any", SimpleNamespace(queue=SimpleNamespace(add=woken.append)))
    found.secrets_wake(controller, lambda application: [application])
    secrets = found.secrets(given.NAMESPACE)
    metadata = ObjectMeta(name=payload.key.name, namespace=given.NAMESPACE, uid="s", resource_version="1")
    secrets.take(Synced((PartialObjectMetadata(metadata=metadata),), "1"))
    woken.clear()
    secrets.take(Removed(PartialObjectMetadata(metadata=metadata)))
    assert woken == [shop.key]


@pytest.mark.parametrize(("owner", "is_seen"), [("a", True), ("b", False), ("", True)])
def test_a_version_that_cannot_be_read_concerns_its_owner_or_all_where_it_has_none(
    manager: Manager, owner: str, is_seen: bool
) -> None:
    found, own = Caches(manager), application("a", 1)
    owners = (owner_reference(application(owner, 1)),) if owner else ()
    metadata = ObjectMeta(name="v2", namespace="team", owner_references=owners)
    unreadable = Unreadable(CAPApplicationVersion.resource, metadata, "spec.workloads: expected array, got int")
    elsewhere = Unreadable(CAPApplicationVersion.resource, ObjectMeta(name="v2", namespace="other"), "spec: too deep")
    found.versions.take(Synced((), "1", (unreadable, elsewhere)))
    assert found.hidden_versions(own.key) == ([ObjectKey("team", "v2")] if is_seen else [])


def test_what_waits_for_an_object_that_cannot_be_read_goes_on_when_that_is_gone(manager: Manager) -> None:
    found, woken = Caches(manager), list[ObjectKey]()
    found.versions.take(Synced((given.version(capApplicationInstance="odd"), given.version(name="other")), "1"))
    fields = {"queue": SimpleNamespace(add=woken.append), "primary": found.versions}
    wire_versions(cast("Any", SimpleNamespace(**fields, watches=lambda *_: None)), found)
    metadata = ObjectMeta(name="odd", namespace=given.NAMESPACE, uid="u")
    odd = Unreadable(CAPApplication.resource, metadata, "spec: too deep")
    found.applications.take(Synced((), "1", (odd,)))
    woken.clear()
    found.applications.take(Removed(odd))
    assert woken == [ObjectKey(given.NAMESPACE, "bookshop-v1")]


@pytest.mark.parametrize("leaves", [True, False])
def test_a_version_that_is_being_deleted_goes_on_when_an_operation_with_it_changes(
    manager: Manager, leaves: bool
) -> None:
    found, wired = Caches(manager), list[tuple[Any, Any]]()
    version = given.version()
    if leaves:
        version = msgspec.structs.replace(
            version, metadata=msgspec.structs.replace(version.metadata, deletion_timestamp=datetime.now(UTC))
        )
    found.versions.take(Synced((version,), "1"))
    fields = {"queue": None, "primary": found.versions}
    wire_versions(cast("Any", SimpleNamespace(**fields, watches=lambda *each: wired.append(each))), found)
    (keys,) = (keys for informer, keys in wired if informer is found.operations)
    operation = given.operation("upgrade")
    expected = [version.key] if leaves else []
    assert keys(Delta(None, operation)) == expected
    assert keys(Delta(operation, None)) == expected


def ready(version: CAPApplicationVersion) -> CAPApplicationVersion:
    shown = msgspec.structs.replace(version.status, conditions=(Condition(type="Ready", status="True"),))
    return msgspec.structs.replace(version, status=shown)


def at(version: str, *, is_ready: bool = True) -> CAPTenant:
    """A tenant with this version."""
    tenant = given.tenant()
    shown = (Condition(type="Ready", status=str(is_ready)),)
    return msgspec.structs.replace(
        tenant, status=msgspec.structs.replace(tenant.status, current_version=version, conditions=shown)
    )


@pytest.mark.parametrize("renews", [True, False])
def test_versions_that_may_have_to_renew_credentials_go_on_when_tenants_get_them_or_a_newer_one_comes_or_goes(
    manager: Manager, renews: bool
) -> None:
    found, wired = Caches(manager), list[tuple[Any, Any]]()
    old, new = given.version(), given.version(name="bookshop-v2", version="2.0.0")
    found.applications.take(Synced((given.application(rolloutOnCredentialUpdate=renews),), "1"))
    found.versions.take(Synced((old, new), "1"))
    fields = {"queue": None, "primary": found.versions}
    wire_versions(cast("Any", SimpleNamespace(**fields, watches=lambda *each: wired.append(each))), found)
    (of_tenant,) = (keys for informer, keys in wired if informer is found.tenants)
    (of_sibling,) = (keys for informer, keys in wired if informer is found.versions)

    assert of_tenant(Delta(None, at("bookshop-v1"))) == ([old.key] if renews else [])
    assert of_tenant(Delta(at("bookshop-v2"), at("bookshop-v1"))) == ([old.key] if renews else [])
    assert of_tenant(Delta(at("bookshop-v1", is_ready=False), at("bookshop-v1"))) == ([old.key] if renews else [])
    assert of_tenant(Delta(at("bookshop-v1"), at("bookshop-v1"))) == []
    assert of_tenant(Delta(at("bookshop-v1"), None)) == []
    both = {old.key, new.key} if renews else set()
    assert {*of_sibling(Delta(new, ready(new)))} == both
    assert {*of_sibling(Delta(ready(new), None))} == both
    assert of_sibling(Delta(ready(new), ready(new))) == []
    assert of_sibling(Delta(new, None)) == []


def test_a_version_that_is_not_ready_goes_on_when_what_needs_it_changes_or_a_newer_one_is_ready(
    manager: Manager,
) -> None:
    found, wired = Caches(manager), list[tuple[Any, Any]]()
    failed = msgspec.structs.replace(given.version(), status=VersionStatus(state="Error"))
    new = ready(given.version(name="bookshop-v2", version="2.0.0"))
    found.versions.take(Synced((failed, new), "1"))
    fields = {"queue": None, "primary": found.versions}
    wire_versions(cast("Any", SimpleNamespace(**fields, watches=lambda *each: wired.append(each))), found)
    (of_tenant,) = (keys for informer, keys in wired if informer is found.tenants)
    (of_sibling,) = (keys for informer, keys in wired if informer is found.versions)
    (of_operation,) = (keys for informer, keys in wired if informer is found.operations)

    assert of_tenant(Delta(at("bookshop-v1"), at("bookshop-v2"))) == [failed.key]
    assert of_tenant(Delta(at("bookshop-v1"), None)) == [failed.key]
    assert of_tenant(Delta(at("bookshop-v2"), at("bookshop-v2", is_ready=False))) == [], "it needs the same one"
    assert of_tenant(Delta(None, at("bookshop-v2"))) == []
    assert of_sibling(Delta(given.version(name="bookshop-v2", version="2.0.0"), new)) == [failed.key]
    assert of_sibling(Delta(new, None)) == [failed.key]
    assert of_operation(Delta(given.operation("upgrade"), None)) == [failed.key]


def test_each_version_goes_on_when_a_kind_of_its_objects_is_served_again(manager: Manager) -> None:
    found, woken = Caches(manager), list[ObjectKey]()
    version = given.version()
    found.versions.take(Synced((version,), "1"))
    queue = SimpleNamespace(add=lambda key, _: woken.append(key))
    fields = {"queue": queue, "primary": found.versions}
    wire_versions(cast("Any", SimpleNamespace(**fields, watches=lambda *_: None)), found)
    monitors = found.version_objects[ServiceMonitor.resource]
    monitors.take(WatchSuspended("no such kind", is_not_served=True))
    monitors.take(Synced((), "1"))
    assert woken == [version.key]


@pytest.mark.parametrize(("part", "field"), [("tenants", "cap_application_instance"), ("versions", "application")])
def test_the_former_application_of_what_moved_to_another_one_goes_on(manager: Manager, part: str, field: str) -> None:
    found, wired = Caches(manager), list[tuple[Any, Any]]()
    fields = {"queue": None, "primary": found.applications}
    wire_applications(cast("Any", SimpleNamespace(**fields, watches=lambda *each: wired.append(each))), found)
    (keys,) = (keys for informer, keys in wired if informer is getattr(found, part))
    before = given.tenant() if part == "tenants" else given.version()
    spec = msgspec.structs.replace(before.spec, **{field: "other"})
    after = msgspec.structs.replace(before, spec=spec)
    assert {key.name for key in keys(Delta(before, after))} == {"bookshop", "other"}


@pytest.mark.parametrize("kind", [Domain, ClusterDomain])
def test_an_application_goes_on_when_a_domain_that_cannot_be_read_is_gone(
    manager: Manager, kind: type[Domain] | type[ClusterDomain]
) -> None:
    found, woken = Caches(manager), list[ObjectKey]()
    found.applications.take(Synced((application("a", 1),), "1"))
    fields = {"queue": SimpleNamespace(add=woken.append), "primary": found.applications}
    wire_applications(cast("Any", SimpleNamespace(**fields, watches=lambda *_: None)), found)
    metadata = ObjectMeta(name="odd", namespace="team" if kind is Domain else "", uid="u")
    odd, domains = Unreadable(kind.resource, metadata, ""), found.domains if kind is Domain else found.cluster_domains
    domains.take(Synced((), "1", (odd,)))
    woken.clear()
    domains.take(Removed(odd))
    assert woken == [ObjectKey("team", "a")]


async def test_so_are_the_secrets_that_callers_are_checked_with(manager: Manager) -> None:
    applications = manager.informer(CAPApplication)
    Bindings(
        ServiceReader(manager.client),
        manager.clock,
        applications,
        lambda namespace: manager.informer(metadata_of(Secret), namespace=namespace),
        manager.release,
    )
    applications.take(Synced((application("a", 1), application("b", 1)), "1"))
    applications.take(Removed(application("a", 2)))
    assert [each.selection.namespace for each in manager.home.informers] == ["", "team"]
    applications.take(Removed(application("b", 3)))
    assert [each.selection.namespace for each in manager.home.informers] == [""]
    applications.take(Changed(application("c", 4)))
    assert [each.selection.namespace for each in manager.home.informers] == ["", "team"]


@pytest.mark.req("R-915")
def test_a_reference_leads_to_no_cluster_domain_that_does_not_serve_the_namespace(manager: Manager) -> None:
    found, reference = Caches(manager), DomainRef(kind="ClusterDomain", name="shared")
    marks = {"sme.sap.com/served-namespaces": "team, other"}
    body = {"metadata": {"name": "shared", "annotations": marks}, "spec": {"domain": "a.com", "ingressSelector": {}}}
    found.cluster_domains.take(Synced((msgspec.convert(body, ClusterDomain),), "1"))
    assert found.domain("team", reference) is not None
    assert found.domain("shop", reference) is None
    application = given.application(domainRefs=[{"kind": "ClusterDomain", "name": "shared"}])
    message = targets.unready_domain(application, found.domain)
    assert "does not serve namespace shop" in message
    assert "kubectl annotate clusterdomain shared sme.sap.com/served-namespaces=NAMESPACES --overwrite" in message
