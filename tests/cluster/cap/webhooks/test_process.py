"""`stellwerk run cap-webhooks` as in a cluster: with the rights of its account, and with nothing when it is away."""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cluster import permissions
from tests.cluster.cap.shop import Shop, job, router, server
from tests.cluster.cap.webhooks.test_webhooks import in_force, refused, view_of

from stellwerk.api.core import Secret
from stellwerk.delivery import grants
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import HOST, free_port
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.webhooks import registration, rights, settings
from stellwerk.operators.cap.webhooks.installation import INSTALLATION
from stellwerk.runtime.certificates import store
from stellwerk.runtime.certificates.certs import KeyPair
from stellwerk.runtime.certificates.store import CertificateStep, Profile
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.operator_process import OperatorProcess

SECRET = registration.secret_of(settings.SERVICE)

MINE = MergePatch({"metadata": {"finalizers": ["example.com/mine"]}})
NO_FINALIZER = MergePatch({"metadata": {"finalizers": None}})


@dataclass
class Away:
    """The namespace of the webhooks, their process and its port."""

    namespace: str
    process: OperatorProcess
    port: int

    @property
    def user(self) -> str:
        return permissions.account(INSTALLATION.account, self.namespace)


@asynccontextmanager
async def webhooks(cluster: LocalCluster, namespace: str, folder: Path, *flags: str) -> AsyncIterator[Away]:
    """The process with its account in a namespace, not started yet."""
    port, probes = free_port(), free_port()
    command = [
        *(sys.executable, "-m", "stellwerk.cli.main", "run", "cap-webhooks"),
        f"--kubeconfig={cluster.kubeconfig_of_account(namespace, INSTALLATION.account)}",
        f"--pod-namespace={namespace}",
        f"--webhook-host={HOST}",
        f"--webhook-port={port}",
        f"--health-probe-bind-address={HOST}:{probes}",
        "--metrics-bind-address=0",
        *flags,
    ]
    url = f"http://{HOST}:{probes}/readyz"
    async with OperatorProcess(command, log=folder / "webhooks.log", health_url=url) as process:
        yield Away(namespace, process, port)
        process.assert_clean_log()


async def register(admin: Client, away: Away, users: str, bundle: str) -> None:
    """Apply the configurations, for the writes in one namespace."""

    def client_config(path: str) -> JsonObject:
        return {"url": f"https://{HOST}:{away.port}{path}", "caBundle": bundle}

    for body in registration.configurations(client_config, away.namespace):
        entries = body["webhooks"]
        assert isinstance(entries, list)
        selector: JsonObject = {"matchLabels": {"kubernetes.io/metadata.name": users}}
        scoped = [{**entry, "namespaceSelector": selector} for entry in entries if isinstance(entry, dict)]
        await admin.apply(await view_of(admin, body), {**body, "webhooks": [*scoped]})


async def unregister(admin: Client, away: Away) -> None:
    """Delete the configurations."""
    for body in registration.configurations(lambda path: {}, away.namespace):
        await admin.delete(await view_of(admin, body), registration.NAME)


@pytest.mark.req("R-504", "R-706")
async def test_its_account_has_the_rights_that_it_uses_and_deletions_do_not_wait_for_it(
    cap_cluster: LocalCluster, admin: Client, home: str, shop: Shop, audit: AuditLog, tmp_path: Path
) -> None:
    async with webhooks(cap_cluster, home, tmp_path) as away:
        for body in INSTALLATION.accounts(home):
            await admin.apply(await view_of(admin, body), body)
        secrets = permissions.within(permissions.on("secrets", "create"), home)
        await permissions.count(admin, away.user, secrets, permissions.on("captenants", "list", group="sme.sap.com"))
        await away.process.start()
        secret = await admin.get(Secret, SECRET, home)
        await register(admin, away, home, secret.data["ca.crt"])
        await eventually(lambda: in_force(admin, home), describe="the API server asks the webhooks")

        await shop.bind()
        await shop.apply(provider={"subDomain": "provider", "tenantId": "provider-id"})
        assert "of type CAP" in await refused(shop.release("1"))
        await shop.release("1", server("srv"), router(), job("mtxs"))
        await shop.subscribe()
        await admin.patch(metadata_of(CAPTenant), "acme", home, MINE)

        entries = audit.entries(lambda entry: entry.user == away.user)
        used = {(entry.group, entry.resource, entry.verb) for entry in entries}
        granted = (*rights.GRANTS, *rights.HOME_GRANTS)
        named = {(need.group, need.resource, need.verb) for need in grants.needs(granted)}
        assert not [entry for entry in entries if entry.status == 403]
        assert not named - used - set(grants.occasions(granted)), "granted and not used"
        assert "missing right" not in away.process.log_text()

        await away.process.terminate()
        assert "failed calling webhook" in await refused(shop.subscribe("other"))
        await admin.delete(metadata_of(CAPTenant), "acme", home)
        await admin.patch(metadata_of(CAPTenant), "acme", home, NO_FINALIZER)
        assert await admin.find(CAPTenant, "acme", home) is None
        await unregister(admin, away)


async def test_it_serves_the_certificate_of_files_and_needs_no_right_on_secrets_for_it(
    cap_cluster: LocalCluster, admin: Client, home: str, shop: Shop, tmp_path: Path
) -> None:
    pair, authority = certificate()
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    files = ("--tls-enabled=true", f"--tls-cert={tmp_path / 'tls.crt'}", f"--tls-key={tmp_path / 'tls.key'}")
    async with webhooks(cap_cluster, home, tmp_path, *files) as away:
        await permissions.grant(admin, away.user, rights.GRANTS)
        await away.process.start()
        await register(admin, away, home, authority)
        await eventually(lambda: in_force(admin, home), describe="the API server asks the webhooks")
        assert await admin.find(Secret, SECRET, home) is None
        await unregister(admin, away)


def certificate() -> tuple[KeyPair, str]:
    """A certificate for the address of the webhooks, and its authority as base64."""
    made = store.made(CertificateStep.EVERYTHING, None, Profile(names=[HOST]), datetime.now(UTC))
    return made.leaf, base64.b64encode(made.bundle).decode()
