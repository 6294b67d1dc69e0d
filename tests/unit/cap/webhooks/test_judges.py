"""A webhook refuses domains that cannot be converted where a write brings them, and not for ever."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.cap import given

from stellwerk.api.admission import AdmissionRequest
from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Status
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, Unreadable, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap import duplicates, names
from stellwerk.operators.cap.duplicates import BY_SPEC_ID
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.webhooks.judges import Judges
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.serving.webhook import Admission, Allowed, Decision, Denied

NOTHING: Any = None
HOST = "shop.example.com"


async def test_an_object_that_cannot_be_read_is_denied_as_the_original_begins_its_messages() -> None:
    judges = Judges(
        client=NOTHING,
        applications=NOTHING,
        tenants=NOTHING,
        domains=NOTHING,
        cluster_domains=NOTHING,
        namespaces=NOTHING,
    )
    for webhook in judges.webhooks():
        kind = webhook.gvk.kind
        answer = await webhook.answer(AdmissionRequest(uid="1", object=msgspec.Raw(b'{"metadata": 1}')))
        assert isinstance(answer.status, Status)
        assert answer.status.message.startswith(f"invalidated from webhook {kind} this is not a valid {kind}")


async def decision(
    old: CAPApplication | None,
    new: CAPApplication,
    *,
    corrected: JsonObject | None = None,
    tenants: Sequence[CAPTenant] = (),
) -> Allowed | Denied:
    """About a write while a Domain of another namespace has the host."""
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    judges = Judges(
        client=NOTHING,
        applications=NOTHING,
        tenants=manager.informer(CAPTenant),
        domains=manager.informer(Domain),
        cluster_domains=manager.informer(ClusterDomain),
        namespaces=manager.informer(metadata_of(Namespace)),
    )
    judges.tenants.take(Synced(tuple(tenants), "1"))
    foreign = {"metadata": {"name": "theirs", "namespace": "other"}, "spec": {"domain": HOST, "ingressSelector": {}}}
    judges.domains.take(Synced((msgspec.convert(foreign, Domain),), "1"))
    is_update, key = old is not None or corrected is not None, ObjectKey("shop", "bookshop")
    operation = "UPDATE" if is_update else "CREATE"
    admission = Admission(operation=operation, key=key, user=NOTHING, old=old, new=new, corrected=corrected)
    found = await judges.application(admission)
    assert isinstance(found, Allowed | Denied)
    return found


async def test_a_misspelt_canary_is_a_warning_once_the_application_has_tenants() -> None:
    subject = given.application(tenantUpgrade={"canaryTenants": ["acme", "acmee", "tid-of-best"]})
    best = given.tenant("best")
    best = msgspec.structs.replace(best, spec=msgspec.structs.replace(best.spec, tenant_id="tid-of-best"))
    assert await decision(None, subject) == Allowed(), "its tenants are still to come"
    foreign = given.tenant("acmee")
    foreign = msgspec.structs.replace(
        foreign, spec=msgspec.structs.replace(foreign.spec, cap_application_instance="other")
    )
    found = await decision(None, subject, tenants=[given.tenant("acme"), best, foreign])
    assert found == Allowed(
        (
            "spec.tenantUpgrade.canaryTenants of CAPApplication shop/bookshop has 'acmee' (nearest: acme): no name and "
            "no tenant id of its tenants (there are acme, best), so no upgrade waits for it. Correct it with: "
            "kubectl edit ca bookshop -n shop",
        )
    )
    assert await decision(subject, subject, tenants=[given.tenant("acme"), best]) == Allowed(), "it is nothing new"


async def test_an_application_whose_host_another_namespace_has_can_be_changed_in_other_respects() -> None:
    subject = given.application(domains={"primary": HOST})
    found = await decision(subject, subject)
    assert isinstance(found, Allowed)
    assert "Domain other/theirs has the host shop.example.com" in found.warnings[-1]


async def test_a_host_that_another_namespace_has_is_refused_where_a_write_brings_it() -> None:
    subject = given.application(domains={"primary": HOST})
    assert isinstance(await decision(None, subject), Denied)
    assert isinstance(await decision(given.application(domains={"primary": "b.example.com"}), subject), Denied)


async def test_the_correction_of_an_application_that_cannot_be_read_is_not_refused_for_its_domains() -> None:
    subject = given.application(domains={"primary": HOST})
    assert isinstance(await decision(None, subject, corrected={}), Allowed)
    references: JsonObject = {"spec": {"domainRefs": [{"kind": "Domain", "name": "a"}]}}
    assert isinstance(await decision(None, subject, corrected=references), Denied)


@pytest.mark.req("R-911")
async def test_domains_may_be_written_into_a_new_application_that_refers_to_none() -> None:
    inline: JsonObject = {"primary": "new.example.com"}
    found = await decision(None, given.application(domains=inline))
    assert found == Allowed(("CAPApplication Spec.Domains is deprecated, use Spec.DomainRefs instead",))
    references: list[JsonValue] = [{"kind": "Domain", "name": "a"}]
    assert isinstance(await decision(None, given.application(domains=inline, domainRefs=references)), Denied)


async def test_a_missing_service_is_a_warning_and_a_missing_application_a_denial() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    judges = Judges(
        client=cast("Client", OnlyReads()),
        applications=manager.informer(CAPApplication),
        tenants=NOTHING,
        domains=manager.informer(Domain),
        cluster_domains=manager.informer(ClusterDomain),
        namespaces=NOTHING,
    )
    judges.applications.take(Synced((given.application(),), "1"))

    async def asked(made: CAPApplicationVersion) -> Decision:
        admission = Admission(operation="CREATE", key=made.key, user=NOTHING, old=None, new=made)
        return await judges.version(admission)

    usual = (given.deployment("app", "Router"), given.job("mtxs", "TenantOperation"))
    ghost: JsonObject = {**given.deployment("srv", "CAP"), "consumedBTPServices": ["ghost"]}
    assert await asked(given.version()) == Allowed()
    warned = await asked(given.version(ghost, *usual))
    assert isinstance(warned, Allowed)
    (warning,) = warned.warnings
    assert warning.startswith("spec.workloads[0].consumedBTPServices[0] is 'ghost': no such service")
    denied = await asked(given.version(capApplicationInstance="boskshop"))
    assert isinstance(denied, Denied)
    assert "CAPApplication shop/boskshop does not exist (there is bookshop)" in denied.message


class OnlyReads:
    """A client that finds nothing, and fails with anything but a read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def find(self, kind: Any, name: str, namespace: str) -> None:
        self.read.append(kind.__name__)

    async def list(self, kind: Any, namespace: str, **_: Any) -> Any:
        self.read.append(kind.__name__)
        return SimpleNamespace(items=())

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a judge calls {name}")


