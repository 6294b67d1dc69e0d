"""A failure says in which words the Component shows it, and when it is worth another try."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.unit.component.given import component

from stellwerk.apply.errors import ApplyError, InvalidSet, Problem
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.errors import ApiError, Forbidden, LoginFailed, Status, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component import errors
from stellwerk.operators.component.component.reconcile import timed
from stellwerk.operators.component.reasons import Cause, Reason
from stellwerk.render.errors import BadArchive, InvalidValues, PathNotFound, RenderError, RendererTimeout, WrongDigest
from stellwerk.runtime.reconciler import Retry

KEY = ObjectKey("shop", "web")

CAUSES = {
    "NotYet": "ApplyFailed",
    "ReferencesUnresolved": "ReferenceNotFound",
    "SourceNotReady": "SourceNotReady",
    "TooManyClusters": "TooManyTargetClusters",
    "KindsUnknown": "KindsUnknown",
    "WaitingForPin": "WaitingForPin",
    "DependencyNotReady": "DependencyNotReady",
    "StillNeeded": "DependantsExist",
    "Misconfigured": "InvalidSpec",
    "InvalidSpec": "InvalidSpec",
    "InputsTooLarge": "InputsTooLarge",
    "DependencyCycle": "DependencyCycle",
    "InvalidReadyExpression": "InvalidReadyExpression",
    "CrossNamespaceReference": "CrossNamespaceReference",
    "ServiceAccountRequired": "ServiceAccountRequired",
    "TargetNamespaceRefused": "TargetNamespaceRefused",
    "HooksNotSealed": "DeleteHooksNotSealed",
    "HooksMissing": "DeleteHooksMissing",
    "InvalidKubeConfig": "InvalidKubeConfig",
    "InvalidCredentials": "InvalidCredentials",
    "ClusterChanged": "TargetClusterChanged",
    "ClusterUnidentified": "TargetClusterChanged",
    "PassFailed": "ApplyFailed",
    "InvalidInventory": "InvalidInventory",
    "ReferencesUnreadable": "ReferenceNotFound",
    "SourceUnusable": "SourceUnusable",
    "SourceSilent": "SourceUnusable",
    "RenderingFailed": "RenderingFailed",
    "InvalidObjects": "InvalidObjects",
    "ApplyFailed": "ApplyFailed",
    "ClusterUnreachable": "ClusterUnreachable",
    "EndedUnexpectedly": "UnexpectedError",
    "ClusterTooLarge": "TargetClusterTooLarge",
}
"""What users and their scripts read. Another name of a class must not change the word."""


def test_what_may_still_come_is_pending_and_not_an_error() -> None:
    missing = errors.ReferencesUnresolved("/decryption: error loading secret shop/keys: not found")

    assert missing.report().effective_state is State.Pending
    assert missing.report(deleting=True).reason is Reason.DeletionRetrying
    assert missing.report(deleting=True).effective_state is State.DeletionPending
    assert missing.retry_after_seconds == 10


def test_waiting_for_other_components_takes_the_retry_interval() -> None:
    waiting = (errors.DependencyNotReady(KEY, "not ready"), errors.StillNeeded([KEY]))

    assert [failure.retry_after_seconds for failure in waiting] == [None, None]
    assert all(failure.retriable for failure in waiting)


def test_what_only_an_edit_can_help_is_an_error_that_waits_for_a_change() -> None:
    for failure in (
        errors.InvalidSpec("reapplyInterval", "'soon' is not a duration"),
        errors.DependencyCycle([KEY]),
        errors.CrossNamespaceReference("sourceRef.fluxBucket", ObjectKey("infra", "b")),
        errors.ServiceAccountRequired(),
        errors.InvalidKubeConfig(KEY, "it runs a plugin"),
        errors.InvalidCredentials(f"secret {KEY}", "it has no password"),
        errors.ClusterChanged("one", "other"),
    ):
        assert failure.retry is Retry.WHEN_CHANGED
        assert failure.report().effective_state is State.Error
        assert failure.report().is_stalled


@pytest.mark.req("R-404")
def test_what_may_have_exhausted_its_budget_is_not_tried_again_at_once() -> None:
    costly = (BadArchive("it unpacks to more than 1000 times its size"), RendererTimeout(10.0))

    assert [errors.failure_of(error).retry_after_seconds for error in costly] == [60.0, 60.0]
    assert errors.failure_of(WrongDigest("other content")).retry_after_seconds is None


def test_after_the_timeout_the_reason_is_timeout_in_either_state() -> None:
    retriable, hard = errors.SourceNotReady("/sourceRef", "not found"), errors.ApplyFailed("no quota")

    assert (retriable.report(timed_out=True).reason, retriable.report(timed_out=True).effective_state) == (
        Reason.Timeout,
        State.Pending,
    )
    assert hard.report(timed_out=True).effective_state is State.Error


def test_the_messages_are_those_that_scripts_look_for() -> None:
    other = ObjectKey("infra", "dns")

    assert str(errors.StillNeeded([KEY])) == "deletion blocked by depending component shop/web"
    assert str(errors.StillNeeded([KEY, other, other])).endswith("shop/web (and 2 others)")
    assert str(errors.DependencyNotReady(KEY, "not ready")) == "dependent component shop/web not ready"
    assert str(errors.DependencyCycle([KEY, other])).startswith("dependency cycle: shop/web -> infra/dns -> shop/web;")


@pytest.mark.parametrize(
    ("error", "cause", "begins"),
    [
        (WrongDigest("other"), Cause.SourceUnusable, "error reconciling dependent resources: error rendering"),
        (PathNotFound("deploy"), Cause.RenderingFailed, "error reconciling dependent resources: error rendering"),
        (InvalidValues("secret shop/v", "no mapping"), Cause.RenderingFailed, "error reconciling dependent resources"),
        (InvalidSet([Problem("Job a", "twice")]), Cause.InvalidObjects, "error reconciling dependent resources: Job"),
        (Unreachable("refused"), Cause.ClusterUnreachable, "error reconciling dependent resources: refused"),
        (LoginFailed("no token"), Cause.ClusterUnreachable, "error reconciling dependent resources: no token"),
        (Forbidden(Status(message="may not")), Cause.ApplyFailed, "error reconciling dependent resources: may not"),
    ],
)
def test_a_failure_of_the_rooms_below_has_its_cause(
    error: RenderError | ApplyError | ApiError, cause: Cause, begins: str
) -> None:
    failure = errors.failure_of(error)

    assert failure.cause is cause
    assert failure.report().effective_state is State.Error
    assert str(failure).startswith(begins)


def test_each_failure_shows_the_word_that_it_always_had() -> None:
    assert {kind.__name__: kind.cause.value for kind in _below(errors.ComponentFailed)} == CAUSES


def _below(kind: type[errors.ComponentFailed]) -> Iterator[type[errors.ComponentFailed]]:
    """Those of the product: a test may have made more."""
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
            yield from _below(each)


def test_a_cause_that_a_class_names_is_not_replaced_by_that_of_its_name() -> None:
    class KindsUnknown(errors.NotYet):
        cause = Cause.WaitingForPin

    class Other(KindsUnknown):
        pass

    assert (KindsUnknown.cause, Other.cause) == (Cause.WaitingForPin, Cause.WaitingForPin)


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [
        (lambda: errors.SourceNotReady("/sourceRef", "not found"), 10),
        (lambda: errors.failure_of(RendererTimeout(10.0)), 60),
        (lambda: errors.DependencyNotReady(ObjectKey("shop", "db"), "not found"), 300),
    ],
)
def test_components_that_wait_for_the_same_are_tried_again_one_after_the_other(
    failure: Callable[[], errors.ComponentFailed], seconds: int
) -> None:
    delays = set()
    for number in range(20):
        one = component(spec={"retryInterval": "5m"}, uid=f"uid-{number}")
        delay = timed(one, failure()).retry_after_seconds
        assert delay is not None
        assert 1.01 * seconds <= delay <= 1.05 * seconds
        delays.add(delay)
    assert len(delays) == 20
    assert timed(component(), errors.ApplyFailed("x")).retry_after_seconds is None


def test_a_path_that_the_source_does_not_have_is_named_with_those_that_it_has() -> None:
    failure = errors.failure_of(PathNotFound("elsewhere", ("base", "overlays")))
    assert str(failure).endswith(
        "error rendering manifests: no such file or directory: elsewhere. Correct spec.path: the source has base, "
        "overlays"
    )
    assert str(errors.failure_of(PathNotFound("x"))).endswith("Correct spec.path: the source has no folder there")
