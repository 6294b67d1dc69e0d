"""Public charts become ready by `stellwerk apply` and as Components, stay as they are, and leave what is to be kept.

An ordinary run tries a third of them. `make sweep` tries every chart in both ways and in two revisions.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.component.cli.conftest import Stellwerk
from tests.cluster.component.given import Given
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, metadata_of, to_json_object
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing import sweeps
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

CHARTS = Path(__file__).parents[5] / "shared" / "fixtures" / "charts"

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.skipif(not CHARTS.is_dir(), reason="the public charts are not on this machine"),
]


@dataclass(frozen=True)
class Case:
    """What a chart needs on a local cluster, where no container runs."""

    values: JsonObject = field(default_factory=dict)
    why: str = ""
    """Why it cannot have its defaults."""
    again: tuple[str, ...] = ()
    """Parts of the names of hooks that run in each revision."""
    is_large: bool = False
    """Whether a second revision would take too long for a test; then only its dry run is looked at."""


LOCATION: JsonObject = {
    "name": "default",
    "provider": "aws",
    "bucket": "backups",
    "credential": {"name": "s3", "key": "k"},
}
CASES = {
    "argo-cd": Case(again=("redis-secret-init",), is_large=True),
    "external-secrets": Case(),
    "ingress-nginx": Case(again=("admission",)),
    "kube-prometheus-stack": Case(
        {"grafana": {"adminPassword": "admin"}},
        "it draws a password in the first revision, whose checksum differs from that of what it finds in the second",
        again=("admission",),
        is_large=True,
    ),
    "kube-state-metrics": Case(),
    "kyverno": Case(again=("migrate-resources",)),
    "metrics-server": Case({"apiService": {"create": False}}, "its APIService needs a server that answers"),
    "node-feature-discovery": Case(),
    "prometheus": Case(),
    "redis": Case(),
    "traefik": Case(is_large=True),
    "velero": Case(
        {"configuration": {"backupStorageLocation": [LOCATION], "volumeSnapshotLocation": [LOCATION]}},
        "it has no default for the provider, and its own definitions refuse none",
        again=("upgrade-crds",),
    ),
}
AS_COMPONENTS = ("ingress-nginx", "node-feature-discovery", "prometheus", "redis", "velero")
"""Those with claims, Jobs that go by themselves, or hooks for the end. The others take too long for every run."""
PARTS = 3
"""A day has one of so many parts of the charts."""


def files_of(chart: str) -> dict[str, str | bytes]:
    """The files of a chart by their path in it."""
    files: dict[str, str | bytes] = {}
    with tarfile.open(CHARTS / f"{chart}.tgz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                files[member.name.partition("/")[2]] = content.read()
    return files


def unpacked(chart: str, folder: Path) -> Path:
    """The chart as a folder."""
    for name, content in files_of(chart).items():
        place = folder / chart / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / chart


def differing(shown: str) -> list[str]:
    """The objects that a dry run announces, with their mark."""
    return [" ".join(line.split()[:3]) for line in shown.splitlines() if line[:2] in ("+ ", "~ ", "- ", "! ")]


async def left_of(client: Client, items: Iterable[dict[str, Any]]) -> set[str]:
    """The objects of an inventory that exist, as KIND/NAME."""
    found = set()
    for item in items:
        gvk = GroupVersionKind(item["group"], item["version"], item["kind"])
        try:
            resource = await client.mapper.resource(gvk)
            there = await client.find(metadata_of(resource), item["name"], item.get("namespace", ""))
        except NotServed:
            continue
        if there is not None:
            found.add(f"{item['kind']}/{item['name']}")
    return found


def kept_of(items: Iterable[dict[str, Any]]) -> set[str]:
    """The objects of an inventory that the chart asks to keep, as KIND/NAME."""
    return {f"{item['kind']}/{item['name']}" for item in items if item["deletePolicy"].startswith("Orphan")}


async def is_left(client: Client, items: list[dict[str, Any]]) -> None:
    """After a deletion there is what was to be kept, and nothing else."""

    async def agrees() -> bool:
        left = await left_of(client, items)
        assert left == kept_of(items)
        return True

    await eventually(agrees, within=60, describe="only what the chart asks to keep is left")


async def clear(client: Client, items: list[dict[str, Any]]) -> None:
    """Delete what was kept outside of the test's namespace: the cluster is that of other tests too."""
    for item in items:
        if item.get("namespace") or not item["deletePolicy"].startswith("Orphan"):
            continue
        resource = await client.mapper.resource(GroupVersionKind(item["group"], item["version"], item["kind"]))
        await client.delete(metadata_of(resource), item["name"])