@pytest.mark.req("R-911")
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
async def test_no_judge_writes_whatever_it_is_asked_and_none_patches(operation: str) -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    tenants = manager.informer(CAPTenant)
    tenants.store.add_index(BY_SPEC_ID, duplicates.by_tenant_id)
    client = OnlyReads()
    judges = Judges(
        client=cast("Client", client),
        applications=manager.informer(CAPApplication),
        tenants=tenants,
        domains=manager.informer(Domain),
        cluster_domains=manager.informer(ClusterDomain),
        namespaces=manager.informer(metadata_of(Namespace)),
    )
    inline: JsonObject = {"primary": "a.example.com", "secondary": ["b.example.com"]}
    domain: JsonObject = {"domain": "c.example.com", "ingressSelector": {"istio": "gateway"}}
    output = {"metadata": {"name": "o", "namespace": "shop", "labels": {"sme.sap.com/btp-tenant-id": "acme-id"}}}
    subjects: dict[str, Any] = {
        "CAPApplication": given.application(domains=inline),
        "CAPApplicationVersion": given.version(),
        "CAPTenant": given.tenant(),
        "CAPTenantOutput": output,
        "Domain": {"metadata": {"name": "d", "namespace": "shop"}, "spec": domain},
        "ClusterDomain": {"metadata": {"name": "d"}, "spec": domain},
    }
    for judge in judges.webhooks():
        body = msgspec.Raw(msgspec.json.encode(subjects[judge.gvk.kind]))
        for dry_run in (True, False):
            request = AdmissionRequest(
                uid="1",
                name="shop",
                namespace="shop",
                operation=operation,
                dry_run=dry_run,
                object=body if operation != "DELETE" else msgspec.Raw(b"null"),
                old_object=body if operation != "CREATE" else msgspec.Raw(b"null"),
            )
            answer = await judge.answer(request)
            assert not answer.patch, judge.path
    if operation == "CREATE":
        assert {"CAPApplication", "CAPTenant"} <= {*client.read}


