"""The webhook as a part of a Kyma: its condition, what keeps it from being Ready, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.kyma.kyma.test_decide import HELD, World
from tests.unit.kyma.kyma.worlds import LOGIN
from tests.unit.kyma.watcher import test_webhook as webhooks
from tests.unit.kyma.watcher.authorities import a_certificate_secret, a_gateway
from tests.unit.kyma.watcher.test_certificates import CERT_MANAGER, kyma
from tests.unit.kyma.watcher.test_webhook import AUTHORITY, INSTALLED, ISTIO_GATEWAY, LEAF
from tests.unit.kyma.watcher.worlds import a_watcher

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import GATEWAYS, RUNTIME_DEFINITIONS, WATCHERS
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import webhook
from stellwerk.operators.kyma.watcher.certificates import CERTIFICATE_SECRETS, CERTIFICATES, GATEWAY_SECRETS
from stellwerk.operators.kyma.watcher.webhook import DEPLOYMENTS, SECRETS
from stellwerk.runtime.control.step import Write
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View

SETTINGS = Settings(skr_watcher_image_tag="1.2.3")
CERTIFICATE = "Certificate istio-system/k-webhook-tls"


@dataclass
class Watched(World):
    """Both clusters, with what the watcher needs."""

    has_gateway: bool = True

    def view(self) -> View:
        view = super().view()
        home, remote = view.sources, view.clusters.on(LOGIN) if not self.trouble else PlainSources()
        assert isinstance(home, PlainSources)
        assert isinstance(remote, PlainSources)
        home.add(GATEWAYS, PlainSource([ISTIO_GATEWAY] if self.has_gateway else []))
        home.add(WATCHERS, PlainSource([a_watcher()]))
        home.add(GATEWAY_SECRETS, PlainSource([a_gateway(AUTHORITY)]))
        for collection in (CERTIFICATES[CERT_MANAGER], CERTIFICATE_SECRETS):
            home.add(collection, PlainSource(self.here.get(collection, {}).values()))
        for each in webhook.RUNTIME_COLLECTIONS:
            remote.add(each, self._source(each, self.there.get(each, {}).values()))
        loads: Any = view.loads
        loads._values.update(webhooks.World()._loads()._values)
        return view

    def issue(self) -> None:
        """As cert-manager does."""
        secret = a_certificate_secret(LEAF)
        self.here[CERTIFICATE_SECRETS] = {secret.key: secret}

    def become_ready(self) -> None:
        """The Deployment in the remote cluster has a ready pod."""
        key = ObjectKey("kyma-system", "skr-webhook")
        body = self.there[DEPLOYMENTS][key].body
        self.there[DEPLOYMENTS][key] = type(self.there[DEPLOYMENTS][key]).of({**body, "status": {"readyReplicas": 1}})

    def perform(self, write: Write) -> bool:
        """An API server ends what has no finalizer at once."""
        is_held = super().perform(write)
        if type(write).__name__ == "Delete":
            for cluster in (self.here, self.there):
                for objects in cluster.values():
                    for key in [key for key, each in objects.items() if _is_gone(each)]:
                        del objects[key]
        return is_held

    @property
    def condition(self) -> str:
        """The status of the condition SKRWebhook; empty without one."""
        assert self.kyma is not None
        return next((each.status for each in self.kyma.status.conditions if each.type == "SKRWebhook"), "")


def _is_gone(obj: Any) -> bool:
    return obj.metadata.is_terminating and not obj.metadata.finalizers


def watched(settings: Settings = SETTINGS, **fields: Any) -> Watched:
    return Watched(kyma=kyma(), settings={"watcher": settings}, **fields)


def installed() -> Watched:
    """At rest with a ready webhook."""
    world = watched()
    world.run()
    world.issue()
    world.run()
    world.become_ready()
    world.run()
    assert (world.state, world.condition) == (State.Ready, "True")
    return world


def test_a_kyma_is_ready_when_its_webhook_is() -> None:
    world = watched()
    done = world.run()
    assert done[-3] == f"Apply {CERTIFICATE}", done
    assert (world.state, world.condition) == (State.Processing, "False")
    world.issue()
    assert world.run() == [f"Apply {each}" for each in INSTALLED]
    assert (world.state, world.condition) == (State.Processing, "False")
    world.become_ready()
    assert world.run() == ["status Ready: kyma is ready", "Show the status of Kyma kyma-system/default"]
    assert world.condition == "True"
    assert world.run() == []


def test_a_webhook_that_cannot_be_installed_is_an_error_of_the_kyma_and_shown_to_its_user() -> None:
    world = watched(has_gateway=False)
    world.run()
    assert (world.state, world.condition) == (State.Error, "False")
    assert world.operation.startswith("Gateway kcp-system/klm-watcher does not exist")
    assert world.user.status.state is State.Error
    assert world.run() == [], "at rest"
    world.has_gateway = True
    world.run()
    assert world.state is State.Processing


def test_what_is_not_known_of_a_webhook_leaves_the_rest_of_the_kyma_alone() -> None:
    world = watched(hidden={DEPLOYMENTS: "the watch is forbidden"})
    world.run()
    world.issue()
    world.run()
    assert (world.state, world.condition) == (State.Processing, "Unknown")
    assert world.user.status.state is State.Processing


def test_a_disabled_watcher_has_no_condition_and_installs_nothing() -> None:
    world = watched(Settings(disable_watcher=True))
    world.run()
    assert (world.state, world.condition) == (State.Ready, "")
    assert CERTIFICATES[CERT_MANAGER] not in world.here


@pytest.mark.req("KYMA-43")
@pytest.mark.parametrize("settings", [SETTINGS, Settings(disable_watcher=True)], ids=["watched", "disabled since"])
def test_a_deleted_kyma_takes_certificate_and_webhook_with_it_in_their_order(settings: Settings) -> None:
    world = installed()
    world.settings["watcher"] = settings
    world.events.clear()
    world.delete()
    done = world.run()
    certificate = [f"Delete {CERTIFICATE}", "Delete Secret istio-system/k-webhook-tls"]
    assert done[done.index(certificate[0]) :][:2] == certificate
    assert done.index("Delete ValidatingWebhookConfiguration skr-webhook") > done.index(certificate[1])
    assert {f"Delete {each}" for each in INSTALLED} < {*done}
    assert world.kyma is None
    removed = ["DeleteCertificateSetup", "DeleteSkrWebhookResources", "DeleteSkrModuleTemplateCrd"]
    assert [each for each in world.events if each in removed] == removed
    assert not any(world.there.get(each) for each in webhook.RUNTIME_COLLECTIONS)


@pytest.mark.req("KYMA-44")
def test_a_kyma_whose_cluster_is_gone_still_loses_its_certificate() -> None:
    world = installed()
    world.secrets = []
    world.delete()
    done = world.run()
    assert f"Delete {CERTIFICATE}" in done
    assert world.kyma is None


def test_the_former_order_removes_the_webhook_as_well() -> None:
    world = installed()
    world.settings["is_deleted_as_before"] = True
    world.delete()
    done = world.run()
    assert f"Delete {CERTIFICATE}" in done
    assert {f"Delete {each}" for each in INSTALLED} < {*done}
    assert world.kyma is None


def test_a_webhook_that_cannot_be_read_holds_a_deleted_kyma() -> None:
    world = installed()
    world.delete()
    world.hidden, world.there[SECRETS] = {SECRETS: "the watch is forbidden"}, {}
    world.run()
    assert world.kyma is not None
    assert HELD["finalizers"] == [*world.kyma.metadata.finalizers]
    assert world.there[RUNTIME_DEFINITIONS], "later steps wait"
