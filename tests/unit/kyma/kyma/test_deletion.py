"""The order in which a Kyma and what it has made go."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from tests.unit.kyma.kyma.worlds import DELETED, PREFIX, a_kyma, a_manifest

from stellwerk.kube.types.model import plain_json
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.kyma import deletion
from stellwerk.operators.kyma.kyma.deletion import FormerUseCase, Remains, RuntimeRemains, UseCase

OURS, PURGE = f"{PREFIX}/Kyma", f"{PREFIX}/purge-finalizer"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def leaving(*finalizers: str, state: str = "Deleting") -> Kyma:
    """A Kyma of the control plane that is being deleted."""
    return a_kyma(status={"state": state}, finalizers=finalizers or (OURS,), deletionTimestamp=DELETED)


def there(state: str = "Ready", **fields: object) -> Kyma:
    """The Kyma of the remote cluster."""
    return a_kyma("default", namespace="kyma-system", status={"state": state}, **fields)


ALL = Remains(
    kyma=leaving(state="Ready"),
    manifests=(a_manifest("m"),),
    has_certificate=True,
    has_metrics=True,
    runtime=RuntimeRemains(
        kyma=there(),
        has_webhook=True,
        has_template_definition=True,
        has_meta_definition=True,
        has_kyma_definition=True,
        has_catalog=True,
    ),
)


def after(step: UseCase, remains: Remains) -> Remains:
    """What remains after a step."""
    runtime = remains.runtime or RuntimeRemains()
    going = tuple(a_manifest(each.metadata.name, deletionTimestamp=DELETED) for each in remains.manifests)
    left = {
        UseCase.SET_STATE_DELETING: replace(remains, kyma=leaving()),
        UseCase.SET_RUNTIME_STATE_DELETING: replace(remains, runtime=replace(runtime, kyma=there("Deleting"))),
        UseCase.DELETE_MANIFESTS: replace(remains, manifests=going),
        UseCase.DELETE_CERTIFICATE: replace(remains, has_certificate=False),
        UseCase.DELETE_WEBHOOK: replace(remains, runtime=replace(runtime, has_webhook=False)),
        UseCase.DELETE_TEMPLATE_DEFINITION: replace(remains, runtime=replace(runtime, has_template_definition=False)),
        UseCase.DELETE_META_DEFINITION: replace(remains, runtime=replace(runtime, has_meta_definition=False)),
        UseCase.DELETE_RUNTIME_KYMA: replace(remains, runtime=replace(runtime, kyma=None)),
        UseCase.DELETE_KYMA_DEFINITION: replace(remains, runtime=replace(runtime, has_kyma_definition=False)),
        UseCase.DELETE_METRICS: replace(remains, has_metrics=False),
        UseCase.AWAIT_MANIFESTS: replace(remains, manifests=()),
        UseCase.DROP_FINALIZER: replace(remains, kyma=leaving("others/finalizer")),
    }
    return left[step]


def course(remains: Remains) -> list[str]:
    """The names of all steps, until none applies."""
    found: list[str] = []
    while (step := deletion.next_use_case(remains)) is not None:
        found.append(step)
        remains = after(step, remains)
        assert len(found) <= len(UseCase), found
    return found


@pytest.mark.req("KYMA-43")
def test_the_steps_are_done_in_their_order_one_at_a_time() -> None:
    assert course(ALL) == [
        "SetKcpKymaStateDeleting",
        "SetSkrKymaStateDeleting",
        "DeleteManifests",
        "DeleteCertificateSetup",
        "DeleteSkrWebhookResources",
        "DeleteSkrModuleTemplateCrd",
        "DeleteSkrModuleReleaseMetaCrd",
        "DeleteSkrKyma",
        "DeleteSkrKymaCrd",
        "DeleteMetrics",
        "EnsureManifestDeletion",
        "DropKymaFinalizer",
    ]


@pytest.mark.req("KYMA-44")
def test_without_an_access_secret_the_runtime_cluster_is_left_alone() -> None:
    assert course(replace(ALL, runtime=None)) == [
        "SetKcpKymaStateDeleting",
        "DeleteManifests",
        "DeleteCertificateSetup",
        "DeleteMetrics",
        "EnsureManifestDeletion",
        "DropKymaFinalizer",
    ]


@pytest.mark.parametrize("parts", [*product((False, True), repeat=3)])
def test_each_step_is_left_out_if_there_is_nothing_for_it(parts: tuple[bool, bool, bool]) -> None:
    manifests, certificate, webhook = parts
    remains = Remains(
        kyma=leaving(),
        manifests=(a_manifest("m"),) if manifests else (),
        has_certificate=certificate,
        runtime=RuntimeRemains(has_webhook=webhook),
    )
    steps = (
        [UseCase.DELETE_MANIFESTS] * manifests
        + [UseCase.DELETE_CERTIFICATE] * certificate
        + [UseCase.DELETE_WEBHOOK] * webhook
        + [UseCase.AWAIT_MANIFESTS] * manifests
    )
    assert course(remains) == [*steps, UseCase.DROP_FINALIZER]


def test_only_manifests_that_are_not_being_deleted_are_deleted() -> None:
    live, going = a_manifest("live"), a_manifest("going", deletionTimestamp=DELETED)
    remains = Remains(kyma=leaving(), manifests=(live, going))
    assert deletion.next_use_case(remains) is UseCase.DELETE_MANIFESTS
    assert deletion.live_manifests(remains) == (live,)
    assert deletion.next_use_case(replace(remains, manifests=(going,))) is UseCase.AWAIT_MANIFESTS


@pytest.mark.parametrize(
    ("finalizers", "own"),
    [
        ((OURS, "foregroundDeletion"), (OURS,)),
        ((PURGE, OURS), (PURGE, OURS)),
        ((PURGE,), (PURGE,)),
        (("foregroundDeletion", "others/finalizer"), ()),
    ],
)
def test_the_finalizers_of_others_stay_and_one_of_an_earlier_release_goes(
    finalizers: tuple[str, ...], own: tuple[str, ...]
) -> None:
    kyma = leaving(*finalizers)
    assert deletion.own_finalizers(kyma) == own
    step = deletion.next_use_case(Remains(kyma=kyma))
    assert step is (UseCase.DROP_FINALIZER if own else None)


def test_a_kyma_that_is_being_deleted_shows_it_and_keeps_its_modules() -> None:
    status = a_kyma(status={"state": "Ready", "modules": [{"name": "a", "state": "Ready"}]}).status

    shown = deletion.deleting(status, deletion.DELETING_MODULES, NOW)

    assert plain_json(shown) == {
        "state": "Deleting",
        "lastOperation": {
            "operation": "waiting for modules to be deleted",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        },
        "modules": [{"name": "a", "state": "Ready"}],
    }


# ---- the former order


def former(remains: Remains) -> FormerUseCase | None:
    """The next step of the former order."""
    return deletion.next_former_use_case(remains)


def test_the_former_order_ends_the_kyma_of_the_user_first() -> None:
    assert ALL.runtime is not None
    remains = ALL
    assert former(remains) is FormerUseCase.DELETE_RUNTIME_KYMA
    held = there("Ready", deletionTimestamp=DELETED, finalizers=("others/finalizer",))
    remains = replace(remains, runtime=replace(ALL.runtime, kyma=held))
    assert former(remains) is FormerUseCase.SET_STATE_DELETING
    remains = replace(remains, kyma=leaving())
    assert former(remains) is FormerUseCase.DELETE_WEBHOOK
    remains = replace(remains, runtime=RuntimeRemains(kyma=held, has_catalog=True))
    assert former(remains) is FormerUseCase.DELETE_CATALOG
    remains = replace(remains, runtime=RuntimeRemains(kyma=held))
    assert former(remains) is FormerUseCase.RELEASE_RUNTIME_KYMA
    remains = replace(remains, runtime=RuntimeRemains())
    assert former(remains) is FormerUseCase.DELETE_MANIFESTS
    remains = replace(remains, manifests=(a_manifest("m", deletionTimestamp=DELETED),))
    assert former(remains) is FormerUseCase.AWAIT_MANIFESTS
    remains = replace(remains, manifests=())
    assert former(remains) is FormerUseCase.DROP_FINALIZERS
    assert former(replace(remains, kyma=leaving("others/finalizer"))) is None


def test_the_former_order_waits_for_no_manifest_and_no_finalizer_without_an_access_secret() -> None:
    remains = Remains(kyma=leaving("others/finalizer"), manifests=(a_manifest("m"),))
    assert former(remains) is FormerUseCase.DELETE_MANIFESTS
    remains = replace(remains, manifests=(a_manifest("m", deletionTimestamp=DELETED),))
    assert former(remains) is FormerUseCase.DROP_FINALIZERS
