"""How an object is changed is for its author to say, and decides what becomes of what others have written."""

from __future__ import annotations

import json
from http import HTTPStatus

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config_of
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

OPERATOR = "component-operator"
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
FOUR = {"replaced": "replace", "recreated": "recreate", "merged": "ssa-merge", "overridden": "SsaOverride"}


def sources(content: str) -> dict[str, str]:
    """Four objects that ask for a way each, and one that leaves it to the Component."""
    asking = {name: config_of(name, {"a": content}, update_policy=word) for name, word in FOUR.items()}
    return {f"{name}.yaml": text for name, text in {**asking, "silent": config_map("silent", a=content)}.items()}


def asked(audit: AuditLog, namespace: str) -> dict[str, list[str]]:
    """How the operator wrote each ConfigMap: the verb, and of a patch whether it was forced.

    What controllers of the cluster write is not counted: one makes a ConfigMap in each new namespace, when it comes to
    it. A write that met one of somebody else's, which it did not know of yet, is made again and counts once.
    """
    found: dict[str, list[str]] = {}
    for entry in audit.entries():
        is_done = entry.is_write and entry.status < HTTPStatus.BAD_REQUEST and entry.user == OPERATOR
        if is_done and entry.resource == "configmaps" and entry.namespace == namespace:
            name = entry.name or "(new)"
            forced = " forced" if "force=true" in entry.path else ""
            found.setdefault(name, []).append(f"{entry.verb}{forced}")
    return found


async def test_each_object_is_created_and_changed_in_the_way_that_it_asks_for(
    given: Given, running: Running, then: Then, component_cluster: LocalCluster
) -> None:
    await given.source(sources("old"), revision="r1")
    await running.start()
    audit = AuditLog(component_cluster)
    await given.component(updatePolicy="Replace")
    await then.ready(revision="r1")
    created = asked(audit, then.namespace)
    verbs = {"merged": "patch", "overridden": "patch", "replaced": "create", "recreated": "create", "silent": "create"}
    assert created == {name: [verb] for name, verb in verbs.items()}
    uids = {name: (await then.config(name)).metadata.uid for name in FOUR}
    for name in (*FOUR, "silent"):
        await given.written_by("other", name, added="by other")

    audit.mark()
    await given.source(sources("new"), revision="r2")
    await then.ready(revision="r2")
    changed = asked(audit, then.namespace)
    assert changed["replaced"] == changed["silent"] == ["update"]
    assert changed["merged"] == changed["overridden"] == ["patch forced"]
    assert "delete" in changed["recreated"]
    for name in (*FOUR, "silent"):
        kept = {"added": "by other"} if name in ("merged", "overridden") else {}
        assert (await then.config(name)).data == {"a": "new", **kept}, name
    same = {name for name in FOUR if (await then.config(name)).metadata.uid == uids[name]}
    assert same == {"replaced", "merged", "overridden"}


async def test_what_others_add_to_an_object_that_is_replaced_goes_at_the_next_reapply(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one", a="b")})
    await running.start()
    await given.component(updatePolicy="Replace", reapplyInterval="15m")
    await then.ready()
    await given.written_by("other", "one", added="by other")
    await running.waits(minutes=11)
    await running.rests()
    assert (await then.config("one")).data == {"a": "b", "added": "by other"}
    await running.waits(minutes=11)
    await then.config_holds("one", {"a": "b"})


async def test_a_whole_replacement_keeps_the_finalizers_of_others(given: Given, running: Running, then: Then) -> None:
    await given.source({"one.yaml": config_map("one", a="old")}, revision="r1")
    await running.start()
    await given.component(updatePolicy="Replace")
    await then.ready(revision="r1")
    await given.finalizers("one", "tests.example/keep")
    await given.source({"one.yaml": config_map("one", a="new")}, revision="r2")
    await then.ready(revision="r2")
    found = await then.config("one")
    assert (found.data, found.metadata.finalizers) == ({"a": "new"}, ("tests.example/keep",))
    await given.finalizers("one")


async def test_an_object_is_made_anew_only_when_its_predecessor_is_gone(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one", a="old")}, revision="r1")
    await running.start()
    await given.component(updatePolicy="Recreate")
    await then.ready(revision="r1")
    before = await then.config("one")
    await given.finalizers("one", "tests.example/keep")
    await given.source({"one.yaml": config_map("one", a="new")}, revision="r2")
    await then.shows("Processing", "Processing", saying="waits for finalizers tests.example/keep")
    assert (await then.config("one")).data == {"a": "old"}
    await given.finalizers("one")
    await then.ready(revision="r2")
    after = await then.config("one")
    assert after.data == {"a": "new"}
    assert after.metadata.uid != before.metadata.uid


async def test_what_people_added_by_kubectl_or_helm_is_taken_back_and_what_controllers_added_stays(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(
        {
            "overridden.yaml": config_map("overridden"),
            "merged.yaml": config_of("merged", {"a": "b"}, update_policy="ssa-merge"),
        }
    )
    await running.start()
    await given.component(reapplyInterval="20m")
    await then.ready()
    for name in ("overridden", "merged"):
        for manager in ("kubectl-edit", "helm", "other"):
            await given.written_by(manager, name, **{manager: "added"})
    all_of_them = {"a": "b", "kubectl-edit": "added", "helm": "added", "other": "added"}
    await running.settled(given.client)
    assert (await then.config("overridden")).data == all_of_them
    await running.waits(minutes=21)
    await then.config_holds("overridden", {"a": "b", "other": "added"})
    await running.rests()
    assert (await then.config("merged")).data == all_of_them
    await then.ready()


async def test_what_was_written_by_other_verbs_becomes_ours_when_the_way_changes(
    given: Given, running: Running, then: Then
) -> None:
    """Fields of an Update of ours would otherwise outlive the manifest that they came from."""
    await given.source({"one.yaml": config_map("one", a="1", b="2")}, revision="r1")
    await running.start()
    await given.component(updatePolicy="Replace")
    await then.ready(revision="r1")
    await given.component(updatePolicy="SsaMerge")
    await then.ready()
    await given.source({"one.yaml": config_map("one", a="1")}, revision="r2")
    await then.ready(revision="r2")
    assert (await then.config("one")).data == {"a": "1"}
    found = await then.free_form(unstructured(CONFIG_MAPS), "one")
    managers = {entry.manager for entry in found.metadata.managers}
    assert managers == {"component-operator.cs.sap.com"}, json.dumps(_fields(found.body), indent=1)


def _fields(body: JsonObject) -> JsonObject:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    return {"managedFields": metadata.get("managedFields")}
