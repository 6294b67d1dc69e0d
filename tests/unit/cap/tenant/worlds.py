"""Worlds around a tenant, and what its steps and its former passes make of them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec
from tests.unit.cap import given
from tests.unit.cap.tenant.former import Decision, TenantNetworking, TenantReconciler, TenantSnapshot, decide
from tests.unit.cap.tenant.given import NOW, V1, V2, a_tenant, an_application, an_operation

from stellwerk.api.istio import VirtualService
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import JsonPatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import AlreadyExists, Status
from stellwerk.kube.types.model import (
    JsonObject,
    JsonValue,
    PartialObjectMetadata,
    Unreadable,
    Unstructured,
    owner_reference,
)
from stellwerk.kube.types.object_meta import ObjectMeta, kubernetes_time
from stellwerk.kube.watch.watch_states import Odd, Synced
from stellwerk.operators.cap import names, preparation
from stellwerk.operators.cap.collections import (
    APPLICATIONS,
    CLUSTER_DOMAINS,
    DOMAINS,
    OPERATIONS,
    OUTPUTS,
    OUTPUTS_OF,
    ROUTES,
    TENANTS,
    TENANTS_OF_ID,
    VERSIONS,
)
from stellwerk.operators.cap.hashed_objects import Written, is_written
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, TenantStatus
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import TenantReason
from stellwerk.operators.cap.tenant.decide import TenantLogic
from stellwerk.operators.cap.tenant.plan import TenantFailed
from stellwerk.operators.cap.tenant.routes import ApplyRoutes, TenantSettings
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime import conditions
from stellwerk.runtime.control.executor import rehearse
from stellwerk.runtime.control.step import Create, Delete, Patch, RemoveFinalizer
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainSources, View
from stellwerk.runtime.reconciler import Notice
from stellwerk.testing import steps as kit
from stellwerk.testing.clock import FakeClock

HOME = "cap-system"
COLLECTIONS = (APPLICATIONS, VERSIONS, TENANTS, OPERATIONS, OUTPUTS, DOMAINS, CLUSTER_DOMAINS, ROUTES)


@dataclass
class World:
    """A tenant and what is around it, as values."""

    tenant: CAPTenant
    objects: dict[Any, list[Any]] = field(default_factory=dict)
    hidden: dict[Any, list[Unreadable]] = field(default_factory=dict)

    def replace(self, collection: Any, new: Any) -> None:
        """Have an object be like this from now on."""
        kept = [each for each in self.objects.get(collection, []) if each.key != new.key]
        self.objects[collection] = [*kept, new]
        if collection is TENANTS and new.key == self.tenant.key:
            self.tenant = new

    def sources(self) -> PlainSources:
        found = PlainSources()
        for each in COLLECTIONS:
            found.add(each, PlainSource(self.objects.get(each, ()), self.hidden.get(each, ())))
        return found


@dataclass
class Course:
    """What came of a tenant until it rests."""

    requests: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    status: Any = None
    failure: Any = None
    is_released: bool = False


# ---- random worlds


def condition(reason: str = "R", status: str = "True", message: str = "the cause") -> JsonObject:
    return {"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": 1}


def a_version(some: random.Random, name: str) -> Any:
    workloads = [given.job("mtxs", "TenantOperation")]
    if some.random() < 0.8:
        workloads.append(given.deployment("app", "Router"))
    if some.random() < 0.05:
        workloads = [given.deployment("app", "Router")]
    found = given.version(*workloads, name=name, version=some.choice(["1.0.0", "2.0.0", "2.0.0", "3.0.0"]))
    if some.random() < 0.8:
        found = msgspec.structs.replace(found, status=msgspec.structs.replace(V1.status))
    return found


def an_own_operation(some: random.Random, tenant: CAPTenant, number: int) -> CAPTenantOperation:
    kind = some.choice(["provisioning", "upgrade", "upgrade", "deprovisioning"])
    outcome = some.choice(["Completed", "Completed", "Failed", "Failed", ""])
    found = an_operation(
        kind, outcome, some.choice(["bookshop-v1", "bookshop-v2", "bookshop-v3"]), at=some.randint(1, 9)
    )
    meta: dict[str, Any] = {"name": f"op-{number}", "owner_references": (owner_reference(tenant),)}
    if some.random() < 0.9:
        meta["finalizers"] = (names.OPERATION_FINALIZER,)
    if some.random() < 0.15:
        meta["deletion_timestamp"] = NOW
    if some.random() < 0.1:
        meta["annotations"] = {names.RETRY_ANNOTATION: some.choice(["r1", "r2"])}
    found = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **meta))
    if some.random() < 0.1:
        found = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, last_handled_retry="r1"))
    if some.random() < 0.05:
        found = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, steps=()))
    return found


def a_domain(some: random.Random, kind: type[Any], name: str) -> Any:
    namespace = "" if kind is ClusterDomain else given.NAMESPACE
    annotations: JsonObject = {}
    if kind is ClusterDomain and some.random() < 0.3:
        annotations[names.SERVED_NAMESPACES_ANNOTATION] = some.choice(["other", "shop"])
    body: JsonObject = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"domain": f"{name}.example.com", "ingressSelector": {"app": "gw"}},
        "status": {
            "state": some.choice(["Ready", "Ready", "Processing"]),
            "gatewayName": some.choice(["gw-1", "gw-1", ""]),
        },
    }
    return msgspec.convert(body, kind)


def a_route(some: random.Random, tenant: CAPTenant, name: str, hosts: list[str]) -> Unstructured:
    owner: JsonObject = {**msgspec.to_builtins(owner_reference(tenant)), "uid": f"uid-{name}", "name": name}
    created = f"2026-01-01T00:00:0{some.randint(1, 5)}Z"
    metadata: JsonObject = {
        "name": name,
        "namespace": given.NAMESPACE,
        "uid": f"uid-route-{name}",
        "creationTimestamp": created,
        "ownerReferences": [owner],
        "annotations": {names.RESOURCE_HASH_ANNOTATION: "former"},
    }
    if some.random() < 0.1:
        metadata["deletionTimestamp"] = created
    http: JsonObject = {"route": [{"destination": {"host": "former"}}]}
    if some.random() < 0.3:
        http["headers"] = {"request": {"set": {"x-forwarded-host": "evil"}}}
    body: JsonObject = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": metadata,
        "spec": {"hosts": [*hosts], "gateways": ["shop/gw-1"], "http": [http]},
    }
    return Unstructured(body, msgspec.convert(metadata, ObjectMeta))


def odd(kind: Any, name: str, **meta: Any) -> Unreadable:
    return Unreadable(kind.resource, ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", **meta), "spec: odd")


def in_steps(some: random.Random) -> kit.World[CAPTenant, TenantStatus]:
    """A random world, for the properties of all kinds that decide by steps."""
    world, clock = a_world(some), FakeClock()
    return kit.World(
        logic=TenantLogic(clock),
        obj=world.tenant,
        objects=world.objects,
        hidden=world.hidden,
        settings=(TenantSettings(home=HOME),),
        clock=clock,
    )


def a_world(some: random.Random) -> World:
    """Any tenant in any surroundings, rare ones often."""
    current = some.choice(["", "", "bookshop-v1", "bookshop-v2"])
    tenant = a_tenant(
        some.choice(["", "1.0.0", "2.0.0", "2.0.0", "3.0.0"]),
        current,
        some.choice(["", "always", "never"]),
        deleted=some.random() < 0.25,
        state=some.choice([None, None, "Ready", "Provisioning", "Upgrading", "UpgradeError", "ProvisioningError", ""]),
    )
    meta: dict[str, Any] = {}
    annotations = dict(tenant.metadata.annotations)
    if some.random() < 0.2:
        annotations[names.RETRY_ANNOTATION] = "r1"
    if some.random() < 0.15:
        meta["finalizers"] = ()
    if some.random() < 0.1:
        meta["labels"] = {**tenant.metadata.labels, names.TENANT_ID_LABEL: "former-id"}
    meta["creation_timestamp"] = NOW
    tenant = msgspec.structs.replace(
        tenant, metadata=msgspec.structs.replace(tenant.metadata, annotations=annotations, **meta)
    )
    status = msgspec.structs.replace(
        tenant.status,
        observed_generation=some.choice([0, 1, 1]),
        previous_versions=tuple(
            some.choices(["bookshop-v1", "bookshop-v2", "bookshop-v3"], k=some.choice([0, 0, 1, 11]))
        ),
        last_handled_retry=some.choice(["", "", "r1", "r0"]),
    )
    if some.random() < 0.6:
        ready = condition(
            some.choice(["UpgradeCompleted", "UpgradeFailed", "DuplicateTenant"]), some.choice(["True", "False"])
        )
        status = msgspec.structs.replace(status, conditions=(msgspec.convert(ready, type(V1.status.conditions[0])),))
    tenant = msgspec.structs.replace(tenant, status=status)

    world = World(tenant)
    references: list[JsonValue] = [
        {"kind": kind, "name": name}
        for kind, name in (("Domain", "d1"), ("ClusterDomain", "c1"))
        if some.random() < 0.5
    ]
    application = an_application(some.choice(["Consistent", "Processing", "Consistent, of a former generation"]))
    application = msgspec.structs.replace(application, spec=given.application(domainRefs=references).spec)
    marks: dict[str, str] = {}
    if some.random() < 0.2:
        marks[names.AFFINITY_ANNOTATION] = "true"
    if some.random() < 0.2:
        marks[names.REQUEST_HEADERS_ANNOTATION] = some.choice(['{"x-forwarded-host": "me"}', '{"x-own": "1"}', "odd"])
    application = msgspec.structs.replace(
        application, metadata=msgspec.structs.replace(application.metadata, annotations=marks)
    )
    fate = some.random()
    other = msgspec.structs.replace(
        application, metadata=msgspec.structs.replace(application.metadata, name="other", uid="uid-other")
    )
    world.objects[APPLICATIONS] = [application, other] if fate < 0.85 else [other]
    if fate > 0.93:
        world.hidden[APPLICATIONS] = [odd(type(application), "bookshop")]
    versions = [a_version(some, name) for name in ("bookshop-v1", "bookshop-v2", "bookshop-v3") if some.random() < 0.8]
    world.objects[VERSIONS] = versions
    if some.random() < 0.2:
        absent = {"bookshop-v1", "bookshop-v2", "bookshop-v3"} - {each.metadata.name for each in versions}
        world.hidden[VERSIONS] = [odd(type(V2), each) for each in sorted(absent)]
    world.objects[OPERATIONS] = [an_own_operation(some, tenant, n) for n in range(some.choice([0, 0, 1, 1, 2, 3]))]
    if some.random() < 0.08:
        world.hidden[OPERATIONS] = [odd(CAPTenantOperation, "op-odd", owner_references=(owner_reference(tenant),))]
    world.objects[OUTPUTS] = [
        PartialObjectMetadata(
            metadata=ObjectMeta(name="out", namespace="shop", uid="uid-out", labels={names.TENANT_ID_LABEL: "acme-id"})
        )
    ] * (some.random() < 0.2)
    world.objects[DOMAINS] = [a_domain(some, Domain, "d1")] * (some.random() < 0.85)
    if not world.objects[DOMAINS] and some.random() < 0.5:
        world.hidden[DOMAINS] = [odd(Domain, "d1")]
    world.objects[CLUSTER_DOMAINS] = [a_domain(some, ClusterDomain, "c1")] * (some.random() < 0.85)
    world.objects[ROUTES] = []
    if some.random() < 0.5:
        world.objects[ROUTES].append(
            a_route(some, tenant, "acme", some.choice([["acme.d1.example.com"], ["acme.old.example.com"]]))
        )
    if some.random() < 0.15:
        world.objects[ROUTES].append(a_route(some, tenant, "rival", ["acme.d1.example.com"]))
    world.objects[TENANTS] = [tenant]
    if some.random() < 0.2:
        twin = a_tenant("1.0.0", some.choice(["", "bookshop-v1"]), deleted=some.random() < 0.3)
        spec = msgspec.structs.replace(twin.spec, cap_application_instance=some.choice(["bookshop", "other", "absent"]))
        created = kubernetes_time(NOW) if some.random() < 0.5 else None
        twin_meta = msgspec.structs.replace(
            twin.metadata, name=some.choice(["aaa", "zzz"]), uid="uid-twin", creation_timestamp=created
        )
        world.objects[TENANTS].append(msgspec.structs.replace(twin, spec=spec, metadata=twin_meta))
    if some.random() < 0.1:
        labels = some.choice([{}, {names.TENANT_ID_LABEL: "acme-id"}, {names.TENANT_ID_LABEL: "another"}])
        world.hidden[TENANTS] = [odd(CAPTenant, "hidden", labels=labels)]
    return world


# ---- the passes of today


@dataclass
class Requests:
    """Notes what a pass sends, and answers as the API server would."""

    world: World
    course: Course

    def _collection(self, target: Any) -> Any:
        resource = getattr(target, "resource", None)
        return next(each for each in COLLECTIONS if each.resource == resource)

    async def patch(self, target: Any, name: str, namespace: str, patch: Any, **_: Any) -> Any:
        if isinstance(patch, JsonPatch):
            self.course.requests.append(("release",))
            self.course.is_released = True
            return self.world.tenant
        collection = self._collection(target)
        seen = next(each for each in self.world.objects[collection] if each.metadata.name == name)
        body = dict(patch.body)
        lacking = {k: v for k, v in body["metadata"].items() if k not in ("uid", "resourceVersion")}
        self.course.requests.append(("patch", collection.resource.kind, name, lacking, body.get("spec")))
        new = patched(seen, lacking, body.get("spec"))
        self.world.replace(collection, new)
        return new

    async def delete(self, target: Any, name: str, namespace: str, *, uid: str) -> None:
        collection = self._collection(target)
        seen = next((each for each in self.world.objects[collection] if each.metadata.name == name), None)
        if seen is None or seen.metadata.is_terminating:
            return
        self.course.requests.append(("delete", collection.resource.kind, name))
        self.world.replace(collection, leaving(seen))

    async def create(self, target: Any, body: Any, **_: Any) -> Any:
        found = msgspec.json.decode(msgspec.json.encode(body), type=CAPTenantOperation)
        if any(each.key == found.key for each in self.world.objects[OPERATIONS]):
            raise AlreadyExists(Status(code=409, reason="AlreadyExists"))
        self.course.requests.append(("create", found.metadata.name, msgspec.to_builtins(found)))
        self.world.replace(OPERATIONS, found)
        return found


def leaving(seen: Any) -> Any:
    metadata = msgspec.structs.replace(seen.metadata, deletion_timestamp=kubernetes_time(NOW))
    if isinstance(seen, Unstructured):
        return Unstructured(seen.body, metadata)
    return msgspec.structs.replace(seen, metadata=metadata)


def patched(seen: Any, lacking: Any, spec: Any) -> Any:
    if not isinstance(seen, Unstructured):
        new = preparation.prepared(seen, lacking)
        return msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, **(spec or {})))
    metadata: Any = msgspec.to_builtins(seen.metadata)
    for name, value in lacking.items():
        metadata[name] = {**metadata.get(name, {}), **value}
    return Unstructured({**seen.body, "metadata": metadata}, msgspec.convert(metadata, ObjectMeta))


@dataclass
class RouteWrites:
    """Notes the VirtualServices that a pass writes."""

    requests: Requests

    @property
    def client(self) -> Any:
        return self.requests

    async def apply(self, owner: Any, wanted: Any, live: Any, memory: ObservedState, written: Written) -> None:
        for address, (desired, hash) in wanted.items():
            found = live.get(address)
            if is_written(owner, found, desired, hash):
                continue
            if found is not None and found.metadata.is_terminating:
                written.waits.append(str(address))
                continue
            body = owner.stamped(desired.body, hash)
            self.requests.course.requests.append(("apply", address.key.name, body))
            written.is_changed = True
            self.requests.world.replace(ROUTES, Unstructured(body, msgspec.convert(body["metadata"], ObjectMeta)))

    async def delete(self, address: Any, live: Any) -> None:
        await self.requests.delete(VirtualService, address.key.name, address.key.namespace, uid=live.metadata.uid)


def fill(caches: Caches, world: World) -> None:
    informers = {
        APPLICATIONS: caches.applications,
        VERSIONS: caches.versions,
        TENANTS: caches.tenants,
        OPERATIONS: caches.operations,
        OUTPUTS: caches.outputs,
        DOMAINS: caches.domains,
        CLUSTER_DOMAINS: caches.cluster_domains,
        ROUTES: caches.virtual_services,
    }
    for collection, informer in informers.items():
        cast(Any, informer).take(Synced(tuple(world.objects.get(collection, ())), "1"))
        for each in world.hidden.get(collection, ()):
            cast(Any, informer).take(Odd(each))


def passes(world: World) -> Course:
    """What the reconciler makes of a world, pass by pass until it rests."""
    found = Course(status=world.tenant.status)
    requests: Any = Requests(world, found)
    clock = FakeClock()
    clock_now: Any = clock

    async def go() -> None:
        failures = 0
        for _ in range(15):
            caches = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
            caches.outputs.store.add_index(OUTPUTS_OF.name, OUTPUTS_OF.of)
            caches.tenants.store.add_index(TENANTS_OF_ID.name, TENANTS_OF_ID.of)
            fill(caches, world)
            networking = TenantNetworking(
                caches=caches, objects=cast(Any, RouteWrites(requests)), operator_namespace=HOME
            )
            reconciler = TenantReconciler(client=requests, caches=caches, networking=networking, clock=clock_now)
            before = (len(found.requests), world.tenant.status)
            found.failure = None
            try:
                answer = await reconciler.reconcile(world.tenant)
                status = answer.status
                found.events += [as_told(each) for each in answer.notices]
            except TenantFailed as error:
                status = reconciler.report(world.tenant, error)
                found.failure = (str(error), error.event_reason, error.action)
                failures += 1
            if found.is_released:
                return
            if status is not None and status != world.tenant.status:
                world.replace(TENANTS, msgspec.structs.replace(world.tenant, status=status))
                found.status = status
            if (len(found.requests), world.tenant.status) == before:
                return
        raise AssertionError("no rest")

    asyncio.run(go())
    return found


# ---- the steps


def steps(world: World) -> Course:
    """What `decide` makes of a world until it rests; a failure is tried again."""
    clock: Any = FakeClock()
    found, logic = Course(status=world.tenant.status), TenantLogic(clock)

    def view(overlay: Overlay) -> View:
        return View(sources=world.sources(), now=clock.now(), overlay=overlay, settings=(TenantSettings(home=HOME),))

    for _ in range(15):
        course = rehearse(logic, world.tenant, view)
        overlay = Overlay()
        for write in course.writes:
            found.requests.append(noted(write))
            found.is_released = isinstance(write, RemoveFinalizer)
            if not found.is_released:
                write.rehearse(overlay, NOW)
        found.events += [as_told(each) for step in course.steps for each in step.events]
        last = course.steps[-1].failure
        found.failure = (last.message, last.event_reason, last.action) if last is not None else None
        for each in COLLECTIONS:
            for new in overlay.of(cast(Any, each)).values():
                world.replace(each, new)
        is_same, found.status = course.status == found.status, course.status
        world.replace(TENANTS, msgspec.structs.replace(world.tenant, status=course.status))
        if found.is_released or (is_same and not course.writes):
            return found
    raise AssertionError("no rest")


def noted(write: Any) -> Any:
    """A write as `Requests` notes it."""
    match write:
        case Create():
            made = msgspec.json.decode(msgspec.json.encode(write.body), type=CAPTenantOperation)
            return ("create", made.metadata.name, msgspec.to_builtins(made))
        case Patch():
            kind, fields = write.collection.resource.kind, write.fields
            return ("patch", kind, write.seen.key.name, fields["metadata"], fields.get("spec"))
        case Delete():
            return ("delete", write.collection.resource.kind, write.seen.key.name)
        case ApplyRoutes():
            return ("apply", write.desired.address.key.name, write.body)
        case _:
            return ("release",)


def as_told(notice: Notice) -> Any:
    return (notice.reason, notice.message, notice.severity, notice.action)


# ---- a snapshot as a world


def world_of(seen: TenantSnapshot) -> World:
    """What a snapshot shows, as objects."""
    tenant, world = seen.tenant, World(seen.tenant)
    owner = (owner_reference(tenant),)

    def owned(each: CAPTenantOperation) -> CAPTenantOperation:
        return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, owner_references=owner))

    world.objects = {
        APPLICATIONS: [seen.application] if seen.application is not None else [],
        VERSIONS: [*seen.versions],
        TENANTS: [tenant, *seen.duplicates],
        OPERATIONS: [owned(each) for each in seen.operations],
    }
    world.hidden = {
        APPLICATIONS: [odd(CAPApplication, tenant.application_key.name)] if seen.is_application_hidden else [],
        VERSIONS: [odd(CAPApplicationVersion, key.name) for key in seen.hidden_versions],
        TENANTS: [Unreadable(CAPTenant.resource, each, "odd") for each in seen.hidden_duplicates],
        OPERATIONS: [odd(CAPTenantOperation, key.name, owner_references=owner) for key in seen.hidden_operations],
    }
    for each in (OUTPUTS, DOMAINS, CLUSTER_DOMAINS, ROUTES):
        world.objects[each] = []
    return world


# ---- the comparison


def lacks_version(found: Course) -> bool:
    """Whether the course ends with a tenant in use that lacks its version: the one intended difference."""
    cause = conditions.true_cause(found.status.conditions)
    reasons = (TenantReason.InvalidReference, TenantReason.ProcessingStarted)
    return found.status.state == "Ready" and cause is not None and cause.reason in reasons and not found.failure


def without_cause(found: Course) -> Course:
    """The course without what the tenant shows of a version that it lacks."""
    kept = [each for each in found.status.conditions if each.type not in conditions.CAUSES]
    shown = tuple(msgspec.structs.replace(each, message="", last_transition_time=None) for each in kept)
    return replace(
        found,
        events=[each for each in found.events if each[0] != TenantReason.InvalidReference],
        status=msgspec.structs.replace(found.status, conditions=shown, observed_generation=0),
    )


def compare(expected: Course, found: Course) -> bool:
    """Raises AssertionError if two courses differ. Whether they differ as intended."""
    is_intended = lacks_version(found)
    if is_intended:
        expected, found = without_cause(expected), without_cause(found)
    assert found == expected
    return is_intended


def decide_both(seen: TenantSnapshot) -> Decision:
    """The former decision, if the steps of the tenant come to the same as its former passes."""
    compare(passes(world_of(seen)), steps(world_of(seen)))
    return decide(seen)
