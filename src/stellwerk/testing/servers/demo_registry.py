"""The SaaS registry of the demo: subscribes a tenant of the sample application, and waits for the callback.

    python -m stellwerk.testing.servers.demo_registry

Token issuer and registry are doubles on this machine. The subscription server is the one of the local system: it checks
the token, creates the tenant, and reports to the registry when the tenant is provisioned.
"""

from __future__ import annotations

import asyncio
import json
import sys

import aiohttp
from joserfc.jwk import RSAKey

from stellwerk.local import certs
from stellwerk.local.cluster import LocalCluster, named
from stellwerk.local.host.private_files import write_private
from stellwerk.testing.servers.registries import Registries

APPLICATION, SUBDOMAIN = "bookshop", "reader"
TENANT_ID, GUID = "44444444-4444-4444-4444-444444444444", "55555555-5555-5555-5555-555555555555"
PROVIDER = "00000000-0000-0000-0000-000000000000"
CLIENT_ID = "sb-bookshop"
"""Of the sample's binding to the SaaS registry."""
PATIENCE_SECONDS = 60.0
_PROCESS = "operator-cap-server"
_SUBSCRIPTION = {
    "subscriptionGUID": GUID,
    "subscribedTenantId": TENANT_ID,
    "subscribedSubdomain": SUBDOMAIN,
    "globalAccountGUID": "global-account",
    "providerSubaccountId": PROVIDER,
    "subscriptionAppName": APPLICATION,
}


def _port(cluster: LocalCluster, flag: str) -> int:
    """A port that the running subscription server was given."""
    start = f"--{flag}="
    return next(
        int(word.removeprefix(start)) for word in cluster.process(_PROCESS).arguments() if word.startswith(start)
    )


def _key(cluster: LocalCluster) -> RSAKey:
    """The issuer's key, the same for the life of the cluster: the server keeps the keys of an issuer for a while."""
    file = cluster.folder / "pki" / "registry.key"
    if not file.exists():
        write_private(file, RSAKey.generate_key(2048, private=True).as_pem(private=True))
    return RSAKey.import_key(file.read_bytes(), {"kid": "demo"})


async def subscribe(cluster: LocalCluster) -> bool:
    """Subscribe the tenant, and print what the server answers and reports. Whether it was provisioned."""
    authority = certs.load_or_create_authority(cluster.folder / "pki")
    async with (
        Registries(port=_port(cluster, "loopback-port"), authority=authority, key=_key(cluster)) as registries,
        aiohttp.ClientSession() as session,
    ):
        token = registries.token(aud=[CLIENT_ID], scope=[f"{APPLICATION}.Callback"])
        path = f"/provision/tenants/{TENANT_ID}"
        headers = {"Authorization": f"Bearer {token}", "STATUS_CALLBACK": "/callback/demo"}
        url = f"http://127.0.0.1:{_port(cluster, 'port')}{path}"
        status, message = await _answer(session, url, headers)
        _show(f"PUT {path}: {status} {message}")
        if status != 202:
            return False
        (callback,) = await registries.received(within=PATIENCE_SECONDS)
        _show(f"callback {callback.path}: {callback.body['status']}, {callback.body['message']}")
        return bool(callback.body["status"] == "SUCCEEDED")


async def _answer(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> tuple[int, str]:
    """Status and message of the server's answer. It is asked again as long as it cannot decide, as a registry does: the
    application has to prove first that its credentials get a token, and the issuer runs no longer than this program."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            async with session.put(url, json=_SUBSCRIPTION, headers=headers) as answer:
                message = json.loads(await answer.read())["Message"]
                if answer.status != 503:
                    return answer.status, str(message)
                pause = float(answer.headers.get("Retry-After", "1"))
            await asyncio.sleep(pause)


def _show(line: str) -> None:
    sys.stdout.write(f"SaaS registry: {line}\n")


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(subscribe(named())) else 1)
