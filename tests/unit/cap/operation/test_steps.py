"""Rules of the steps of an operation that random worlds show rarely, or that its former passes did not have."""

from __future__ import annotations

import base64
import random
from datetime import datetime
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.operation.test_plan import FAILED, NOW, a_job, a_user, leaving, prepared
from tests.unit.cap.operation.worlds import World, WorldLoads, a_world, passes, steps, with_hidden
from tests.unit.cap.tenant.given import ready
from tests.unit.cap.tenant.worlds import odd

from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.kube.types.errors import Forbidden, Status
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, owner_reference
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap.collections import APPLICATIONS, BINDINGS, CREDENTIALS, JOBS, TENANTS, VERSIONS
from stellwerk.operators.cap.kinds.application import CAPApplication, ServiceInfo
from stellwerk.operators.cap.kinds.status import RetryProgress
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.operation.decide import OperationLogic, StepOfOperation
from stellwerk.operators.cap.pods import credentials
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
from stellwerk.runtime.control.executor import next_step
from stellwerk.runtime.control.step import Create, Delete, RemoveFinalizer
from stellwerk.runtime.reading.known import Refused, Unknown
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.testing.clock import FakeClock

DELETED = "2026-01-01T00:00:00Z"
V1 = ready("bookshop-v1", "1.0.0")


def binding(name: str, text: bytes = b'{"clientid": "id"}', version: str = "1") -> Secret:
    data: JsonObject = {"credentials": base64.b64encode(text).decode()}
    body: JsonObject = {"metadata": given.metadata(name, resourceVersion=version), "data": data}
    return msgspec.convert(body, Secret)


def a_shop(operation: CAPTenantOperation, *jobs: Job, tenant: CAPTenant | None = None) -> World:
    """A world in which the operation may start its Job."""
    world = World(operation)
    version = given.version(given.job("notify", "CustomTenantOperation"), given.job("mtxs", "TenantOperation"))
    world.objects = {
        APPLICATIONS: [given.application()],
        VERSIONS: [msgspec.structs.replace(version, status=V1.status)],
        TENANTS: [tenant or given.tenant()],
        JOBS: [*jobs],
        CREDENTIALS: [],
    }
    world.secrets = [binding("uaa-secret"), binding("hana-secret")]
    return world


def decided(world: World) -> StepOfOperation:
    """The next step of the operation of a world."""
    return next_step(OperationLogic(cast(Any, world.clock)), world.operation, world.view())


def hide(world: World, collection: Any) -> None:
    """An object of the collection cannot be read, and there is no former content of it."""
    (gone, *_) = world.objects[collection]
    world.objects[collection] = []
    world.hidden[collection] = [odd(type(gone), gone.metadata.name)]


# ---- what cannot be read


