"""`stellwerk apply`, `delete`, `status`, `list` and `template`: releases without a controller, as `clm` keeps them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.cluster.component import kinds, manifests
from tests.cluster.component.aggregated import WidgetServer
from tests.cluster.component.cli.conftest import Stellwerk, narrow, parsed
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import RELIC_REMARK, config, definition, deployment, gate, job, relic
from tests.cluster.component.rights import Rights
from tests.cluster.component.then import Then

from stellwerk.api.apiregistration import APIService
from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap, Namespace, Service
from stellwerk.api.rbac import Role, RoleBinding
from stellwerk.apply.set.model.owner import hash_of
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    AnswerInstead,
    CutConnection,
    FaultProxy,
    RequestFault,
    When,
    requests,
)

OWNER = "clm.cs.sap.com/owner-id"


def kept(release: str) -> str:
    return f"com.sap.cs.clm.release.{release}"


def chart(folder: Path, *names: str) -> Path:
    """A chart with a ConfigMap for each name; values reach them all."""
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    for old in (folder / "templates").iterdir():
        old.unlink()
    for name in names:
        text = config_map(name, a="1") + '  who: "{{ .Values.who }}"\n  revision: "{{ .Release.Revision }}"\n'
        (folder / "templates" / f"{name}.yaml").write_text(text)
    return folder


async def test_a_release_is_applied_upgraded_with_pruning_shown_and_deleted(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    source = chart(tmp_path / "chart", "one", "two")
    extra, low, high = tmp_path / "extra.yaml", tmp_path / "low.yaml", tmp_path / "high.yaml"
    extra.write_text(config_map("extra"))
    low.write_text("who: low\nother: x\n")
    high.write_text("who: high\n")
    words = ["apply", "shop", str(source), str(extra), "-f", str(low), "-f", str(high)]

    tried = await stellwerk(*words, "--dry-run")
    assert tried.returncode == 0, tried
    assert f"+ ConfigMap {given.namespace}/one" in tried.stdout
    assert not await then.exists(ConfigMap, "one")
    assert not await then.exists(ConfigMap, kept("shop"))

    done = await stellwerk(*words)
    assert (done.returncode, done.stdout) == (0, f"Release {given.namespace}/shop successfully applied\n"), done
    one = await then.config("one")
    assert one.data == {"a": "1", "who": "high", "revision": "1"}
    owner = f"clm.cs.sap.com/{given.namespace}/shop"
    assert one.metadata.annotations[OWNER] == owner
    assert one.metadata.labels[OWNER] == hash_of(owner)

    store = await then.config(kept("shop"))
    assert store.metadata.labels == {"release.clm.cs.sap.com": "shop"}
    assert store.metadata.finalizers == ("clm.cs.sap.com/finalizer",)
    assert {key: store.data[key] for key in ("version", "revision", "state")} == {
        "version": "1",
        "revision": "1",
        "state": "Ready",
    }
    items = yaml.safe_load(store.data["inventory"])
    assert {item["name"] for item in items} == {"one", "two", "extra"}
    assert {(item["phase"], item["updatePolicy"]) for item in items} == {("Ready", "SsaOverride")}

    traced = await stellwerk("trace", "configmap/one")
    assert traced.returncode == 0, traced
    assert f"Managed by: ✔ Release {given.namespace}/shop\nRevision: 1\nState: Ready\n" in narrow(traced.stdout)

    chart(source, "one", "three")
    done = await stellwerk(*words)
    assert done.returncode == 0, done
    assert (await then.config("one")).data["revision"] == "2"
    assert await then.exists(ConfigMap, "three")
    assert not await then.exists(ConfigMap, "two")

    shown = parsed((await stellwerk("status", "shop", "-o", "json")).stdout)
    assert {key: value for key, value in shown.items() if not key.endswith("At")} == {
        "namespace": given.namespace,
        "name": "shop",
        "revision": 2,
        "state": "Ready",
        "numAllObjects": 3,
        "numReadyObjects": 3,
        "numCompletedObjects": 0,
    }
    assert str(shown["createdAt"]).endswith("Z")
    listed = await stellwerk("list")
    rows = [line.split() for line in listed.stdout.splitlines()]
    titles = ["NAMESPACE", "NAME", "REVISION", "STATE", "OBJECTS", "READY", "COMPLETED", "CREATED", "UPDATED"]
    assert rows[0] == titles
    assert rows[1][:7] == [given.namespace, "shop", "2", "Ready", "3", "3", "0"]
    assert json.loads((await stellwerk("list", "-o", "json")).stdout)[0]["name"] == "shop"
    assert yaml.safe_load((await stellwerk("list", "-o", "yaml")).stdout)[0]["numReadyObjects"] == 3
    stream = [*yaml.safe_load_all((await stellwerk("list", "-o", "yamlstream")).stdout)]
    assert [one["name"] for one in stream] == ["shop"]

    asked = await stellwerk("delete", "shop")
    assert asked.returncode == 2
    assert "add --yes" in asked.stderr
    tried = await stellwerk("delete", "shop", "--dry-run")
    assert f"- ConfigMap {given.namespace}/one" in tried.stdout
    assert await then.exists(ConfigMap, "one")
    done = await stellwerk("delete", "shop", "--yes")
    assert (done.returncode, done.stdout) == (0, f"Release {given.namespace}/shop successfully deleted\n"), done
    for name in ("one", "three", "extra", kept("shop")):
        assert await given.client.find(ConfigMap, name, given.namespace) is None
    gone = await stellwerk("status", "shop")
    assert gone.returncode == 1
    assert "there is no release shop" in gone.stderr
    none = await stellwerk("ls")
    assert (none.returncode, none.stdout) == (0, "")
    assert "Make one: stellwerk apply" in none.stderr


async def left_by_clm(given: Given, *done: str) -> None:
    """The release `old.one` as clm leaves it: a ConfigMap `kept`, and others that are gone after their work."""
    owner = f"clm.cs.sap.com/{given.namespace}/old.one"
    marks: JsonObject = {OWNER: owner, "clm.cs.sap.com/digest": "0" * 64}
    metadata: JsonObject = {
        "name": "kept",
        "namespace": given.namespace,
        "labels": {OWNER: hash_of(owner)},
        "annotations": marks,
    }
    await given.client.apply(ConfigMap, {"metadata": metadata, "data": {"a": "b"}}, field_manager="clm.cs.sap.com")
    item = {
        "version": "v1",
        "kind": "ConfigMap",
        "group": "",
        "namespace": given.namespace,
        "name": "kept",
        "adoptionPolicy": "IfUnowned",
        "reconcilePolicy": "OnObjectChange",
        "updatePolicy": "SsaOverride",
        "deletePolicy": "Delete",
        "applyOrder": 0,
        "deleteOrder": 0,
        "digest": "0" * 64,
        "phase": "Ready",
        "status": "Current",
        "lastAppliedAt": "2026-05-01T12:00:00Z",
    }
    over = [{**item, "name": name, "phase": "Completed", "status": ""} for name in done]
    store: JsonObject = {
        "metadata": {
            "name": kept("old.one"),
            "namespace": given.namespace,
            "labels": {"release.clm.cs.sap.com": "old.one"},
            "finalizers": ["clm.cs.sap.com/finalizer"],
        },
        "data": {
            "version": "1",
            "creationTimestamp": "2026-05-01T12:00:00Z",
            "updateTimestamp": "2026-05-01T12:00:00Z",
            "revision": "7",
            "inventory": yaml.safe_dump([item, *over]),
            "state": "Ready",
        },
    }
    await given.client.apply(ConfigMap, store)


@pytest.mark.req("R-306")
async def test_a_release_of_the_original_is_taken_over_without_a_delete_or_a_write_to_what_is_right(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    await left_by_clm(given)
    before = await then.config("kept")
    shown = parsed((await stellwerk("status", "old.one", "-o", "json")).stdout)
    assert (shown["name"], shown["revision"], shown["createdAt"]) == ("old.one", 7, "2026-05-01T12:00:00Z")

    manifest = tmp_path / "m.yaml"
    manifest.write_text(config_map("kept"))
    done = await stellwerk("apply", "old.one", str(manifest))
    assert done.returncode == 0, done
    after = await then.config("kept")
    assert (after.metadata.uid, after.data) == (before.metadata.uid, {"a": "b"})
    assert (await then.config(kept("old.one"))).data["revision"] == "8"
    assert (await then.config(kept("old.one"))).data["creationTimestamp"] == "2026-05-01T12:00:00Z"


@pytest.mark.req("R-306")
async def test_what_was_purged_after_its_work_under_clm_is_not_made_again_before_something_changes(
    given: Given, then: Then, stellwerk: Stellwerk, component_cluster: LocalCluster, tmp_path: Path
) -> None:
    await left_by_clm(given, "done")
    audit = AuditLog(component_cluster)

    def runs() -> int:
        mine = audit.entries(lambda entry: entry.is_write and entry.namespace == given.namespace)
        return sum(entry.name == "done" and entry.verb == "patch" for entry in mine)

    manifest = tmp_path / "m.yaml"
    done = config("done", purge_order="0").replace("component-operator.cs.sap.com", "clm.cs.sap.com")
    manifest.write_text(f"{config_map('kept', a='b')}---\n{done}")
    tried = await stellwerk("apply", "old.one", str(manifest), "--dry-run")
    assert f"ConfigMap {given.namespace}/done has done its work under clm" in tried.stderr
    assert f"+ ConfigMap {given.namespace}/done" not in tried.stdout
    told = await stellwerk("apply", "old.one", str(manifest), "--timeout", "30s")
    assert told.returncode == 0, told
    assert f"ConfigMap {given.namespace}/done has done its work under clm" in told.stderr
    items = yaml.safe_load((await then.config(kept("old.one"))).data["inventory"])
    assert {item["name"]: item["phase"] for item in items} == {"kept": "Ready", "done": "Completed"}
    told = await stellwerk("apply", "old.one", str(manifest), "--timeout", "30s")
    assert told.returncode == 0, told
    assert "has done its work under clm" not in told.stderr
    assert runs() == 0

    manifest.write_text(manifest.read_text().replace('"value": ""', '"value": "new"'))
    assert (await stellwerk("apply", "old.one", str(manifest), "--timeout", "30s")).returncode == 0
    assert runs() == 1
    assert not await then.exists(ConfigMap, "done")


@pytest.mark.parametrize("verb", ["apply", "template", "delete", "status"])
async def test_a_shell_completes_the_names_of_releases(
    given: Given, component_cluster: LocalCluster, verb: str
) -> None:
    await left_by_clm(given)
    words = ["stellwerk", verb, "--kubeconfig", str(component_cluster.kubeconfig), "-n", given.namespace, "old"]
    asked = {"_STELLWERK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}

    async def is_completed() -> bool:
        told = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "stellwerk.cli.main"],
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, **asked},
            check=False,
        )
        assert "plain,old.one" in told.stdout, told
        return True

    # A busy machine may not answer in the fifth of a second that a shell waits.
    await eventually(is_completed, within=60, describe="the name is completed")


async def test_a_chart_with_hooks_for_its_end_is_taken_without_them_where_that_is_asked_for(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    source = chart(tmp_path / "chart", "one")
    (source / "values.yaml").write_text("who: first\nwho: last\n")
    failed = {"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "before-hook-creation,hook-failed"}
    (source / "templates" / "before.yaml").write_text(job("before", annotations=failed))
    (source / "templates" / "bye.yaml").write_text(job("bye", annotations={"helm.sh/hook": "pre-delete"}))
    for verb in ("apply", "template"):
        refused = await stellwerk(verb, "shop", str(source))
        assert refused.returncode != 0
        assert "hook" in refused.stderr
        done = await stellwerk(verb, "shop", str(source), "--delete-hooks", "skip")
        assert done.returncode == 0, done
        assert 'values.yaml: line 2: the key "who" appears twice in one mapping; the last one counts' in done.stderr
    assert (await then.config("one")).data["who"] == "last"
    assert await then.exists(Job, "before")
    assert not await then.exists(Job, "bye")


async def test_annotations_of_plain_files_need_no_quotes(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    file = tmp_path / "plain.yaml"
    annotations = "{clm.cs.sap.com/apply-order: 1, a: 1.10}"
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n  annotations: {annotations}\n"
    file.write_text(text)
    done = await stellwerk("apply", "shop", str(file))
    assert done.returncode == 0, done
    assert (await then.config("one")).metadata.annotations["a"] == "1.10"
    file.write_text(text.replace("annotations:", "labels: {number: 1}\n  annotations:"))
    done = await stellwerk("apply", "shop", str(file))
    assert done.returncode != 0
    assert "metadata.labels['number'] is not text: put the value in quotes" in done.stderr


@pytest.mark.req("R-801")
async def test_a_hook_for_install_and_upgrade_runs_in_each_revision_of_a_release(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    source = chart(tmp_path / "chart", "one")
    for name, events in (("always", "pre-install,pre-upgrade"), ("once", "pre-install"), ("later", "post-upgrade")):
        (source / "templates" / f"{name}.yaml").write_text(job(name, annotations={"helm.sh/hook": events}))
    uids: dict[str, list[str]] = {"always": [], "once": [], "later": []}
    for number in range(3):
        tried = await stellwerk("apply", "shop", str(source), "--dry-run")
        again = [f"Job {given.namespace}/always" in tried.stdout, f"Job {given.namespace}/later" in tried.stdout]
        assert (f"Job {given.namespace}/once" in tried.stdout, again) == (number == 0, [True, number > 0]), tried
        done = await stellwerk("apply", "shop", str(source))
        assert done.returncode == 0, done
        for name, runs in uids.items():
            found = await given.client.find(metadata_of(Job), name, given.namespace)
            runs.extend([found.metadata.uid] if found is not None and found.metadata.uid not in runs else [])
    assert {name: len(runs) for name, runs in uids.items()} == {"always": 3, "once": 1, "later": 2}


def fleeting(name: str, **annotations: str) -> str:
    """A Job that Kubernetes removes as soon as it is complete."""
    return job(name, annotations=annotations).replace(
        '"backoffLimit": 0', '"backoffLimit": 0, "ttlSecondsAfterFinished": 0'
    )


async def test_a_job_that_kubernetes_removes_after_its_success_runs_once_in_a_revision(
    given: Given, then: Then, stellwerk: Stellwerk, component_cluster: LocalCluster, tmp_path: Path
) -> None:
    source = chart(tmp_path / "chart", "one")
    hooked = {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}
    purged = {"helm.sh/hook": "post-install", "helm.sh/hook-delete-policy": "hook-succeeded"}
    (source / "templates" / "plain.yaml").write_text(fleeting("plain"))
    (source / "templates" / "hook.yaml").write_text(fleeting("hook", **hooked))
    (source / "templates" / "last.yaml").write_text(fleeting("last", **purged))
    audit, runs = AuditLog(component_cluster), {"plain": 1, "hook": 0, "last": 1}
    for number in range(1, 3):
        runs["hook"] = number
        tried = await stellwerk("apply", "shop", str(source), "--dry-run")
        will = {name for name in runs if f"Job {given.namespace}/{name}" in tried.stdout}
        assert will == ({*runs} if number == 1 else {"hook"}), tried
        done = await stellwerk("apply", "shop", str(source), "--timeout", "60s")
        assert done.returncode == 0, done
        for name in runs:
            await then.absent(Job, name)
        jobs = audit.entries(lambda entry: entry.namespace == given.namespace and entry.resource == "jobs")
        made = [entry.name for entry in jobs if entry.status == 201 and "dryRun" not in entry.path]
        assert {name: made.count(name) for name in runs} == runs
    assert (await stellwerk("delete", "shop", "--yes", "--timeout", "60s")).returncode == 0


@pytest.mark.req("R-102")
@pytest.mark.parametrize(
    "fault", [CutConnection(after_forwarding=True), AnswerInstead(504, after_forwarding=True)], ids=str
)
async def test_a_release_is_applied_and_deleted_though_the_answer_to_each_of_its_writes_is_lost_once(
    given: Given, then: Then, component_cluster: LocalCluster, stellwerk: Stellwerk, tmp_path: Path, fault: RequestFault
) -> None:
    source = tmp_path / "one.yaml"
    source.write_text(config_map("one"))
    async with FaultProxy(component_cluster.kubeconfig) as proxy:
        written = requests({"create", "update", "delete"}, "configmaps", namespace=given.namespace)
        proxy.on_requests(written, fault, lambda number: number % 2 == 1)
        done = await stellwerk("apply", "shop", str(source), kubeconfig=proxy.kubeconfig)
        assert done.returncode == 0, done
        store = await then.config(kept("shop"))
        assert (store.data["state"], store.data["revision"]) == ("Ready", "1")
        gone = await stellwerk("delete", "shop", "--yes", kubeconfig=proxy.kubeconfig)
        assert gone.returncode == 0, gone
    assert not await then.exists(ConfigMap, "one")
    assert not await then.exists(ConfigMap, kept("shop"))


@pytest.mark.req("R-102")
async def test_a_run_that_ends_without_an_answer_to_its_write_leaves_the_release_in_error_with_what_was_written(
    given: Given, then: Then, component_cluster: LocalCluster, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    source = tmp_path / "one.yaml"
    source.write_text(config_map("one"))
    async with FaultProxy(component_cluster.kubeconfig) as proxy:
        updated = requests("update", "configmaps", namespace=given.namespace)
        processing = updated & When(lambda request: b'"state":"Processing"' in request.body, "in state Processing")
        proxy.on_requests(processing, CutConnection(after_forwarding=True))
        failed = await stellwerk("apply", "shop", str(source), kubeconfig=proxy.kubeconfig)
    assert failed.returncode == 1, failed
    store = await then.config(kept("shop"))
    assert store.data["state"] == "Error"
    assert '"name":"one"' in store.data["inventory"]


async def test_a_release_that_takes_too_long_ends_with_four_and_is_continued_by_the_next_run(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    hint = gate("g").replace("component-operator.cs.sap.com", "clm.cs.sap.com")
    manifest.write_text(hint)
    late = await stellwerk("apply", "slow", str(manifest), "--timeout", "1s")
    assert late.returncode == 4, late
    assert f"Gate {given.namespace}/g" in late.stderr
    assert "  0 of 1 objects ready; waits for Gate" in late.stderr, "the progress, a line for each change"
    shown = await stellwerk("status", "slow")
    assert shown.returncode == 1
    assert "Error" in shown.stdout
    told = (await stellwerk("why", "slow")).stdout.splitlines()
    assert told[0].startswith(f"✗ Release {given.namespace}/slow is not ready")
    assert any(f"Gate {given.namespace}/g: " in line and line.endswith("<- root cause") for line in told), told
    drawn = (await stellwerk("tree", "slow")).stdout
    assert f"Release {given.namespace}/slow" in drawn
    assert f"Gate {given.namespace}/g" in drawn
    absent = await stellwerk("why", "nothing")
    assert absent.returncode == 1, absent
    await given.opened("g")
    done = await stellwerk("apply", "slow", str(manifest), "--timeout", "30s")
    assert done.returncode == 0, done
    assert (await then.config(kept("slow"))).data["state"] == "Ready"


async def test_a_release_that_takes_too_long_ends_with_the_root_cause_and_the_next_step(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(deployment("shop", fate="pull-error"))
    assert (await stellwerk("apply", "late", str(manifest), "--timeout", "1s")).returncode == 4
    steps: list[str] = []

    async def is_explained() -> bool:
        told = parsed((await stellwerk("why", "late", "-o", "json")).stdout)
        steps.append(str(told["nextStep"]))
        return "cannot be pulled" in json.dumps(told["findings"])

    await eventually(is_explained, within=60, describe="it is known that the image cannot be pulled")
    late = await stellwerk("apply", "late", str(manifest), "--timeout", "1s")
    assert late.returncode == 4, late
    assert "root cause: Pod " in late.stderr
    assert "cannot be pulled" in late.stderr
    assert f"Fix:     {steps[-1]}" in late.stderr
    assert f"details: stellwerk why late -n {given.namespace}" in late.stderr


async def test_a_release_that_is_being_deleted_is_not_applied_and_its_deletion_can_be_finished(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(config_map("held"))
    assert (await stellwerk("apply", "leaving", str(manifest))).returncode == 0
    hold = MergePatch({"metadata": {"finalizers": ["example.com/hold"]}})
    await given.client.patch(metadata_of(ConfigMap), "held", given.namespace, hold)
    late = await stellwerk("delete", "leaving", "--yes", "--timeout", "1s")
    assert late.returncode == 4, late
    assert f"ConfigMap {given.namespace}/held" in late.stderr

    refused = await stellwerk("apply", "leaving", str(manifest))
    assert refused.returncode == 1
    assert "is being deleted" in refused.stderr

    free = MergePatch({"metadata": {"finalizers": None}})
    await given.client.patch(metadata_of(ConfigMap), "held", given.namespace, free)
    done = await stellwerk("delete", "leaving", "--yes")
    assert done.returncode == 0, done
    assert await given.client.find(ConfigMap, kept("leaving"), given.namespace) is None


async def test_a_release_whose_kinds_others_use_is_not_deleted(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(f"{definition('clm.example.com', 'Widget')}\n---\n{config_map('controller')}")
    other = tmp_path / "w.yaml"
    other.write_text(json.dumps({"apiVersion": "clm.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}))
    tried = await stellwerk("apply", "both", str(manifest), str(other), "--dry-run")
    assert f"+ Widget {given.namespace}/w" in tried.stdout, "its kind comes with it"
    assert (await stellwerk("apply", "widgets", str(manifest), "--timeout", "30s")).returncode == 0
    widgets = Resource("clm.example.com", "v1", "Widget", "widgets", namespaced=True)
    await eventually(lambda: kinds.established(given.client, widgets.group_resource))
    await eventually(lambda: kinds.is_listed(given.client, widgets))
    assert (await stellwerk("apply", "user", str(other), "--timeout", "30s")).returncode == 0

    refused = await stellwerk("delete", "widgets", "--yes")
    assert refused.returncode == 1, refused
    assert "widgets.clm.example.com is still in use (instances exist)" in refused.stderr
    assert (await then.config(kept("widgets"))).metadata.deletion_timestamp is None

    await given.client.delete(ConfigMap, kept("widgets"), given.namespace)
    refused = await stellwerk("delete", "widgets", "--yes", "--timeout", "10s")
    assert refused.returncode == 1, refused
    assert "widgets.clm.example.com is still in use (instances exist)" in refused.stderr
    assert await then.exists(ConfigMap, "controller")
    assert (await stellwerk("delete", "user", "--yes", "--timeout", "30s")).returncode == 0
    done = await stellwerk("delete", "widgets", "--yes", "--timeout", "30s")
    assert done.returncode == 0, done


@pytest.mark.usefixtures("relics")
async def test_what_the_api_server_warns_of_is_told_as_kubectl_does(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(relic("bone"))
    for options in (["--dry-run"], []):
        done = await stellwerk("apply", "old", str(manifest), *options)
        assert done.returncode == 0, done
        assert f"Warning: Relic {given.namespace}/bone: {RELIC_REMARK}\n" in done.stderr
    assert (await stellwerk("delete", "old", "--yes")).returncode == 0


async def test_objects_of_somebody_else_are_not_taken(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(config_map("mine"))
    assert (await stellwerk("apply", "first", str(manifest))).returncode == 0
    tried = await stellwerk("apply", "second", str(manifest), "--dry-run")
    assert tried.returncode == 1, tried
    assert f"clm.cs.sap.com/{given.namespace}/first" in tried.stderr
    taken = await stellwerk("apply", "second", str(manifest))
    assert taken.returncode == 1, taken
    assert f"clm.cs.sap.com/{given.namespace}/first" in taken.stderr
    assert (await then.config("mine")).metadata.annotations[OWNER].endswith("/first")
    assert (await then.config(kept("second"))).data["state"] == "Error"
    assert (await stellwerk("delete", "second", "--yes")).returncode == 0
    assert await then.exists(ConfigMap, "mine")


async def test_missing_namespaces_are_created_only_when_asked_for(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest, space = tmp_path / "m.yaml", f"{given.namespace}-new"
    manifest.write_text(config("one"))
    for options in (["--dry-run"], []):
        refused = await stellwerk("apply", "spaced", str(manifest), *options, namespace=space)
        assert refused.returncode == 1, refused
        assert "or have it created with --create-namespace" in refused.stderr
    tried = await stellwerk("apply", "spaced", str(manifest), "--create-namespace", "--dry-run", namespace=space)
    assert tried.returncode == 0, tried
    assert f"+ ConfigMap {space}/one" in tried.stdout
    done = await stellwerk("apply", "spaced", str(manifest), "--create-namespace", namespace=space)
    assert done.returncode == 0, done
    assert (await stellwerk("delete", "spaced", "--yes", namespace=space)).returncode == 0
    await given.client.delete(metadata_of(Namespace), space)


async def test_templates_are_printed_without_a_trace_and_mistakes_name_their_file(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    source = chart(tmp_path / "chart", "one")
    words = tmp_path / "v.yaml"
    words.write_text("who: canary\n")
    done = await stellwerk("template", "shop", str(source), "-f", str(words))
    assert done.returncode == 0, done
    documents = [*yaml.safe_load_all(done.stdout)]
    assert [one["data"]["revision"] for one in documents] == ["1"]
    assert done.stdout.startswith("---\n")
    assert not await then.exists(ConfigMap, kept("shop"))

    words.write_text("who: [")
    broken = await stellwerk("template", "shop", str(source), "-f", str(words))
    assert broken.returncode == 1
    assert str(words) in broken.stderr
    absent = await stellwerk("apply", "shop", str(tmp_path / "nowhere"))
    assert absent.returncode == 1
    assert "there is no file or folder" in absent.stderr


async def test_a_template_may_be_printed_for_a_cluster_that_is_not_asked(stellwerk: Stellwerk, tmp_path: Path) -> None:
    source, nowhere = chart(tmp_path / "chart", "one"), tmp_path / "no-kubeconfig"
    seen = """{{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.APIVersions.Has "example.com/v1/Thing" }} \
{{ .Capabilities.APIVersions.Has "apps/v1" }} {{ lookup "v1" "Namespace" "" "default" | len }}"""
    (source / "templates" / "two.yaml").write_text(config_map("two", seen=seen))
    words = ["template", "shop", str(source), "--offline"]
    done = await stellwerk(
        *words, "--kube-version", "1.31", "--api-versions", "x/v1,example.com/v1/Thing", kubeconfig=nowhere
    )
    assert done.returncode == 0, done
    (told,) = (one["data"] for one in yaml.safe_load_all(done.stdout) if one["metadata"]["name"] == "two")
    assert told["seen"].split() == ["v1.31.0", "true", "true", "0"]
    done = await stellwerk(*words, kubeconfig=nowhere)
    (told,) = (one["data"] for one in yaml.safe_load_all(done.stdout) if one["metadata"]["name"] == "two")
    assert told["seen"].split()[1:] == ["false", "true", "0"]
    (source / "templates" / "two.yaml").write_text(config_map("two", seen='{{ pick .Values "n" "s" "j" | toJson }}'))
    given = ("--set", "n.a=1", "--set-string", "s=1", "--set-json", 'j=[{"k": true}]')
    done = await stellwerk(*words, *given, kubeconfig=nowhere)
    (told,) = (one["data"] for one in yaml.safe_load_all(done.stdout) if one["metadata"]["name"] == "two")
    assert json.loads(told["seen"]) == {"n": {"a": 1}, "s": "1", "j": [{"k": True}]}

    wrong = await stellwerk(*words, "--kube-version", "new", kubeconfig=nowhere)
    assert wrong.returncode == 2
    assert "'new' is no version of Kubernetes" in wrong.stderr
    wrong = await stellwerk("template", "shop", str(source), "--kube-version", "1.31", kubeconfig=nowhere)
    assert wrong.returncode == 2
    assert "add --offline" in wrong.stderr


async def test_the_version_comes_in_the_forms_of_clm(stellwerk: Stellwerk) -> None:
    short = (await stellwerk("version", "-o", "short")).stdout.strip()
    assert parsed((await stellwerk("version", "-o", "json")).stdout)["version"] == short
    assert yaml.safe_load((await stellwerk("version", "-o", "yaml")).stdout)["version"] == short


async def test_a_release_that_its_config_map_has_no_room_for_is_refused_before_the_first_write(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    names = [f"n{number:0199}" for number in range(2000)]
    manifest.write_text("---\n".join(config_map(name) for name in names))
    for options in (["--dry-run"], []):
        refused = await stellwerk("apply", "large", str(manifest), *options)
        assert refused.returncode == 1, refused
        assert "has 2000 objects, and its ConfigMap has room for about " in refused.stderr
    assert not await then.exists(ConfigMap, kept("large"))
    assert not await then.exists(ConfigMap, names[0])


async def test_a_dry_run_fails_where_the_api_server_would_refuse_an_object(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest, space = tmp_path / "m.yaml", f"{given.namespace}-absent"
    manifest.write_text(f"{config('one')}---\n{config('two', namespace=space)}")
    tried = await stellwerk("apply", "shop", str(manifest), "--dry-run")
    assert tried.returncode == 1, tried
    assert f"+ ConfigMap {given.namespace}/one" in tried.stdout
    assert f"! ConfigMap {space}/two" in tried.stdout
    assert "cannot become revision 1 (dry run)" in tried.stdout
    tried = await stellwerk("apply", "shop", str(manifest), "--dry-run", "--create-namespace")
    assert tried.returncode == 0, tried
    assert f"+ ConfigMap {space}/two" in tried.stdout


async def test_a_dry_run_fails_not_where_the_set_itself_brings_what_an_object_is_judged_by(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.json"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}}
    spec = {"serviceAccountName": "worker", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    manifest.write_text("\n---\n".join(map(json.dumps, (account, pod))))
    tried = await stellwerk("apply", "shop", str(manifest), "--dry-run")
    assert tried.returncode == 0, tried
    assert f"! Pod {given.namespace}/p" in tried.stdout
    assert "(may be refused: " in tried.stdout
    assert "would become revision 1 (dry run)" in tried.stdout
    manifest.write_text(json.dumps(pod))
    tried = await stellwerk("apply", "shop", str(manifest), "--dry-run")
    assert tried.returncode == 1, tried
    assert "(would be refused: " in tried.stdout


@pytest.fixture
async def user(given: Given) -> AsyncIterator[Rights]:
    """A user with the rights that the test grants."""
    rights = Rights(given.client, f"user-of-{given.namespace}")
    yield rights
    await given.client.delete(metadata_of(RoleBinding), rights.user, given.namespace)
    await given.client.delete(metadata_of(Role), rights.user, given.namespace)


async def test_a_release_needs_no_right_to_list_nor_to_create_a_namespace_that_exists(
    given: Given, then: Then, stellwerk: Stellwerk, user: Rights, tmp_path: Path
) -> None:
    await user.are_in(given.namespace, ("configmaps", ["get", "create", "update", "patch", "delete"]))
    manifest = tmp_path / "m.yaml"
    for names in (["one", "two"], ["one", "three"]):
        manifest.write_text("---\n".join(map(config_map, names)))
        done = await stellwerk("apply", "shop", str(manifest), "--create-namespace", "--as", user.user)
        assert done.returncode == 0, done
    assert not await then.exists(ConfigMap, "two")
    tried = await stellwerk("delete", "shop", "--dry-run", "--as", user.user)
    assert f"- ConfigMap {given.namespace}/three\n" in tried.stdout, tried
    assert (await stellwerk("delete", "shop", "--yes", "--as", user.user)).returncode == 0
    assert not await then.exists(ConfigMap, "three")


async def test_a_missing_right_ends_a_run_with_five_and_the_release_in_error(
    given: Given, then: Then, stellwerk: Stellwerk, user: Rights, tmp_path: Path
) -> None:
    await user.are_in(given.namespace, ("configmaps", ["get", "create", "update"]))
    manifest = tmp_path / "m.yaml"
    manifest.write_text(config_map("one"))
    refused = await stellwerk("apply", "shop", str(manifest), "--as", user.user)
    assert refused.returncode == 5, refused
    assert (await then.config(kept("shop"))).data["state"] == "Error"
    manifest.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: hidden}\n")
    refused = await stellwerk("apply", "other", str(manifest), "--as", user.user)
    assert refused.returncode == 5, refused
    assert (await then.config(kept("other"))).data["state"] == "Error", "the Secret could not be looked for"


async def test_a_release_with_its_own_namespace_is_deleted(given: Given, stellwerk: Stellwerk, tmp_path: Path) -> None:
    manifest, space = tmp_path / "m.yaml", f"{given.namespace}-own"
    manifest.write_text(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {space}}}\n---\n{config_map('one')}")
    options = ["--create-namespace", "--timeout", "60s"]
    await given.client.create(metadata_of(Namespace), {"metadata": {"name": space}})
    done = await stellwerk("apply", space, str(manifest), *options, namespace=space)
    assert done.returncode == 0, done
    shown = await stellwerk("status", space, "-A", namespace="")
    assert (shown.returncode, shown.stdout.split()[-9:-5]) == (0, [space, space, "1", "Ready"]), shown
    refused = await stellwerk("delete", space, "--yes", "-A", namespace="")
    assert (refused.returncode, "-n NAMESPACE" in refused.stderr) == (2, True), refused
    done = await stellwerk("delete", space, "--yes", "--timeout", "60s", namespace=space)
    assert done.returncode == 0, done
    assert await given.client.find(ConfigMap, kept(space), space) is None
    found = await given.client.find(metadata_of(Namespace), space)
    assert found is None or found.metadata.is_terminating


async def test_an_api_service_and_its_instance_are_one_release_that_is_deleted_though_the_server_is_gone(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    manifest = tmp_path / "m.yaml"
    async with WidgetServer(group) as widgets:
        service: JsonObject = {"metadata": {"name": "widgets", "namespace": given.namespace}}
        await given.client.apply(Service, {**service, **widgets.service("widgets")})
        registration = widgets.registration(given.namespace, "widgets")
        api, kind = "apiregistration.k8s.io/v1", f"{group}/v1"
        manifest.write_text(
            f"{manifests.manifest('APIService', f'v1.{group}', registration, api_version=api)}\n---\n"
            f"{manifests.manifest('Widget', 'mine', api_version=kind)}"
        )
        for _ in range(2):
            late = await stellwerk("apply", "shop", str(manifest), "--timeout", "3s")
            assert late.returncode == 4, late
            assert f"APIService v1.{group}" in late.stderr
        widgets.is_up = True
        done = await stellwerk("apply", "shop", str(manifest), "--timeout", "100s")
        assert done.returncode == 0, done
        assert [*widgets.widgets] == [(given.namespace, "mine")]
        widgets.is_up = False
        await given.client.delete(metadata_of(Service), "widgets", given.namespace)

        async def is_deleted() -> bool:
            done = await stellwerk("delete", "shop", "--yes", "--timeout", "1s")
            return done.returncode == 0

        await eventually(is_deleted, within=100, describe="the release is gone")
        assert await given.client.find(metadata_of(APIService), f"v1.{group}") is None


async def test_an_interrupted_run_names_the_release_and_leaves_it_in_error(
    given: Given, then: Then, component_cluster: LocalCluster, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(gate("g").replace("component-operator.cs.sap.com", "clm.cs.sap.com"))
    login = ["--kubeconfig", str(component_cluster.kubeconfig), "-n", given.namespace]
    interruptible = ("env", "--default-signal=INT")  # a shell that runs tests in the background ignores Ctrl-C
    words = [*interruptible, sys.executable, "-m", "stellwerk.cli.main", "apply", "slow", str(manifest), *login]
    run = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    assert run.stderr is not None
    while b"waits for Gate" not in (line := await run.stderr.readline()):
        assert line, "it has ended"
    run.send_signal(signal.SIGINT)
    said = (await run.stderr.read()).decode()
    assert await run.wait() == 130
    assert f"Interrupted. Release {given.namespace}/slow goes on when the command is run again" in said
    assert f"stellwerk status slow -n {given.namespace}" in said
    assert (await then.config(kept("slow"))).data["state"] == "Error"


async def test_what_a_release_has_left_behind_goes_to_another_one_and_a_failure_keeps_its_cause(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.yaml"
    orphan = {"clm.cs.sap.com/delete-policy": "orphan"}
    manifest.write_text(manifests.manifest("ConfigMap", "stays", {"data": {"a": "b"}}, annotations=orphan))
    assert (await stellwerk("apply", "first", str(manifest), "--timeout", "30s")).returncode == 0
    refused = await stellwerk("apply", "second", str(manifest), "--timeout", "30s")
    assert refused.returncode == 1, refused
    assert "owner conflict" in refused.stderr
    status, why = await stellwerk("status", "second"), await stellwerk("why", "second")
    assert f"owned by clm.cs.sap.com/{given.namespace}/first" in status.stdout
    assert f"stellwerk why second -n {given.namespace}" in status.stdout
    assert "owner conflict" in why.stdout
    assert "owner conflict" in str(parsed((await stellwerk("status", "second", "-o", "json")).stdout)["error"])

    assert (await stellwerk("delete", "first", "--yes", "--timeout", "30s")).returncode == 0
    assert await then.exists(ConfigMap, "stays")
    tried = await stellwerk("apply", "second", str(manifest), "--dry-run")
    assert tried.returncode == 0, tried
    done = await stellwerk("apply", "second", str(manifest), "--timeout", "30s")
    assert done.returncode == 0, done
    assert f"release {given.namespace}/first, which has left it behind, does not exist any more" in done.stderr
    assert (await then.config("stays")).metadata.labels[OWNER] == hash_of(f"clm.cs.sap.com/{given.namespace}/second")
    assert "Cause" not in (await stellwerk("status", "second")).stdout
    assert (await stellwerk("delete", "second", "--yes", "--timeout", "30s")).returncode == 0
