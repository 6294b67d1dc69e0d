"""Whatever a tenant writes into a Component and its Secrets, its condition says what cannot be used."""

from __future__ import annotations

import base64
import random

import pytest

from stellwerk.api.core import Secret
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.api import Component
from stellwerk.runtime import conditions
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.test_remote_clusters import changed
from tests.cluster.component.then import Then

BYTES: tuple[bytes, ...] = (
    b"\xff\xfe\x00",
    b"",
    b"\x00",
    b"[" * 50_000,
    b"- " * 30_000,
    b"a: &a [*a]",
    b"-----BEGIN CERTIFICATE-----\n\xff\n-----END CERTIFICATE-----\n",
    b"AGE-SECRET-KEY-1" + b"Q" * 200,
    b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nnoise\n-----END PGP PRIVATE KEY BLOCK-----\n",
    "\u202e\u0000\U0001f4a9".encode(),
    b"0x" + b"9" * 5_000,
    b"!!python/object/apply:os.system [id]",
    b'{"a": ' * 500,
)
TEXTS: tuple[str, ...] = (
    *("https://xn--/", "https://host:99999/", "https://:443", "http://[::1", "https://a b/", "\u202e", "0", "-1h"),
    *("99999999999999999999h", "1h1h1h", "NaN", "..", "../../etc/passwd", "a\nb", "{{ .x }}", "sha1:abc", "SHA256:abc"),
    *("system:serviceaccount:kube-system:x", "\x7f", "Ü" * 300, "x" * 5_000, "https://" + "a." * 200 + "com/", "*"),
)
KEYS = ("username", "password", "bearerToken", "ca.crt", "tls.crt", "tls.key", "value", "values", "k.agekey", "k.asc")


def hostile(rolls: random.Random, secrets: list[str]) -> JsonObject:
    """A spec of which some fields hold what no program can use."""

    def text() -> str:
        return rolls.choice(TEXTS)

    def secret() -> str:
        return rolls.choice(secrets)

    def some(**fields: JsonValue) -> JsonObject:
        return {name: value for name, value in fields.items() if rolls.random() < 0.3}

    repository: JsonObject = {"url": text(), **some(secretRef={"name": secret()}, digestHeader=text())}
    sources: list[JsonObject] = [{"fluxGitRepository": {"name": "source"}}, {"httpRepository": repository}]
    spec: JsonObject = {
        "sourceRef": rolls.choice(sources),
        **some(
            valuesFrom=[{"kind": "Secret", "name": secret()}],
            kubeConfig={"secretRef": {"name": secret()}},
            decryption={"provider": rolls.choice(["sops", text()]), "secretRef": {"name": secret()}},
            postBuild={"substituteFrom": [{"kind": "Secret", "name": secret()}]},
            path=text(),
            namespace=text(),
            name=text(),
            serviceAccountName=text(),
            digest=text(),
            revision=text(),
            timeout=text(),
            requeueInterval=text(),
            values={"a": text()},
            dependencies=[{"name": text(), "readyExpr": text()}],
        ),
    }
    return spec


@pytest.mark.req("R-413")
@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_text_and_bytes_a_spec_and_its_secrets_hold_its_condition_says_what_is_wrong(
    given: Given, running: Running, then: Then, login: str, seed: int
) -> None:
    rolls = random.Random(seed)
    secrets = []
    for number, noise in enumerate(BYTES):
        secrets.append(f"noise-{number}")
        data: JsonObject = {key: base64.b64encode(noise).decode() for key in KEYS}
        metadata: JsonObject = {"name": secrets[-1], "namespace": given.namespace}
        await given.client.apply(Secret, {"metadata": metadata, "data": data})
    for number, server in enumerate(("https://xn--/", "https://a:99999", "https://:443", "https://a b")):
        secrets.append(f"login-{number}")
        await given.secret(secrets[-1], value=changed(login, cluster={"server": server}))
    await given.source({"one.yaml": config_map("one")})
    running.grace_seconds = 0.1
    await running.start(egress_allow_networks=())

    names: list[str] = []
    for number in range(200):
        if len(names) == 25:
            break
        body: JsonObject = {
            "metadata": {"name": f"odd-{number}", "namespace": given.namespace},
            "spec": hostile(rolls, secrets),
        }
        try:
            await given.client.apply(Component, body)
        except ApiError:
            continue  # the schema refuses it
        names.append(f"odd-{number}")
    await given.component("well", path="")

    def silent() -> list[str]:
        """Those of which no status says yet what is wrong, or that all is well."""
        pages = {name: then.history.latest.get(name) for name in names}
        return [name for name, one in pages.items() if one is None or not _says_why(one)]

    await then.history.until(lambda: not silent(), lambda: f"these say nothing: {silent()}", 100.0)
    assert len(names) == 25
    surprises = [
        sample.value
        for family in running.manager.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "controller_runtime_reconcile_panics_total"
    ]
    assert not any(surprises), {name: then.told(name) for name in names if "UnexpectedError" in then.told(name)}
    await running.stop()


def _says_why(component: Component) -> bool:
    ready = conditions.find(component.status.conditions, "Ready")
    return ready is not None and ready.reason != "FirstSeen" and bool(ready.message) and ready.observed_generation > 0