@pytest.mark.parametrize(
    ("collection", "named"),
    [
        (TENANTS, "CAPTenant acme of CAPTenantOperation shop/acme-op cannot be read; next: stellwerk why cat/acme"),
        (APPLICATIONS, "CAPApplication bookshop of CAPTenantOperation shop/acme-op cannot be read; next: stellwerk"),
        (VERSIONS, "CAPApplicationVersion bookshop-v1 of CAPTenantOperation shop/acme-op cannot be read; next: "),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_absent(collection: Any, named: str) -> None:
    world = a_shop(prepared())
    hide(world, collection)
    step = decided(world)
    assert step.failure is not None
    assert step.failure.message.startswith(named)
    assert (step.writes, step.events, step.status) == ((), (), None)


@pytest.mark.parametrize("is_hidden", [True, False])
def test_an_operation_that_is_deleted_is_released_only_if_its_tenant_is_known_to_be_gone(is_hidden: bool) -> None:
    world = a_shop(prepared(deletionTimestamp=DELETED))
    world.objects[TENANTS] = [] if not is_hidden else world.objects[TENANTS]
    if is_hidden:
        hide(world, TENANTS)
    assert bool(decided(world).writes) is not is_hidden


def test_a_success_stays_while_its_tenant_cannot_be_read() -> None:
    done = prepared(status={**FAILED, "state": "Completed"}, deletionTimestamp=DELETED)
    world = a_shop(done)
    hide(world, TENANTS)
    step = decided(world)
    assert (step.writes, step.waits[0].on) == ((), (TENANTS, given.tenant().key))
    world.hidden = {}
    assert isinstance(decided(world).writes[0], RemoveFinalizer)


def test_no_job_is_started_while_one_of_the_operation_cannot_be_read() -> None:
    """A Job of the original has a generated name, so the name of ours does not keep the step from a second run."""
    world = a_shop(prepared())
    (owner,) = a_job(1).metadata.owner_references
    world.hidden[JOBS] = [odd(Job, "acme-mtxs-x7k2p", owner_references=(owner,))]
    step = decided(world)
    assert (step.writes, step.failure, step.status) == ((), None, None)
    assert step.waits
    another = msgspec.structs.replace(owner, uid="another")
    world.hidden[JOBS] = [odd(Job, "of-another", owner_references=(another,))]
    assert decided(world).writes


def test_an_operation_by_hand_waits_for_a_tenant_that_may_be_its_own() -> None:
    world = a_shop(given.operation("upgrade"))
    hide(world, TENANTS)
    failure = decided(world).failure
    assert failure is not None
    assert "may belong to a tenant that cannot be read" in failure.message
    world.objects[TENANTS], world.hidden[TENANTS] = [given.tenant()], []
    assert len(decided(world).writes) == 1
    hide(world, VERSIONS)
    failure = decided(world).failure
    assert failure is not None
    assert "cannot be read; next: stellwerk why cav/bookshop-v1 -n shop" in failure.message


def test_no_world_with_objects_that_cannot_be_read_has_more_writes_than_it_had() -> None:
    for seed in range(60):
        expected = passes(with_hidden(a_world(random.Random(seed)), random.Random(seed)))
        found = steps(with_hidden(a_world(random.Random(seed)), random.Random(seed)))
        assert [each for each in found.requests if each not in expected.requests] == [], seed
        assert found.ends <= expected.ends, seed


# ---- credentials


def test_the_secret_is_made_before_the_job_that_reads_it_and_its_event_follows_both() -> None:
    step = decided(a_shop(prepared()))
    secret, job = step.writes
    assert isinstance(secret, Create)
    assert isinstance(job, Create)
    assert (secret.collection, job.collection) == (CREDENTIALS, JOBS)
    assert secret.key.name in str(job.body)
    assert [each.reason for each in step.events] == ["StepInitiated"]


def test_a_job_waits_until_its_credentials_are_loaded_and_shows_why_they_cannot_be() -> None:
    world = a_shop(prepared())
    answers = [Unknown("it is being loaded"), Unknown("not permitted", is_refused=True)]

    class Loads(WorldLoads):
        def get(self, load: Any) -> Any:
            return answers[0]

    def step() -> StepOfOperation:
        view = world.view()
        view.loads = Loads(world)
        return next_step(OperationLogic(cast(Any, world.clock)), world.operation, view)

    waits = step()
    assert (waits.writes, waits.failure, waits.status) == ((), None, None)
    assert waits.waits
    answers.pop(0)
    failure = step().failure
    assert failure is not None
    assert failure.message == "not permitted"
    world.objects[VERSIONS] = [
        msgspec.structs.replace(leaving(ready=True), spec=a_shop(prepared()).objects[VERSIONS][0].spec)
    ]
    ended = step()
    assert ended.failure is None
    assert ended.status is not None
    assert ended.status.state == "Failed", "what waits for its end goes"


def test_the_credentials_of_a_namespace_whose_secrets_are_not_watched_are_read_once_for_each_attempt() -> None:
    asked: list[Any] = []

    class Loads(WorldLoads):
        def get(self, load: Any) -> Any:
            asked.append(load)
            return Unknown("it is being loaded")

    def load_of(operation: CAPTenantOperation, why: str = "") -> Any:
        world = a_shop(operation)
        view = world.view()
        view.loads = Loads(world)
        if why:
            cast(Any, view.sources).add(BINDINGS, Refusing(why))
        next_step(OperationLogic(cast(Any, world.clock)), operation, view)
        return asked[-1]

    again = prepared(status={"currentStep": 1, "retry": {"attempts": 2, "job": "gone"}})
    assert load_of(prepared()) == load_of(again), "a version that is watched names the content"
    assert load_of(prepared(), "not permitted") != load_of(again, "not permitted")
    assert load_of(prepared(), "not permitted") == load_of(prepared(), "not permitted")


class Refusing(PlainSource[Any]):
    """A collection that may not be watched."""

    def __init__(self, why: str) -> None:
        super().__init__(why=why)

    def get(self, key: ObjectKey) -> Any:
        return Unknown(self.why, is_refused=True)


def test_secrets_that_are_not_listed_yet_are_waited_for() -> None:
    world = a_shop(prepared())
    view = world.view()
    cast(Any, view.sources).add(BINDINGS, PlainSource(why="it is not listed yet"))
    step = next_step(OperationLogic(cast(Any, world.clock)), world.operation, view)
    assert (step.writes, step.failure) == ((), None)


def test_a_secret_in_the_way_is_named_and_one_that_goes_is_waited_for() -> None:
    world = a_shop(prepared())
    (secret, _) = decided(world).writes
    assert isinstance(secret, Create)
    there: Any = PartialObjectMetadata(
        metadata=ObjectMeta(name=secret.key.name, namespace="shop", uid="s", resource_version="1")
    )
    world.objects[CREDENTIALS] = [there]
    failure = decided(world).failure
    assert failure is not None
    assert failure.message.endswith("Delete or rename it")
    ours = msgspec.structs.replace(
        there.metadata, owner_references=(owner_reference(world.operation),), deletion_timestamp=NOW
    )
    world.objects[CREDENTIALS] = [PartialObjectMetadata(metadata=ours)]
    failure = decided(world).failure
    assert failure is not None
    assert failure.message.endswith("is being deleted")
    stays = msgspec.structs.replace(ours, deletion_timestamp=None)
    world.objects[CREDENTIALS] = [PartialObjectMetadata(metadata=stays)]
    (job,) = decided(world).writes
    assert secret.key.name in str(cast(Any, job).body), "it is used as it is, although it lacks the label"


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_retry_has_another_secret_made_only_if_its_credentials_are_outdated(is_changed: bool) -> None:
    world = a_shop(prepared())
    steps(world)
    (secret,) = world.objects[CREDENTIALS]
    if is_changed:
        world.secrets[0] = binding("uaa-secret", version="2")
    again = msgspec.structs.replace(
        world.operation.status, retry=RetryProgress(attempts=2), active_job="", current_step=1
    )
    world.operation, world.objects[JOBS] = msgspec.structs.replace(world.operation, status=again), []
    made = [
        each.key.name for each in decided(world).writes if isinstance(each, Create) and each.collection is CREDENTIALS
    ]
    assert bool(made) is is_changed
    assert secret.metadata.name not in made
    world.secrets.pop()
    assert decided(world).failure is None, "while one is absent, those that there are serve"


async def test_values_are_masked_in_what_a_pass_shows_that_has_read_them() -> None:
    world = a_shop(prepared())
    view = world.view()
    next_step(OperationLogic(cast(Any, world.clock)), world.operation, view)
    words = [word for found in view.confidential.values() for word in found()]
    assert words == ['{"clientid": "id"}'] * 2


async def test_credentials_are_loaded_in_the_order_of_the_application_and_unusable_ones_are_a_value() -> None:
    class Bindings:
        async def read(self, key: ObjectKey) -> dict[str, bytes]:
            if key.name == "absent":
                raise CredentialsUnusable("absent")
            return {"credentials": b"{}" if key.name != "odd" else b"odd"}

        def version_read(self, key: ObjectKey) -> str:
            return "7"

    def load(*names: str, occasion: str = "") -> credentials.LoadCredentials:
        services = tuple(msgspec.convert({"name": each, "class": each, "secret": each}, ServiceInfo) for each in names)
        keys = tuple((ObjectKey("shop", each), "1") for each in names)
        return credentials.LoadCredentials(
            namespace="shop", services=services, versions=keys, occasion=occasion, bindings=cast(Any, Bindings())
        )

    made = await load("b", "a").fetch(cast(Any, None))
    assert isinstance(made, credentials.Credentials)
    assert made.versions == credentials.versions_of({ObjectKey("shop", each): "7" for each in ("b", "a")})
    assert '{"clientid"' not in repr(made)
    assert isinstance(await load("odd").fetch(cast(Any, None)), CredentialsUnusable)
    with pytest.raises(Refused, match="is not JSON"):  # of Secrets that are not watched, no change shows
        await load("odd", occasion="of a Job").fetch(cast(Any, None))
    with pytest.raises(Refused, match="absent"):
        await load("absent").fetch(cast(Any, None))


# ---- what a refused write means


@pytest.mark.parametrize("goes", ["nothing", "the version", "the tenant", "a deprovisioning"])
def test_a_refused_job_ends_the_operation_only_if_what_waits_for_the_end_goes(goes: str) -> None:
    operation, tenant = prepared(), given.tenant()
    if goes == "the tenant":
        tenant = a_user("bookshop-v0", leaves=True)
    if goes == "a deprovisioning":
        operation = msgspec.structs.replace(
            operation, spec=msgspec.structs.replace(operation.spec, operation="deprovisioning")
        )
    world = a_shop(operation, tenant=tenant)
    if goes in ("the version", "a deprovisioning"):
        version: CAPApplicationVersion = world.objects[VERSIONS][0]
        world.objects[VERSIONS] = [msgspec.structs.replace(version, metadata=leaving(ready=True).metadata)]
    step = decided(world)
    assert len(step.writes) == 2
    for write in step.writes:
        assert isinstance(write, Create)
        failure = write.refused("denied", Forbidden(Status(code=403, reason="Forbidden", message="denied")))
        if goes in ("nothing", "a deprovisioning"):
            assert (failure.message, failure.status, failure.event_reason) == ("denied", None, "")
            continue
        assert (failure.message, failure.event_reason) == ("step 1/2: denied", "StepFailed")
        status: Any = failure.status
        assert (status.state, status.failed_step, status.conditions[0].status) == ("Failed", 1, "True")


def test_a_failure_shows_how_far_the_operation_is_and_leaves_one_that_has_ended_alone() -> None:
    logic = OperationLogic(cast(Any, FakeClock(NOW)))
    runs = prepared(status={"currentStep": 2, "activeJob": "job-2"})
    shown = logic.unexpected(runs, "a bug")
    assert (shown.current_step, shown.active_job, shown.conditions[0].reason) == (2, "job-2", "RecoveredPanic")
    ended = prepared(status=FAILED)
    assert logic.unexpected(ended, "a bug") is ended.status


# ---- Jobs that run again


def test_a_failed_job_is_deleted_with_its_pods_after_the_retry_is_recorded_and_its_pause_is_over() -> None:
    due = "2026-01-01T01:00:00Z"
    status: JsonObject = {"currentStep": 2, "retry": {"attempts": 2, "job": "uid-job-2", "nextAttemptTime": due}}
    world = a_shop(prepared(status=status), a_job(2, "Failed"))
    view = world.view()
    step = next_step(OperationLogic(cast(Any, world.clock)), world.operation, view)
    assert (step.writes, str(view.due)) == ((), "2026-01-01 01:00:00+00:00")
    world.clock.jump(3600)
    (delete,) = decided(world).writes
    assert isinstance(delete, Delete)
    assert (delete.uid, delete.propagation) == ("uid-job-2", "Background")


def test_nothing_is_repeated_by_itself_while_the_application_cannot_be_read() -> None:
    world = a_shop(prepared(status={"currentStep": 2}), a_job(2, "Failed"))
    policy: JsonObject = {"maxAttempts": 3, "delaySeconds": 0}
    application: CAPApplication = given.application(jobRetry=policy)
    world.objects[APPLICATIONS] = [application]
    repeats = decided(world).status
    assert repeats is not None
    assert repeats.retry is not None
    hide(world, APPLICATIONS)
    ends = decided(world).status
    assert ends is not None
    assert (ends.state, ends.retry) == ("Failed", None)


def test_an_operation_that_is_under_way_waits_for_its_job_or_its_next_attempt_or_shows_a_failure() -> None:
    for seed in range(60):
        world = a_world(random.Random(seed))
        if steps(world).is_released or world.operation.has_ended or not world.operation.metadata.finalizers:
            continue
        step = decided(world)
        if step.failure is None:
            (wait,) = step.waits
            job = (JOBS, ObjectKey("shop", world.operation.status.active_job))
            assert wait.on == job or isinstance(wait.on, datetime), seed
            assert wait.message, seed


def test_each_status_of_an_operation_decides_the_same_again() -> None:
    """What is written down is no reason to write: a step follows from an object with its status."""
    for seed in range(60):
        world = a_world(random.Random(seed))
        steps(world, 2, random.Random(seed))
        if not steps(world).is_released:
            step = decided(world)
            assert (step.status or world.operation.status, step.writes) == (world.operation.status, ()), seed
