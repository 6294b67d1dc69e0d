"""The SaaS registry of the demo: subscribes a tenant of the sample application, and waits for the callback.

    python -m stellwerk.testing.servers.demo_registry start    # before the sample application
    python -m stellwerk.testing.servers.demo_registry

Token issuer and registry are doubles on this machine, a process of the local system: they stay when the tenant is
subscribed, because the application goes on proving its identity, and end with `stellwerk down`. The subscription server
is the one of the local system: it checks the token, creates the tenant, and reports to the registry when the tenant is
provisioned.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from hashlib import sha256
from pathlib import Path

import aiohttp
from joserfc.jwk import RSAKey

from stellwerk.local import certs
from stellwerk.local.cluster import LocalCluster, named
from stellwerk.local.host.private_files import write_private
from stellwerk.local.host.processes import Process
from stellwerk.testing.eventually import eventually
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


def _registries(cluster: LocalCluster, port: int) -> Registries:
    return Registries(port=port, authority=certs.load_or_create_authority(cluster.folder / "pki"), key=_key(cluster))


async def serve(folder: Path, port: int) -> None:
    """Issue tokens and take callbacks, until the process ends. Each callback is a line of the output."""
    async with _registries(LocalCluster(folder), port) as registries:
        for count in range(1, sys.maxsize):
            callback = (await registries.received(count, within=float("inf")))[count - 1]
            sys.stdout.write(json.dumps([callback.path, callback.body]) + "\n")
            sys.stdout.flush()


def _started(cluster: LocalCluster) -> Process:
    """The process that serves, where the running subscription server looks for it."""
    port = _port(cluster, "loopback-port")
    code = sha256(Path(__file__).read_bytes()).hexdigest()
    module = "stellwerk.testing.servers.demo_registry"
    command = [sys.executable, "-m", module, str(cluster.folder), str(port)]
    return cluster.start_companion("registry", lambda: command, os.environ, source=f"{code}:{port}")


async def start(cluster: LocalCluster) -> None:
    """Return when the process serves."""
    port = _port(cluster, "loopback-port")
    _registries(cluster, port)  # stores its key
    _started(cluster)

    async def serves() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    await eventually(serves, within=PATIENCE_SECONDS, describe="the token issuer of the demo answers")


async def subscribe(cluster: LocalCluster) -> bool:
    """Subscribe the tenant, and print what the server answers and reports. Whether it was provisioned."""
    issuer = _registries(cluster, 0)  # only signs: with its key, which is stored before the other process begins
    process = _started(cluster)
    before = len(_callbacks(process))
    async with aiohttp.ClientSession() as session:
        token = issuer.token(aud=[CLIENT_ID], scope=[f"{APPLICATION}.Callback"])
        path = f"/provision/tenants/{TENANT_ID}"
        headers = {"Authorization": f"Bearer {token}", "STATUS_CALLBACK": "/callback/demo"}
        url = f"http://127.0.0.1:{_port(cluster, 'port')}{path}"
        status, message = await _answer(session, url, headers)
        _show(f"PUT {path}: {status} {message}")
        if status != 202:
            return False
        await eventually(
            lambda: len(_callbacks(process)) > before, within=PATIENCE_SECONDS, describe="the registry has a callback"
        )
        reported, body = _callbacks(process)[before]
        _show(f"callback {reported}: {body['status']}, {body['message']}")
        return bool(body["status"] == "SUCCEEDED")


def _callbacks(process: Process) -> list[tuple[str, dict[str, str]]]:
    """Path and body of those that the process has written down."""
    lines = process.log.read_text("utf-8").splitlines(keepends=True) if process.log.exists() else []
    return [json.loads(line) for line in lines if line.startswith("[") and line.endswith("\n")]


async def _answer(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> tuple[int, str]:
    """Status and message of the server's answer. It is asked again as long as it cannot decide, as a registry does: the
    application has to prove first that its credentials get a token."""
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
    if sys.argv[1:] == ["start"]:
        asyncio.run(start(named()))
        sys.exit()
    if len(sys.argv) > 1:
        asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
    sys.exit(0 if asyncio.run(subscribe(named())) else 1)
