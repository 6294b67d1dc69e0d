"""What lies encrypted in a source is decrypted on its way, by the keys of the Component, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stellwerk.api.core import ConfigMap, Secret
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

ENCRYPTED = Path(__file__).parent / "encrypted"
CHART = "apiVersion: v2\nname: chart\nversion: 1.0.0\n"
TEMPLATE = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}"}
stringData: {password: "{{ .Values.password }}", replicas: "{{ .Values.replicas }}"}
"""


def text(name: str) -> str:
    """An encrypted file, or a key."""
    return (ENCRYPTED / name).read_text()


def asking(secret: str, path: str, provider: str = "sops") -> dict[str, Any]:
    """The spec of a Component whose files are decrypted."""
    return {"decryption": {"provider": provider, "secretRef": {"name": secret}}, "path": path}


@pytest.mark.req("R-802")
async def test_files_are_decrypted_with_age_and_with_pgp_in_kustomizations_and_in_charts(
    given: Given, running: Running, then: Then
) -> None:
    files = {
        "plain/by-age.yaml": text("secret.age.yaml"),
        "plain/by-pgp.yaml": text("secret.pgp.yaml"),
        "plain/open.yaml": config("open", "sops: mac"),
    }
    for kind in ("age", "pgp"):
        files |= {
            f"{kind}/Chart.yaml": CHART,
            f"{kind}/values.yaml": text(f"values.{kind}.yaml"),
            f"{kind}/templates/secret.yaml": TEMPLATE,
        }
    await given.source(files)
    await given.secret("keys", **{"a.agekey": text("tests.agekey"), "b.asc": text("tests.asc"), "note": "none"})
    await running.start()
    await given.component("plain", **asking("keys", "plain"))
    await given.component("age", **asking("keys", "age", provider=""))
    await given.component("pgp", **asking("keys", "pgp"))
    for name in ("plain", "age", "pgp"):
        await then.ready(name)
    found = {name: await _secret(given, name) for name in ("by-age", "by-pgp", "age", "pgp")}
    assert found == {
        "by-age": {"password": "canary-of-a-kustomization"},
        "by-pgp": {"password": "canary-of-a-kustomization"},
        "age": {"password": "canary-of-a-chart", "replicas": "3"},
        "pgp": {"password": "canary-of-a-chart", "replicas": "3"},
    }
    assert (await then.config("open")).data == {"value": "sops: mac"}


@pytest.mark.req("R-803")
async def test_what_cannot_be_decrypted_is_named_and_nothing_is_applied(
    given: Given, running: Running, then: Then
) -> None:
    changed = text("secret.age.yaml").replace('lastmodified: "2', 'lastmodified: "3')
    files = {
        "good/secret.yaml": text("secret.age.yaml"),
        "chart/Chart.yaml": CHART,
        "chart/values.yaml": text("values.age.yaml"),
        "chart/templates/secret.yaml": TEMPLATE,
        "changed/secret.yaml": changed,
    }
    files |= {f"{folder}/config.yaml": config(f"beside-{folder}") for folder in ("good", "changed", "generator")}
    files |= {
        "generator/a.conf": text("values.age.yaml"),
        "generator/kustomization.yaml": "resources: [config.yaml]\nsecretGenerator: [{name: g, files: [a.conf]}]\n",
    }
    await given.source(files)
    await given.secret("misnamed", **{"age.key": text("tests.agekey")})
    await given.secret("keys", **{"a.agekey": text("tests.agekey")})
    await given.secret("others", **{"a.agekey": text("other.agekey")})
    await given.secret("broken", **{"a.agekey": "AGE-SECRET-KEY-CANARY"})
    await running.start()
    cases = {
        "wrong-key": (asking("others", "good"), "good/secret.yaml"),
        "wrong-key-for-chart": (asking("others", "chart"), "chart/values.yaml"),
        "broken-key": (asking("broken", "good"), "a.agekey"),
        "changed": (asking("keys", "changed"), "changed/secret.yaml"),
        "misnamed": (
            asking("misnamed", "good"),
            "no key whose name ends in .agekey (age) or .asc (PGP); it has age.key",
        ),
        "misnamed-for-generator": (
            asking("misnamed", "generator"),
            f"generator/a.conf is encrypted for age, and secret {given.namespace}/misnamed of spec.decryption has no",
        ),
        "forgotten": ({"path": "good"}, "good/secret.yaml is encrypted for age: name the Secret with the key in spec."),
        "forgotten-for-generator": ({"path": "generator"}, "generator/a.conf is encrypted for age: name the Secret"),
        "forgotten-for-chart": ({"path": "chart"}, "chart/values.yaml is encrypted for age: name the Secret"),
        "other-way": (asking("keys", "good", provider="vault"), "invalid decryption provider: vault"),
    }
    for name, (spec, _) in cases.items():
        await given.component(name, **spec)
    for name, (_, says) in cases.items():
        await then.shows("Error", "Error", name, saying=says)
        assert "canary" not in then.told(name).lower()
    for name in ("beside-good", "beside-changed", "beside-generator"):
        assert not await then.exists(ConfigMap, name)
    await given.component("no-key", decryption={"secretRef": {"name": "absent"}}, path="good")
    await then.shows("Pending", "Retrying", "no-key", saying=f"secret {then.key('absent')}")
    await given.deleted("no-key")
    await then.gone("no-key")


async def _secret(given: Given, name: str) -> dict[str, str]:
    found = await given.client.get(Secret, name, given.namespace)
    return {key: value.decode() for key, value in found.decoded().items()}
