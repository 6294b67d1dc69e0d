"""A running application of the original is taken over as it is, and what we leave is what the original expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from tests.cluster.cap.domain.scenario import Given
from tests.cluster.cap.shop import OPERATOR, Shop
from tests.cluster.cap.takeover.original import CONSUMER, PROVIDER, Left, Tree, condition, sha1, workloads
from tests.cluster.cap.takeover.running import WholeOperator

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import Pod, Secret
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, unstructured
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually


async def runs(shop: Shop) -> bool:
    """Whether the Jobs of the original have ended, and its Deployments are available."""
    jobs = await shop.all_jobs()
    assert jobs
    assert all(job.is_complete for job in jobs), "a Job runs"
    deployments = (await shop.client.list(Deployment, shop.namespace)).items
    return all((each.condition("Available") or False) and each.status.available_replicas for each in deployments)


async def identities(client: Client, namespace: str, lefts: list[Left]) -> Mapping[str, tuple[str, int]]:
    """Uid and generation of every object, and of the pods."""
    found: dict[str, tuple[str, int]] = {}
    kinds: dict[Resource, None] = dict.fromkeys([left.resource for left in lefts] + [Pod.resource])
    for resource in kinds:
        for each in (await client.list(metadata_of(resource), namespace)).items:
            metadata = each.metadata
            found[f"{resource.kind} {metadata.name}"] = metadata.uid, metadata.generation
    return found


@pytest.mark.req("R-306")
async def test_a_running_application_is_taken_over_without_a_write_to_anything_but_a_status(
    whole: WholeOperator, tree: Tree, shop: Shop, original: Client, audit: AuditLog
) -> None:
    await tree.plant(original)
    await eventually(lambda: runs(shop), describe="the application of the original runs")
    lefts = [*tree.all()]
    before = await identities(shop.client, shop.namespace, lefts)
    audit.mark()

    await whole.start()
    await whole.settled(shop.client)

    writes = audit.entries(lambda entry: entry.user == OPERATOR and entry.is_write and entry.resource != "leases")
    places = {shop.namespace, tree.ingress, ""}
    written = Counter(f"{each.verb} {each.resource}/{each.subresource}" for each in writes if each.namespace in places)
    assert set(written) <= {
        "update capapplications/status",
        "update capapplicationversions/status",
        "create events/",
    }, written
    assert max(written.values(), default=0) == 1, written
    assert await identities(shop.client, shop.namespace, lefts) == before
    for name in (PROVIDER, CONSUMER):
        await shop.tenant_shows("ProvisioningCompleted", name=name)
    await shop.shows_application("VersionExists", state="Consistent")


@pytest.mark.req("R-306")
async def test_an_operation_that_the_original_began_is_finished_with_the_job_that_runs(
    whole: WholeOperator, tree: Tree, shop: Shop, original: Client, audit: AuditLog
) -> None:
    await tree.plant(original, running=CONSUMER)
    (pod,) = await shop.names_of_pods(f"job-name={tree.names[f'{CONSUMER} job']}")
    jobs = {job.metadata.name for job in await shop.all_jobs()}
    audit.mark()

    await whole.start()
    await whole.settled(shop.client)
    await shop.tenant_shows("ProvisioningOperationCreated", state="Provisioning", name=CONSUMER)
    await shop.end_fate(pod)
    tenant = await shop.tenant_shows("ProvisioningCompleted", name=CONSUMER)
    await whole.settled(shop.client)

    assert tenant.status.current_version == "shop-v1"
    assert {job.metadata.name for job in await shop.all_jobs()} == jobs
    created = [each for each in shop.requests(audit) if each.verb == "create" and each.resource != "events"]
    assert created == []


@pytest.mark.req("R-306")
@pytest.mark.parametrize("absent", ["Secret", "certificate"])
async def test_an_application_that_waits_at_the_takeover_shows_for_what_and_goes_on(
    whole: WholeOperator, tree: Tree, shop: Shop, original: Client, given: Given, audit: AuditLog, absent: str
) -> None:
    """The conditions that the original leaves have empty messages, which are kept until there is more to report."""
    await tree.plant(original)
    domain = await shop.client.get(Domain, "primary", shop.namespace)
    if absent == "Secret":
        await shop.client.delete(metadata_of(Secret), "uaa-secret", shop.namespace)
    else:
        await given.certificates_are(domain, "Pending")
    audit.mark()

    await whole.start()
    reason = "ProcessingSecrets" if absent == "Secret" else "ProcessingDomainReferences"
    await shop.shows_application(reason, state="Consistent" if absent == "Secret" else "Processing")
    await (shop.bind() if absent == "Secret" else given.is_ready(domain))
    await shop.shows_application("VersionExists", state="Consistent")
    assert refused(audit) == []


@pytest.mark.req("R-306")
@pytest.mark.parametrize("failed", [False, True])
async def test_an_application_that_is_being_deleted_at_the_takeover_goes_as_a_whole(
    whole: WholeOperator, tree: Tree, shop: Shop, original: Client, audit: AuditLog, failed: bool
) -> None:
    await tree.plant(original, running="" if failed else CONSUMER)
    if failed:
        error = condition("Ready", "", "ProvisioningFailed") | {"status": "False"}
        status: JsonObject = {"state": "ProvisioningError", "currentCAPApplicationVersionInstance": None}
        patch = MergePatch({"status": {**status, "conditions": [error]}})
        await original.patch(metadata_of(CAPTenant), CONSUMER, shop.namespace, patch, subresource="status")
    for kind, name in ((CAPTenant, CONSUMER), (CAPApplication, "shop")):
        await shop.client.delete(metadata_of(kind), name, shop.namespace)
    audit.mark()

    await whole.start()
    if not failed:
        (pod,) = await shop.names_of_pods(f"job-name={tree.names[f'{CONSUMER} job']}")
        await shop.end_fate(pod)
    await shop.is_gone(CAPApplication, "shop", within=90)
    assert await shop.names_of(CAPTenant.resource) == []
    assert refused(audit) == []


def refused(audit: AuditLog) -> list[AuditEntry]:
    """The writes of the operator that broke a schema."""
    return [*audit.entries(lambda entry: entry.user == OPERATOR and entry.is_write and entry.status == 422)]


async def test_what_was_taken_over_is_upgraded_in_place_and_goes_as_a_whole(
    whole: WholeOperator, tree: Tree, shop: Shop, original: Client, given: Given
) -> None:
    await tree.plant(original)
    await eventually(lambda: runs(shop), describe="the application of the original runs")
    routes = await shop.client.get(metadata_of(VirtualService), CONSUMER, shop.namespace)
    await whole.start()

    await shop.release("2", *workloads())
    for name in (PROVIDER, CONSUMER):
        tenant = await shop.tenant_shows("UpgradeCompleted", name=name)
        assert tenant.status.previous_versions == ("shop-v1",)
    after = await shop.client.get(VirtualService, CONSUMER, shop.namespace)
    assert after.metadata.uid == routes.metadata.uid
    assert after.spec.http[0].route[0].destination.host.startswith("shop-v2-app-svc.")

    for kind, name in ((CAPTenant, CONSUMER), (CAPApplication, "shop"), (Domain, "primary")):
        await shop.client.delete(metadata_of(kind), name, shop.namespace)

    async def gone() -> bool:
        kinds = {left.resource for left in tree.all()} - {Secret.resource}
        left = {kind.kind: await shop.names_of(kind) for kind in kinds}
        left["Secret"] = [name for name in await shop.names_of(Secret.resource) if name != "uaa-secret"]
        assert not any(left.values()), left
        return True

    await eventually(gone, within=90, describe="all that belonged to the application is gone")


# ---- and back


@pytest.mark.req("R-306")
async def test_what_we_set_up_is_what_the_original_expects(
    whole: WholeOperator, tree: Tree, shop: Shop, given: Given
) -> None:
    """Each object of the original has one of ours with the same marks: it is found, and its hash is the same."""
    await whole.start()
    for left in (tree.domain(), tree.application(), tree.version()):
        await shop.client.create(unstructured(left.resource), wished(left))
    domain = await shop.client.get(Domain, "primary", shop.namespace)
    await given.is_ready(domain)
    await shop.shows_application("VersionExists", state="Consistent")
    await shop.subscribe(CONSUMER, guid="guid-of-consumer", context=tree.names[f"{CONSUMER} context"])
    for name in (PROVIDER, CONSUMER):
        await shop.tenant_shows("ProvisioningCompleted", name=name)
    await whole.settled(shop.client)

    ours = await named_as_ours(shop, tree)
    payload = ours.names[f"{CONSUMER} context"]  # the subscription server's
    for left in (each for each in ours.all() if each.name != payload):
        made = await shop.client.get(unstructured(left.resource), left.name, left.namespace)
        wanted = {key: value for key, value in left.body.items() if key != "data"}
        differing = [*differences(wanted, made.body)]
        assert not differing, f"{left.resource.kind} {left.name}: {differing}"


def wished(left: Left) -> JsonObject:
    """What a user writes of an object."""
    resource = left.resource
    metadata: JsonObject = {"name": left.name, "namespace": left.namespace}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": left.body["spec"],
    }


async def named_as_ours(shop: Shop, tree: Tree) -> Tree:
    """The same application with the names and uids that ours has, found as the original finds its objects."""
    names, uids = dict(tree.names), dict(tree.uids)
    for kind in (Domain, CAPApplication, CAPApplicationVersion, CAPTenant, CAPTenantOperation):
        for each in (await shop.client.list(metadata_of(kind), shop.namespace)).items:
            uids[f"{kind.resource.kind} {each.metadata.name}"] = each.metadata.uid

    async def name_of(resource: Resource, **labels: str) -> str:
        selector = ",".join(f"sme.sap.com/{key.replace('_', '-')}={value}" for key, value in labels.items())
        found = (await shop.client.list(metadata_of(resource), shop.namespace, labels=selector)).items
        assert len(found) == 1, f"{resource.kind} {selector}: {[each.metadata.name for each in found]}"
        return found[0].metadata.name

    owner = sha1(f"Domain.{shop.namespace}.primary")
    for part, resource in (
        ("certificate", GardenerCertificate.resource),
        ("gateway", Gateway.resource),
        ("domain policy", NetworkPolicy.resource),
        ("dns", DnsEntry.resource),
    ):
        names[part] = await name_of(resource, owner_identifier_hash=owner)
    exposures = sha1("CAPApplication", shop.namespace, "shop")
    names["exposure"] = await name_of(VirtualService.resource, owner_identifier_hash=exposures)
    for part in ("content", "srv", "app"):
        mark = sha1(shop.namespace, "shop-v1", f"shop-v1-{part}")
        names[f"{part} credentials"] = await name_of(Secret.resource, secret_owner_hash=mark)
    for tenant in (PROVIDER, CONSUMER):
        owner = sha1(shop.namespace, tenant)
        operation = await name_of(CAPTenantOperation.resource, owner_identifier_hash=owner)
        names[f"{tenant} operation"] = operation
        names[f"{tenant} job"] = await name_of(
            Job.resource, owner_identifier_hash=sha1(shop.namespace, operation), tenant_operation_step="1"
        )
        mark = sha1(shop.namespace, operation, f"{operation}-mtxs")
        names[f"{tenant} credentials"] = await name_of(Secret.resource, secret_owner_hash=mark)
        found = await shop.client.get(CAPTenant, tenant, shop.namespace)
        names[f"{tenant} context"] = found.metadata.annotations["sme.sap.com/subscription-context-secret"]
    return replace(tree, names=names, uids=uids)


def differences(wanted: JsonValue, found: JsonValue, path: str = "") -> Iterator[str]:
    """Where `found` lacks something of `wanted`; it may have more. The generation of an owner may be any."""
    if path.endswith("sme.sap.com/owner-generation"):
        if not (isinstance(found, str) and found.isdigit()):
            yield f"{path} is {found!r}"
    elif isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from differences(value, found.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif wanted != found:
        yield f"{path} is {found!r}, not {wanted!r}"
