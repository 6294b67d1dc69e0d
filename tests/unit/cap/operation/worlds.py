"""Worlds around an operation, and what its steps and its former passes make of them."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from tests.unit.cap import given
from tests.unit.cap.operation import former
from tests.unit.cap.operation.former import OperationFailed, OperationReconciler, Snapshot
from tests.unit.cap.tenant.worlds import odd

from stellwerk.api.batch import Job
from stellwerk.api.core import Pod, Secret
from stellwerk.kube.client.client import Client, Deletion, view_of
from stellwerk.kube.client.patch import JsonPatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import AlreadyExists, Status
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, Unreadable, owner_reference
from stellwerk.kube.types.object_meta import ObjectMeta, kubernetes_time
from stellwerk.kube.watch.watch_states import Odd, Synced
from stellwerk.operators.cap import names
from stellwerk.operators.cap.collections import (
    APPLICATIONS,
    BINDINGS,
    CREDENTIALS,
    JOBS,
    OPERATIONS,
    TENANTS,
    VERSIONS,
)
from stellwerk.operators.cap.kinds.status import RetryProgress
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, OperationStatus
from stellwerk.operators.cap.kinds.version import VersionStatus
from stellwerk.operators.cap.operation import plan
from stellwerk.operators.cap.operation.around import OperationContext
from stellwerk.operators.cap.operation.decide import OperationLogic
from stellwerk.operators.cap.operation.ingredients import OperationSettings
from stellwerk.operators.cap.pods import credentials
from stellwerk.operators.cap.pods.credentials import BindingSecrets, CredentialSecrets
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.control.executor import Course, rehearse
from stellwerk.runtime.control.step import Create, Delete, Patch, RemoveFinalizer, merged
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.known import ABSENT, NotKnown, Present, Refused, Unknown
from stellwerk.runtime.reading.questions import PlainSource, Question
from stellwerk.runtime.reading.view import Overlay, PlainSources, View
from stellwerk.runtime.reconciler import Notice
from stellwerk.testing import steps as kit
from stellwerk.testing.clock import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COLLECTIONS = (APPLICATIONS, VERSIONS, TENANTS, OPERATIONS, JOBS, CREDENTIALS)
READY: JsonObject = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
STEPS: tuple[JsonObject, ...] = (
    {"name": "notify", "type": "CustomTenantOperation", "continueOnFailure": True},
    {"name": "mtxs", "type": "TenantOperation"},
)


@dataclass
class World:
    """An operation and what is around it, as values."""

    operation: CAPTenantOperation
    objects: dict[Any, list[Any]] = field(default_factory=dict)
    hidden: dict[Any, list[Unreadable]] = field(default_factory=dict)
    secrets: list[Secret] = field(default_factory=list)
    """Those of bindings."""
    words: str = ". Last exit code 1 (Error)"
    made: int = 0
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))

    def replace(self, collection: Any, new: Any) -> None:
        """Have an object be like this from now on."""
        kept = [each for each in self.objects.get(collection, []) if each.key != new.key]
        if not new.metadata.uid:
            self.made += 1
            metadata = msgspec.structs.replace(
                new.metadata, uid=f"made-{self.made}", resource_version=str(100 + self.made)
            )
            new = msgspec.structs.replace(new, metadata=metadata)
        self.objects[collection] = [*kept, new]
        if collection is OPERATIONS and new.key == self.operation.key:
            self.operation = new

    def sources(self) -> PlainSources:
        """What a view reads."""
        found = PlainSources().add(BINDINGS, PlainSource([metadata_alone(each) for each in self.secrets]))
        for each in COLLECTIONS:
            found.add(cast(Any, each), PlainSource(self.objects.get(each, ()), self.hidden.get(each, ())))
        return found

    def view(self, overlay: Overlay | None = None) -> View:
        """A view of the world as it is now."""
        bindings = BindingSecrets(cast(Any, Requests(self, Outcome())), cast(Any, self.caches().secrets))
        return View(
            sources=self.sources(),
            now=self.clock.now(),
            settings=(OperationSettings(bindings=bindings),),
            overlay=overlay or Overlay(),
            loads=WorldLoads(self),
        )

    def caches(self) -> Caches:
        """The caches of a process in this world."""
        caches = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
        informers = {
            APPLICATIONS: caches.applications,
            VERSIONS: caches.versions,
            TENANTS: caches.tenants,
            OPERATIONS: caches.operations,
            JOBS: caches.jobs,
            CREDENTIALS: caches.credentials,
        }
        for collection, informer in informers.items():
            cast(Any, informer).take(Synced(tuple(self.objects.get(collection, ())), "1"))
            for each in self.hidden.get(collection, ()):
                cast(Any, informer).take(Odd(each))
        metadata = tuple(metadata_alone(each) for each in self.secrets)
        caches.secrets(given.NAMESPACE).take(Synced(metadata, "1"))
        return caches


@dataclass
class WorldLoads:
    """Loads that are there at once."""

    world: World

    def get(self, load: Any) -> Any:
        try:
            value = at_once(load.fetch(cast(Any, Requests(self.world, Outcome()))))
        except Refused as error:
            return Unknown(str(error), is_refused=True)
        except NotKnown as error:
            return Unknown(str(error))
        return ABSENT if value is None else Present(value)

    def question(self, load: Any) -> Question:
        return Question(self)

    def drop(self, question: Question) -> None:
        """There is nothing to do."""


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


@dataclass
class Outcome:
    """What came of an operation until it rests."""

    requests: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    status: Any = None
    failure: Any = None
    is_released: bool = False
    ends: int = 0


def metadata_alone(secret: Any) -> PartialObjectMetadata:
    return PartialObjectMetadata(metadata=secret.metadata)


def as_told(notice: Notice) -> Any:
    return (notice.reason, notice.message, notice.severity, notice.action)


# ---- random worlds


def binding(some: random.Random, name: str) -> Secret:
    """A binding Secret, rarely an odd one."""
    text = some.choice([b'{"clientid": "id"}', b'{"clientid": "id"}', b'{"clientid": "id"}', b"odd"])
    key = "credentials" if some.random() < 0.95 else "other"
    body: JsonObject = {
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": str(some.randint(1, 3))},
        "data": {key: base64.b64encode(text).decode()},
    }
    return msgspec.convert(body, Secret)


def a_job(some: random.Random, operation: CAPTenantOperation, number: int, name: str, owner: bool = True) -> Job:
    outcome = some.choice(["", "Complete", "Failed", "Failed"])
    shown: list[JsonValue] = [{"type": outcome, "status": "True", "reason": "R", "message": "m"}] if outcome else []
    controller: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenantOperation", "controller": True}
    metadata: JsonObject = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": {
            names.OWNER_HASH_LABEL: names.owner_hash(operation.key),
            names.OPERATION_STEP_LABEL: str(number),
        },
        "ownerReferences": [
            {**controller, "name": "acme-op", "uid": operation.metadata.uid if owner else "uid-of-another"}
        ],
    }
    if some.random() < 0.1:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": metadata, "status": {"conditions": shown}}, Job)


def a_tenant(some: random.Random) -> CAPTenant:
    found = given.tenant()
    annotations = dict(found.metadata.annotations) if some.random() < 0.9 else {}
    labels = dict(found.metadata.labels)
    if some.random() < 0.1:
        labels[names.LEGACY_APP_HASH_LABEL] = "legacy"
    metadata = msgspec.structs.replace(
        found.metadata,
        labels=labels,
        annotations=annotations,
        deletion_timestamp=NOW if some.random() < 0.25 else None,
        finalizers=(names.TENANT_FINALIZER,) if some.random() < 0.8 else (),
    )
    status = msgspec.structs.replace(
        found.status,
        current_version=some.choice(["", "bookshop-v0", "bookshop-v1"]),
        state=some.choice(["Ready", "Upgrading", "UpgradeError", ""]),
        observed_generation=some.choice([0, 1, 1]),
    )
    spec = msgspec.structs.replace(found.spec, version=some.choice(["", "1.0.0", "2.0.0"]))
    return msgspec.structs.replace(found, metadata=metadata, spec=spec, status=status)


def a_status(some: random.Random, kind: str) -> OperationStatus:
    """Any status: of one that begins, goes on, waits for a retry, or has ended."""
    body: JsonObject = {}
    if some.random() < 0.6:
        body["currentStep"] = some.choice([1, 2, 2, 7])
    if some.random() < 0.35:
        state = some.choice(["Completed", "Failed", "Failed"])
        conditions: list[JsonValue] = [{**READY, "reason": "StepFailed", "observedGeneration": 1}]
        if some.random() < 0.3:
            conditions.append({**READY, "type": "Superseded", "reason": "Superseded"})
        body = {"state": state, "conditions": conditions}
        if some.random() < 0.5:
            body["failedStep"] = some.choice([1, 2])
    elif some.random() < 0.3:
        body["conditions"] = [{**READY, "status": "False", "reason": some.choice(["StepInitiated", "StepProcessing"])}]
        body["activeJob"] = some.choice(["job-1", "job-2"])
        body["observedGeneration"] = 1
    if some.random() < 0.3:
        body["lastHandledRetry"] = some.choice(["r1", "r0"])
    status = msgspec.convert(body, OperationStatus)
    if some.random() < 0.3:
        due = some.choice([None, NOW + timedelta(hours=1), NOW - timedelta(hours=1)])
        retry = RetryProgress(attempts=some.choice([2, 3]), job=some.choice(["uid-job-1", "uid-job-2", "", "x"]))
        status = msgspec.structs.replace(status, retry=msgspec.structs.replace(retry, next_attempt_time=due))
    return status


def in_steps(some: random.Random) -> kit.World[CAPTenantOperation, OperationStatus]:
    """A random world, for the properties of all kinds that decide by steps."""
    world = a_world(some)
    if some.random() < 0.2:
        world = with_hidden(world, some)
    secrets = [metadata_alone(each) for each in world.secrets]
    return kit.World(
        logic=OperationLogic(world.clock),
        obj=world.operation,
        objects={**world.objects, BINDINGS: secrets},
        hidden=world.hidden,
        settings=world.view().settings,
        loads=cast(Any, WorldLoads(world)),
        clock=world.clock,
    )


def a_world(some: random.Random) -> World:
    """Any operation in any surroundings, rare ones often."""
    kind = some.choice(["provisioning", "upgrade", "upgrade", "deprovisioning"])
    tenant = a_tenant(some)
    marks = plan.marks_of(tenant, kind)
    metadata: JsonObject = {}
    is_prepared = some.random() < 0.85
    if is_prepared:
        owner: JsonObject = msgspec.to_builtins(owner_reference(tenant))
        metadata = {"labels": {**marks["labels"]}, "annotations": {**marks["annotations"]}}
        metadata["finalizers"] = [names.OPERATION_FINALIZER] if some.random() < 0.95 else []
        metadata["ownerReferences"] = [owner if some.random() < 0.95 else {**owner, "uid": "another"}]
    if some.random() < 0.25:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if some.random() < 0.25:
        metadata["annotations"] = {
            **cast(dict[str, Any], metadata.get("annotations", {})),
            names.RETRY_ANNOTATION: some.choice(["r1", "r2"]),
        }
    absent: JsonObject = {"name": "absent", "type": "TenantOperation"}
    steps = some.choice([STEPS, STEPS, STEPS[1:], (absent,)])
    operation = given.operation(kind, *steps, metadata=given.metadata("acme-op", **metadata))
    if some.random() < 0.04:
        operation = msgspec.structs.replace(operation, spec=msgspec.structs.replace(operation.spec, steps=()))
    operation = msgspec.structs.replace(operation, status=a_status(some, kind))

    world = World(operation)
    policy: JsonObject = (
        {"jobRetry": {"maxAttempts": some.choice([2, 3]), "delaySeconds": some.choice([0, 60])}}
        if some.random() < 0.5
        else {}
    )
    world.objects[APPLICATIONS] = [given.application(**policy)] * (some.random() < 0.93)
    env = [{"name": "VCAP_SERVICES", "value": "own"}] if some.random() < 0.07 else []
    workloads = [
        given.deployment("srv", "CAP"),
        given.job("mtxs", "TenantOperation", env=env),
        given.job("notify", "CustomTenantOperation"),
    ]
    version = given.version(*workloads[: some.choice([2, 3, 3])])
    conditions: list[JsonValue] = [READY] if some.random() < 0.8 else []
    version = msgspec.structs.replace(
        version,
        status=msgspec.convert({"conditions": conditions}, VersionStatus),
        metadata=msgspec.structs.replace(version.metadata, deletion_timestamp=NOW if some.random() < 0.2 else None),
    )
    world.objects[VERSIONS] = [version] * (some.random() < 0.85)
    world.objects[TENANTS] = [tenant] * (some.random() < 0.85)
    siblings: list[CAPTenantOperation] = []
    for number in range(some.choice([0, 0, 0, 1, 2])):
        at = f"2026-01-01T00:00:{some.randint(1, 9):02}Z"
        body = given.metadata(
            f"op-{number}",
            creationTimestamp=at,
            ownerReferences=[msgspec.to_builtins(owner_reference(tenant))],
        )
        siblings.append(given.operation(some.choice([kind, "upgrade"]), metadata=body, status={"state": "Failed"}))
    world.objects[OPERATIONS] = [operation, *siblings]
    jobs = [a_job(some, operation, number, f"job-{number}") for number in (1, 2) if some.random() < 0.45]
    if some.random() < 0.06:
        jobs.append(a_job(some, operation, some.choice([1, 2]), "job-x7k2p"))
    if some.random() < 0.06 and operation.spec.steps:
        number = some.choice([1, len(operation.spec.steps)])
        name = plan.job_name(operation, tenant, number, operation.spec.steps[number - 1])
        jobs.append(a_job(some, operation, number, name, owner=False))
    world.objects[JOBS] = jobs
    world.secrets = [binding(some, name) for name in ("uaa-secret", "hana-secret") if some.random() < 0.95]
    world.objects[CREDENTIALS] = []
    for workload in ("mtxs", "notify"):
        if some.random() < 0.3:
            world.objects[CREDENTIALS].append(a_secret(some, operation, f"acme-op-{workload}"))
    return world


def a_secret(some: random.Random, operation: CAPTenantOperation, prefix: str) -> PartialObjectMetadata:
    """A Secret with credentials from before, or one in the way."""
    is_ours = some.random() < 0.85
    owner = owner_reference(operation)
    metadata = ObjectMeta(
        name=credentials.secret_name(operation, prefix),
        namespace="shop",
        uid=f"uid-{prefix}",
        resource_version="7",
        labels={names.SECRET_OWNER_HASH_LABEL: credentials.mark_of(operation, prefix) if is_ours else "other"},
        annotations={names.BINDINGS_ANNOTATION: some.choice(["former", ""])},
        owner_references=(owner,) if some.random() < 0.9 else (),
        deletion_timestamp=NOW if some.random() < 0.1 else None,
    )
    return PartialObjectMetadata(metadata=metadata)


def with_hidden(world: World, some: random.Random) -> World:
    """The world with objects that cannot be read in the place of those that are there."""
    for collection, chance in ((TENANTS, 0.4), (VERSIONS, 0.4), (APPLICATIONS, 0.4)):
        if some.random() < chance and world.objects.get(collection):
            (gone, *_) = world.objects[collection]
            world.objects[collection] = []
            world.hidden[collection] = [odd(type(gone), gone.metadata.name)]
    return world


# ---- the passes of before


@dataclass
class Requests:
    """Notes what a pass sends, and answers as the API server would."""

    world: World
    outcome: Outcome

    async def patch(self, target: Any, name: str, namespace: str, patch: Any, **_: Any) -> Any:
        operation = self.world.operation
        if isinstance(patch, JsonPatch):
            self.outcome.requests.append(("release",))
            self.outcome.is_released = True
            return operation
        lacking = {k: v for k, v in patch.body["metadata"].items() if k not in ("uid", "resourceVersion")}
        self.outcome.requests.append(("patch", name, lacking))
        metadata = merged(msgspec.to_builtins(operation.metadata), lacking)
        new = msgspec.structs.replace(operation, metadata=msgspec.convert(metadata, ObjectMeta))
        self.world.replace(OPERATIONS, new)
        return new

    async def delete(self, target: Any, name: str, namespace: str, *, uid: str, propagation: str) -> Deletion:
        self.outcome.requests.append(("delete", name, propagation))
        job = next(each for each in self.world.objects[JOBS] if each.metadata.name == name)
        self.world.replace(JOBS, leaving(job))
        return Deletion.TERMINATING

    async def create(self, target: Any, body: Any, **_: Any) -> Any:
        kind = view_of(target).resource.kind
        collection = JOBS if kind == "Job" else CREDENTIALS
        name = body["metadata"]["name"]
        if any(each.metadata.name == name for each in self.world.objects[collection]):
            raise AlreadyExists(Status(code=409, reason="AlreadyExists"))
        self.outcome.requests.append(("create", kind, name, content_of(body)))
        self.world.replace(collection, msgspec.convert(body, view_of(target).shape))
        return self.world.objects[collection][-1]

    async def find(self, target: Any, name: str, namespace: str) -> Any:
        kind = view_of(target).resource.kind
        if target is Secret:
            found: list[Any] = self.world.secrets
        else:
            found = self.world.objects[JOBS if kind == "Job" else CREDENTIALS]
        return next((each for each in found if each.metadata.name == name), None)

    async def list(self, *_: Any, **__: Any) -> Any:
        terminated = {"exitCode": 1, "reason": "Error", "message": ""}
        status = {"containerStatuses": [{"state": {"terminated": terminated}}]}
        return Listed([msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod)])


@dataclass
class Listed:
    items: list[Any]


def content_of(body: Any) -> Any:
    """What an object is asked to be."""
    return {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}


def leaving(job: Job) -> Job:
    metadata = msgspec.structs.replace(job.metadata, deletion_timestamp=kubernetes_time(FakeClock().now()))
    return msgspec.structs.replace(job, metadata=metadata)


def passes(world: World, rounds: int = 1, fate: random.Random | None = None) -> Outcome:
    """What the reconciler makes of a world, pass by pass until it rests; `rounds` times, with changes in between."""
    found = Outcome(status=world.operation.status)
    requests: Any = Requests(world, found)

    class Counts:
        def ended(self, operation: Any, state: Any, now: Any) -> None:
            found.ends += 1

    async def go() -> None:
        for _ in range(20):
            caches = world.caches()
            reconciler = OperationReconciler(
                client=requests,
                caches=caches,
                credentials=CredentialSecrets(requests, BindingSecrets(requests, caches.secrets), caches.credentials),
                clock=cast(Any, world.clock),
                counts=cast(Any, Counts()),
            )
            before, found.failure = (len(found.requests), world.operation.status), None
            try:
                answer = await reconciler.reconcile(world.operation)
                status = answer.status
                found.events += [as_told(each) for each in answer.notices]
            except OperationFailed as error:
                status = reconciler.report(world.operation, error)
                found.failure = (str(error), error.event_reason, error.action)
            if found.is_released:
                return
            if status is not None and status != world.operation.status:
                world.replace(OPERATIONS, msgspec.structs.replace(world.operation, status=status))
            found.status = world.operation.status
            if (len(found.requests), world.operation.status) == before:
                return
        raise AssertionError("no rest")

    for _ in range(rounds):
        asyncio.run(go())
        if found.is_released:
            break
        if fate is not None:
            evolve(world, fate)
    return found


# ---- the steps


def steps(world: World, rounds: int = 1, fate: random.Random | None = None) -> Outcome:
    """What `decide` makes of a world until it rests; a failure is tried again."""
    found = Outcome(status=world.operation.status)
    for _ in range(rounds):
        _rest(world, found)
        if found.is_released:
            break
        if fate is not None:
            evolve(world, fate)
    return found


def _rest(world: World, found: Outcome) -> None:
    logic = OperationLogic(cast(Any, world.clock))
    for _ in range(20):
        overlays: list[Overlay] = []

        def view(overlay: Overlay) -> View:
            overlays.append(overlay)  # noqa: B023
            return world.view(overlay)

        course: Course[OperationStatus] = rehearse(logic, world.operation, view)
        ended = world.operation.has_ended
        for step in course.steps:
            found.events += [as_told(each) for each in step.events]
            is_end = step.status is not None and any(
                each.type == "Ready" and each.is_true for each in step.status.conditions
            )
            found.ends += is_end and not ended
            ended = is_end if step.status is not None else ended
        for write in course.writes:
            found.requests.append(noted(write))
            found.is_released = isinstance(write, RemoveFinalizer)
        last = course.steps[-1].failure
        found.failure = (last.message, last.event_reason, last.action) if last is not None else None
        found.status = course.status
        if found.is_released:
            return
        for collection in (CREDENTIALS, JOBS, OPERATIONS):
            for new in overlays[-1].of(cast(Any, collection)).values():
                world.replace(collection, new)
        is_same = course.status == world.operation.status
        world.replace(OPERATIONS, msgspec.structs.replace(world.operation, status=course.status))
        if is_same and not course.writes:
            return
    raise AssertionError("no rest")


def noted(write: Any) -> Any:
    """A write as `Requests` notes it."""
    match write:
        case Create():
            return ("create", write.collection.resource.kind, write.key.name, content_of(write.body))
        case Patch():
            return ("patch", write.seen.key.name, write.fields["metadata"])
        case Delete():
            return ("delete", write.seen.key.name, write.propagation)
        case _:
            return ("release",)


def evolve(world: World, fate: random.Random) -> None:
    """What happens around the operation: Jobs that are being deleted go, others end, and time passes."""
    jobs: list[Job] = []
    for job in sorted(world.objects[JOBS], key=lambda each: each.metadata.name):
        if job.metadata.is_terminating:
            continue
        ended = job
        if not job.has_ended:
            outcome: JsonObject = {"type": fate.choice(["Complete", "Failed"]), "status": "True"}
            ended = msgspec.structs.replace(job, status=msgspec.convert({"conditions": [outcome]}, type(job.status)))
        jobs.append(ended)
    world.objects[JOBS] = jobs
    world.clock.jump(3600)


# ---- a snapshot as a world


def world_of(seen: Snapshot) -> World:
    """What a snapshot shows, as objects."""
    operation, world = seen.operation, World(seen.operation)
    tenant = seen.tenant
    owner = (owner_reference(tenant),) if tenant is not None else ()
    siblings = [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, owner_references=owner))
        for each in seen.siblings
        if each.key != operation.key
    ]
    world.objects = {
        APPLICATIONS: [seen.application] if seen.application is not None else [],
        VERSIONS: [seen.version] if seen.version is not None else [],
        TENANTS: [tenant] if tenant is not None else [],
        OPERATIONS: [operation, *siblings],
        JOBS: [*seen.jobs],
        CREDENTIALS: [],
    }
    controller = operation.metadata.controller
    if seen.is_version_hidden:
        world.hidden[VERSIONS] = [odd(type(given.version()), operation.spec.version_name)]
    if seen.is_tenant_hidden and controller is not None:
        world.hidden[TENANTS] = [odd(CAPTenant, controller.name)]
    return world


def next_action(seen: Snapshot, now: datetime) -> former.Action:
    """The former decision, if the steps of the operation come to the same as its former passes."""
    expected, found = passes(world_of(seen)), steps(world_of(seen))
    if seen.is_version_hidden:  # the former passes say that it does not exist
        assert (found.requests, found.events, found.ends) == (expected.requests, expected.events, expected.ends)
    else:
        assert found == expected
    return former.next_action(seen, now)


def around(seen: Snapshot) -> OperationContext:
    """What a snapshot shows, as a step asks for it."""
    return OperationContext(seen.operation, world_of(seen).view())
