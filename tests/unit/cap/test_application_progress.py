"""Counts of tenants under way are shown once a second, and all else at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import controllers
from stellwerk.operators.cap.application.progress import PROGRESS_SECONDS, ShownCounts, is_progress, use_of_version
from stellwerk.operators.cap.kinds.application import ApplicationStatus
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.requests import Answering
from stellwerk.operators.cap.settings import Settings
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.process.manager import Manager

READY: JsonObject = {"type": "Ready", "status": "True", "reason": "Ready", "message": "ready"}


def shown(far: str, *, ready: bool = False, subdomains: tuple[str, ...] = ("a", "b")) -> ApplicationStatus:
    """The status of a consistent application whose tenants are this far."""
    reason = "AllTenantsReady" if ready else "NotAllTenantsReady"
    tenants: JsonObject = {"type": "AllTenantsReady", "status": str(ready), "reason": reason, "message": far}
    status: JsonObject = {"state": "Consistent", "observedSubdomains": [*subdomains], "conditions": [READY, tenants]}
    return msgspec.convert(status, ApplicationStatus)


def test_only_counts_of_tenants_and_their_subdomains_may_be_shown_later() -> None:
    before = shown("1/3 tenants are ready")
    assert is_progress(before, shown("2/3 tenants are ready"))
    assert is_progress(before, shown("1/2 tenants are ready", subdomains=("a",)))
    assert is_progress(before, shown("1/4 tenants are ready", subdomains=("a", "b", "c")))

    assert not is_progress(before, before), "nothing to show"
    assert not is_progress(before, shown("3/3 tenants are ready", ready=True))
    assert not is_progress(before, msgspec.structs.replace(before, state="Processing"))


def test_how_many_tenants_have_a_version_is_shown_as_often_as_how_many_are_ready() -> None:
    def having(
        count: int, far: str = "1/3 tenants are ready", *, version: str = "2", remark: str = ""
    ) -> ApplicationStatus:
        message = use_of_version(version, count, 3) + remark
        ready = {**READY, "reason": "VersionExists", "message": message}
        before = shown(far)
        changed = msgspec.convert({"conditions": [ready]}, ApplicationStatus).conditions
        return msgspec.structs.replace(before, conditions=(*changed, *before.conditions[1:]))

    assert is_progress(having(1), having(2))
    assert is_progress(having(1), having(2, "2/3 tenants are ready"))
    assert is_progress(having(2), having(3))

    assert not is_progress(having(1), having(2, version="3"))
    assert not is_progress(having(3), having(3, remark="; acme stays above it"))


def test_of_an_upgrade_the_phase_and_its_failures_are_shown_at_once() -> None:
    def at(phase: str, upgraded: int, failed: int = 0) -> ApplicationStatus:
        progress: JsonObject = {"version": "2", "phase": phase, "upgraded": upgraded, "failed": failed}
        changed = msgspec.convert({"tenantUpgrade": progress}, ApplicationStatus).tenant_upgrade
        return msgspec.structs.replace(shown(f"{upgraded} have it"), tenant_upgrade=changed)

    before = at("Rolling", 1)
    assert is_progress(before, at("Rolling", 2))
    assert not is_progress(before, at("Paused", 1))
    assert not is_progress(before, at("Rolling", 1, failed=1))
    assert not is_progress(before, shown("2/3 tenants are ready"))


def test_the_first_count_is_shown_at_once_and_the_next_a_second_later() -> None:
    memo = ShownCounts()
    assert memo.delay_seconds(shown("1/9 tenants are ready"), shown("2/9 tenants are ready"), 7.0) == 0

    before = shown("2/9 tenants are ready")
    assert memo.delay_seconds(before, shown("3/9 tenants are ready"), 7.25) == PROGRESS_SECONDS - 0.25
    assert memo.delay_seconds(before, shown("9/9 tenants are ready", ready=True), 7.25) == 0

    assert memo.delay_seconds(before, shown("5/9 tenants are ready"), 8.0) == 0
    assert memo.delay_seconds(before, shown("6/9 tenants are ready"), 8.0) == PROGRESS_SECONDS
    assert ShownCounts().delay_seconds(before, shown("6/9 tenants are ready"), 8.0) == 0


@pytest.mark.parametrize("kind", ["CAPApplication", "CAPApplicationVersion", "CAPTenant"])
def test_what_is_remembered_of_an_object_goes_with_it(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """An object that is created again inherits nothing: the controller drops the memos that the reconciler uses."""
    made: dict[str, tuple[Any, Any]] = {}

    class Noted(Controller[Any, Any]):
        def __init__(self, name: str, primary: Any, reconciler: Answering[Any, Any], **options: Any) -> None:
            super().__init__(name, primary, reconciler, **options)
            made[name] = reconciler.reconciler, options["memos"]

    monkeypatch.setattr(controllers, "Controller", Noted)
    manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
    counts = CapMetrics(manager.metrics, detailed=False)
    controllers.install_applications(manager, Settings(), "cap-system", counts=counts)
    reconciler, dropped = made[kind]
    if kind == "CAPTenant":
        (found,) = reconciler.settings
        assert dropped is found.writer.memos
    else:
        assert dropped is reconciler.memos
