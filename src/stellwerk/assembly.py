"""The one place that knows all four operators: from settings to a running process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stellwerk.kube.model import JsonObject
from stellwerk.operators.btp import api as btp_api
from stellwerk.operators.btp import assembled as btp
from stellwerk.operators.btp import rights
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.process import Identity, Parts, run
from stellwerk.runtime.settings import ProcessSettings


def installation() -> list[JsonObject]:
    """What a cluster must have before our operators start: namespaces, kinds, service accounts and their rights."""
    namespace: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": btp_api.STANDARD_NAMESPACE}}
    return [namespace, btp_api.DEFINITION.body(), *rights.manifests()]


async def run_btp(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> None:
    """Run the BTP Manager until SIGTERM or SIGINT.

    Raises MissingImage, LoginFailed and CannotListen before anything is done; LeadershipLost when another process may
    lead by now.
    """
    btp.require(environment)
    identity = Identity(component=btp_api.OPERATOR_NAME, lease=btp_api.LEASE_NAME, namespace=settings.chart_namespace)
    resolved = btp.in_force(settings, Path.cwd())

    def install(parts: Parts) -> None:
        btp.install(parts.manager, resolved, environment, recorder=parts.recorder)

    await run(process, identity, install)