@pytest.mark.parametrize("chart", sweeps.part([*CASES], PARTS))
async def test_a_public_chart_is_a_release_that_is_applied_twice_and_deleted(
    given: Given,
    then: Then,
    stellwerk: Stellwerk,
    component_cluster: LocalCluster,
    tmp_path: Path,
    chart: str,
) -> None:
    case, values = CASES[chart], tmp_path / "values.yaml"
    values.write_text(json.dumps(case.values))
    words = ["apply", chart, str(unpacked(chart, tmp_path)), "-f", str(values), "--delete-hooks", "skip"]
    tried = await stellwerk(*words, "--dry-run")
    assert tried.returncode == 0, tried
    announced = differing(tried.stdout)
    assert not [line for line in announced if not line.startswith("+")], "all of it is new"
    done = await stellwerk(*words, "--timeout", "100s")
    assert done.returncode == 0, done
    items = yaml.safe_load((await then.config(f"com.sap.cs.clm.release.{chart}")).data["inventory"])
    assert len(announced) == len(items)

    tried = await stellwerk(*words, "--dry-run")
    assert tried.returncode == 0, tried
    announced = differing(tried.stdout)
    hooks = {line.rpartition("/")[2].split()[-1] for line in announced}
    assert not [name for name in hooks if not any(part in name for part in case.again)]
    if sweeps.IS_WHOLE or not case.is_large:
        audit = AuditLog(component_cluster)
        done = await stellwerk(*words, "--timeout", "100s")
        assert done.returncode == 0, done
        writes = audit.entries(lambda entry: entry.is_write and entry.agent.startswith("stellwerk"))
        written = {entry.name for entry in writes if entry.name != f"com.sap.cs.clm.release.{chart}"}
        assert written == hooks, "what the dry run has announced is written, and nothing else"

    items = yaml.safe_load((await then.config(f"com.sap.cs.clm.release.{chart}")).data["inventory"])
    done = await stellwerk("delete", chart, "--yes", "--timeout", "100s")
    assert done.returncode == 0, done
    await is_left(given.client, items)
    assert await given.client.find(ConfigMap, f"com.sap.cs.clm.release.{chart}", given.namespace) is None
    await clear(given.client, items)


@pytest.mark.parametrize("chart", CASES if sweeps.IS_WHOLE else sweeps.part(AS_COMPONENTS, PARTS))
async def test_a_public_chart_is_a_component_that_becomes_ready_and_goes_again(
    given: Given, running: Running, then: Then, component_cluster: LocalCluster, chart: str
) -> None:
    await given.source(files_of(chart))
    await running.start()
    await given.component(chart, values=CASES[chart].values, deleteHooks="Run")
    ready = await then.ready(chart, within=60)
    items: list[dict[str, Any]] = [to_json_object(item) for item in ready.status.inventory]
    assert {item["phase"] for item in items} <= {"Ready", "Completed"}
    await running.rests()
    audit = AuditLog(component_cluster)
    await given.annotated(chart, poked="yes")
    await then.counts(2, chart, within=60)
    await running.rests()
    plain = {item["name"] for item in items if not any(part in item["name"] for part in CASES[chart].again)}
    written = audit.entries(lambda entry: entry.is_write and entry.resource != "components")
    assert not [one for one in written if one.name in plain], "nothing but hooks is written"
    await given.deleted(chart)
    await then.gone(chart, within=60)
    await is_left(given.client, items)
    await clear(given.client, items)