async def test_a_correction_moves_no_tenant_or_version_to_another_application() -> None:
    judges = Judges(
        client=NOTHING,
        applications=NOTHING,
        tenants=NOTHING,
        domains=NOTHING,
        cluster_domains=NOTHING,
        namespaces=NOTHING,
    )
    former: JsonObject = {"spec": {"capApplicationInstance": "other"}}
    tenant, version = given.tenant("acme"), given.version()
    of_tenant = Admission(operation="UPDATE", key=tenant.key, user=NOTHING, new=tenant, corrected=former)
    of_version = Admission(operation="UPDATE", key=version.key, user=NOTHING, new=version, corrected=former)
    assert isinstance(await judges.tenant(of_tenant), Denied)
    assert isinstance(await judges.version(of_version), Denied)


def of_tenants() -> Judges:
    """Judges with caches of what a tenant is compared with."""
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    tenants = manager.informer(CAPTenant)
    tenants.store.add_index(BY_SPEC_ID, duplicates.by_tenant_id)
    return Judges(
        client=NOTHING,
        applications=manager.informer(CAPApplication),
        tenants=tenants,
        domains=manager.informer(Domain),
        cluster_domains=manager.informer(ClusterDomain),
        namespaces=NOTHING,
    )


@pytest.mark.req("R-918")
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_second_tenant_with_the_tenant_id_of_a_provider_is_refused(is_deleted: bool) -> None:
    judges = of_tenants()
    first, second = given.tenant("acme"), given.tenant("other")
    if is_deleted:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        first = replace(first, metadata=replace(first.metadata, deletion_timestamp=moment))
    judges.applications.take(Synced((given.application(),), "1"))
    judges.tenants.take(Synced((first,), "1"))
    same = replace(second, spec=replace(second.spec, tenant_id="acme-id"))

    async def decided(old: CAPTenant | None, new: CAPTenant) -> Decision:
        return await judges.tenant(Admission(operation="CREATE", key=new.key, user=NOTHING, old=old, new=new))

    assert await decided(None, second) == Allowed()
    assert await decided(first, first) == Allowed()
    assert await decided(same, same) == Allowed(), "a tenant that is a duplicate already may be changed"
    for old in (None, second):
        denied = await decided(old, same)
        assert isinstance(denied, Denied)
        assert "CAPTenant shop/acme has the tenantId acme-id of shop.other" in denied.message
        assert ("wait until it is gone" in denied.message) == is_deleted


@pytest.mark.req("R-918", "R-941")
@pytest.mark.parametrize("label", ["acme-id", "other-id"])
async def test_a_tenant_with_the_labelled_id_of_one_that_cannot_be_read_is_refused(label: str) -> None:
    judges = of_tenants()
    new = given.tenant("acme")
    metadata = replace(new.metadata, name="odd", labels={"sme.sap.com/btp-tenant-id": label})
    judges.applications.take(Synced((given.application(),), "1"))
    judges.tenants.take(Synced((), "1", (Unreadable(CAPTenant.resource, metadata, "spec: too large"),)))
    decision = await judges.tenant(Admission(operation="CREATE", key=new.key, user=NOTHING, new=new))
    assert isinstance(decision, Denied) == (label == "acme-id")


@pytest.mark.req("R-914")
@pytest.mark.parametrize(("grant", "is_accepted"), [(None, False), (HOST, True), ("example.org", False)])
async def test_a_host_below_that_of_another_namespace_needs_a_grant_of_an_administrator(
    grant: str | None, is_accepted: bool
) -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    judges = Judges(
        client=NOTHING,
        applications=NOTHING,
        tenants=NOTHING,
        domains=manager.informer(Domain),
        cluster_domains=manager.informer(ClusterDomain),
        namespaces=manager.informer(metadata_of(Namespace)),
    )
    spec: JsonObject = {"domain": "example.com", "ingressSelector": {}}
    judges.cluster_domains.take(
        Synced((msgspec.convert({"metadata": {"name": "theirs"}, "spec": spec}, ClusterDomain),), "1")
    )
    annotations = {names.DOMAIN_SUFFIXES_ANNOTATION: grant} if grant is not None else {}
    namespace = PartialObjectMetadata(metadata=ObjectMeta(name="shop", annotations=annotations))
    judges.namespaces.take(Synced((namespace,), "1"))
    body = {"metadata": {"name": "mine", "namespace": "shop"}, "spec": {**spec, "domain": HOST}}
    new = msgspec.convert(body, Domain)
    found = await judges.domain(Admission(operation="CREATE", key=new.key, user=NOTHING, new=new))
    assert isinstance(found, Allowed) is is_accepted
