"""Hooks of Helm charts run at their time, and leave nothing behind that their author does not want."""

from __future__ import annotations

from itertools import combinations

import pytest

from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import metadata_of
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, job
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

CHART = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n"}
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {revision: "{{ .Release.Revision }}", install: "{{ .Release.IsInstall }}", note: "{{ .Values.note }}"}
"""


def hook(name: str, on: str, policy: str = "hook-succeeded", weight: str = "0") -> str:
    """A Job that is a hook."""
    asked = {"helm.sh/hook": on, "helm.sh/hook-weight": weight, "helm.sh/hook-delete-policy": policy}
    return job(name, annotations=asked)


async def test_install_hooks_run_once_before_all_else_and_upgrade_hooks_for_each_later_revision(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    templates = {
        "templates/settings.yaml": SETTINGS,
        "templates/install.yaml": hook("install", "pre-install"),
        "templates/first.yaml": hook("first", "pre-install,pre-upgrade", "before-hook-creation, hook-succeeded", "-5"),
        "templates/upgrade.yaml": hook("upgrade", "pre-upgrade"),
        "templates/after.yaml": hook("after", "post-install"),
        "templates/test.yaml": hook("test", "test"),
    }
    await given.source(CHART | templates)
    await given.component(values={"note": "one"})
    await running.start()
    ready = await then.ready()
    applied = ["create jobs/first", "apply jobs/install", "apply configmaps/settings"]
    purged = {"delete jobs/first", "delete jobs/install"}
    written = writes.to("jobs", "configmaps")
    assert (written[:3], {*written[3:5]}, written[5:]) == (applied, purged, ["apply jobs/after", "delete jobs/after"])
    assert {item.name: item.phase for item in ready.status.inventory} == {
        "first": "Completed",
        "install": "Completed",
        "settings": "Ready",
        "after": "Completed",
    }
    assert (await then.config("settings")).data == {"revision": "1", "install": "true", "note": "one"}
    for name in ("first", "install", "after"):
        assert not await then.exists(Job, name)

    await given.component(values={"note": "two"})
    await then.ready()
    applied = ["create jobs/first", "apply jobs/upgrade", "apply configmaps/settings"]
    purged = {"delete jobs/first", "delete jobs/upgrade"}
    written = writes.to("jobs", "configmaps")
    assert (written[7:10], {*written[10:]}) == (applied, purged)
    await given.annotated(poked="yes")
    await then.counts(3)
    written = writes.to("jobs", "configmaps")
    assert (written[12:15], {*written[15:]}) == (applied, purged)
    assert (await then.config("settings")).data == {"revision": "3", "install": "false", "note": "two"}


INSTALL, UPGRADE = ("pre-install", "post-install"), ("pre-upgrade", "post-upgrade")
EVENTS = [events for size in range(1, 5) for events in combinations((*INSTALL, *UPGRADE), size)]
POLICIES = ("before-hook-creation", "hook-succeeded", "before-hook-creation,hook-succeeded")


@pytest.mark.req("R-801")
async def test_every_combination_of_hook_events_and_delete_policies_runs_in_the_revisions_that_helm_runs_it_in(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    hooks = {f"h{number}-{place}": events for number, events in enumerate(EVENTS) for place in range(len(POLICIES))}
    templates = {
        f"templates/{name}.yaml": hook(name, ",".join(events), POLICIES[int(name[-1])])
        for name, events in hooks.items()
    }
    await given.source(CHART | {"templates/settings.yaml": SETTINGS} | templates)
    await running.start()
    ran: dict[str, set[str]] = {name: set() for name in hooks}
    for revision in (1, 2, 3):
        written = len(writes.to("jobs"))
        await given.component(values={"note": str(revision)})
        await then.counts(revision, within=120)
        made = [line for line in writes.to("jobs")[written:] if not line.startswith("delete")]
        moments = INSTALL if revision == 1 else UPGRADE
        due = {name for name, events in hooks.items() if {*moments} & {*events}}
        assert sorted(line.rpartition("/")[2] for line in made) == sorted(due), revision
        found = await given.client.list(metadata_of(Job), given.namespace)
        kept = {one.key.name: one.metadata.uid for one in found.items}
        for name, events in hooks.items():
            runs = ({*INSTALL} & {*events} != set()) + ({*UPGRADE} & {*events} != set()) * (revision - 1)
            if "hook-succeeded" in POLICIES[int(name[-1])]:
                assert name not in kept, (revision, name, events)
                continue
            ran[name] |= {kept[name]} if name in kept else set()
            assert len(ran[name]) == runs, (revision, name, events)


async def test_a_job_that_kubernetes_removes_after_its_success_has_run_and_does_not_run_again(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    def fleeting(name: str, **annotations: str) -> str:
        return job(name, annotations=annotations).replace(
            '"backoffLimit": 0', '"backoffLimit": 0, "ttlSecondsAfterFinished": 0'
        )

    hooked = {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}
    templates = {"templates/plain.yaml": fleeting("plain"), "templates/hook.yaml": fleeting("hook", **hooked)}
    await given.source(CHART | {"templates/settings.yaml": SETTINGS} | templates)
    await running.start()
    await given.component(values={"note": "one"})
    await then.ready()
    for name in ("plain", "hook"):
        await then.absent(Job, name)
    await running.rests()
    await given.annotated(poked="no change of the Job plain")
    await then.counts(2)
    made = [line for line in writes.to("jobs") if not line.startswith("delete")]
    assert sorted(line.rpartition("/")[2] for line in made) == ["hook", "hook", "plain"]


async def test_a_failing_hook_holds_the_rest_back(given: Given, running: Running, then: Then) -> None:
    failing = job("install", fate="fail", annotations={"helm.sh/hook": "pre-install"})
    await given.source(CHART | {"templates/install.yaml": failing, "templates/settings.yaml": SETTINGS})
    await given.component(values={"note": "x"}, timeout="10m")
    await running.start()
    await then.shows("Processing", saying=f"Job {then.key('install')}: Failed")
    await running.waits(minutes=11)
    await then.shows("Error", "Timeout", saying=f"Job {then.key('install')}: Failed")
    assert not await then.exists(ConfigMap, "settings")
    await given.deleted()
    await then.gone()
    await then.absent(Job, "install")


UNUSABLE = {
    "pre-delete": ({"helm.sh/hook": "pre-delete"}, "helm hook type pre-delete not supported"),
    "post-delete": ({"helm.sh/hook": "pre-install, post-delete"}, "helm hook type post-delete not supported"),
    "unknown": ({"helm.sh/hook": "crd-install"}, "crd-install"),
    "hook-failed": ({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-failed"}, "hook-failed"),
    "weight": ({"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "101"}, "101"),
    "resource-policy": ({"helm.sh/resource-policy": "drop"}, "resource-policy"),
    "ours": ({"component-operator.cs.sap.com/apply-order": "1"}, "component-operator.cs.sap.com/apply-order"),
}


async def test_hooks_that_cannot_be_kept_are_named(given: Given, running: Running, then: Then) -> None:
    files: dict[str, str] = {}
    for case, (asked, _) in UNUSABLE.items():
        files |= {f"{case}/{name}": text for name, text in CHART.items()}
        files[f"{case}/templates/hook.yaml"] = job("hooked", annotations=asked)
        files[f"{case}/templates/config.yaml"] = config(f"beside-{case}")
    await given.source(files)
    await running.start()
    for case in UNUSABLE:
        await given.component(case, path=case)
    for case, (_, says) in UNUSABLE.items():
        found = await then.shows("Error", "Error", case, saying=says)
        assert f"{case}/templates/hook.yaml" in then.told(case)
        assert not found.status.inventory
        assert not await then.exists(ConfigMap, f"beside-{case}")
