"""`stellwerk diff`, `render` and `values` tell what a Component comes to, and write nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from tests.cluster import permissions
from tests.cluster.component.cli.conftest import Stellwerk, parsed
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import RELIC_REMARK, config, deployment, job, relic
from tests.cluster.component.rights import Rights
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then
from tests.kubectl import kubectl

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding, RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster

SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  password: {}\n"


@pytest.mark.req("R-801")
async def test_diff_tells_what_the_next_reconcile_would_change_field_by_field_and_who_set_the_live_value(
    given: Given,
    running: Running,
    then: Then,
    stellwerk: Stellwerk,
    component_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    first = {"one.yaml": config_map("one", a="1"), "two.yaml": config_map("two"), "s.yaml": SECRET.format("canary-1")}
    await given.source(first, revision="r1")
    await running.start()
    await given.component()
    await then.ready()
    await running.rests()
    same = await stellwerk("diff", "comp/comp")
    assert (same.returncode, same.stdout) == (0, "nothing differs, 3 unchanged\n"), same

    applied, tmp_path = tmp_path / "applied", tmp_path / "changed"
    tmp_path.mkdir()
    applied.mkdir()
    edit = MergePatch({"data": {"a": "mine"}})
    await given.client.patch(ConfigMap, "one", given.namespace, edit, field_manager="kubectl-edit")
    for name, text in {
        "one.yaml": config_map("one", a="1"),
        "s.yaml": SECRET.format("canary-2"),
        "three.yaml": config_map("three"),
    }.items():
        (tmp_path / name).write_text(text)
    for name, text in {**first, "one.yaml": config_map("one", a="mine")}.items():
        (applied / name).write_text(text)
    told = await stellwerk("diff", "comp/comp", "--path", str(tmp_path))
    lines = told.stdout.splitlines()
    assert told.returncode == 3, told
    assert [line.split("   ")[0] for line in lines if line[0] in "~+-"] == [
        f"~ ConfigMap {given.namespace}/one",
        f"~ Secret {given.namespace}/login",
        f"+ ConfigMap {given.namespace}/three",
        f"- ConfigMap {given.namespace}/two",
    ]
    assert any(' data.a: mine -> "1" ' in line and line.endswith("(live value set by kubectl-edit)") for line in lines)
    assert "    data.password: *** -> ***" in lines
    assert lines[-1].startswith("4 objects differ, 0 unchanged ")
    assert lines[-1].endswith(" exit code 3")
    assert "canary" not in told.stdout + told.stderr
    viewer = f"viewer-{given.namespace}"
    kubeconfig, rights = component_cluster.kubeconfig_for(viewer), Rights(given.client, viewer)
    await rights.are(("configmaps", ["get"]), ("secrets", ["get"]))
    try:
        seen = await stellwerk("diff", "comp/comp", "--path", str(tmp_path), kubeconfig=kubeconfig)
        equal = await stellwerk("diff", "comp/comp", "--path", str(applied), kubeconfig=kubeconfig)
    finally:
        await rights.end()
    assert (seen.returncode, seen.stdout.splitlines()) == (3, lines), "whoever may only look sees the same"
    assert "compared without a dry run" in seen.stderr
    assert "may not patch configmaps" in seen.stderr
    assert equal.returncode == 0, equal
    assert (await then.config("one")).data == {"a": "mine"}, "nothing may be written"
    assert not await then.exists(ConfigMap, "three")

    machine = await stellwerk("diff", "comp/comp", "--path", str(tmp_path), "-o", "json")
    assert machine.returncode == 3
    objects = parsed(machine.stdout)["objects"]
    assert isinstance(objects, list)
    assert [(one["object"], one["action"]) for one in objects if isinstance(one, dict)][2:] == [
        (f"ConfigMap {given.namespace}/three", "create"),
        (f"ConfigMap {given.namespace}/two", "remove"),
    ]


async def test_diff_of_a_component_looks_at_the_cluster_of_its_kubeconfig_and_writes_nothing_there(
    given: Given, stellwerk: Stellwerk, remote: Client, login: str, tmp_path: Path
) -> None:
    await given.secret("there", value=login)
    await given.component(kubeConfig={"secretRef": {"name": "there"}})
    (tmp_path / "one.yaml").write_text(config_map("one", a="1"))
    told = await stellwerk("diff", "comp/comp", "--path", str(tmp_path))
    assert told.returncode == 3, told
    assert f"+ ConfigMap {given.namespace}/one in the cluster of spec.kubeConfig" in told.stdout.splitlines()
    assert await remote.find(ConfigMap, "one", given.namespace) is None
    await given.secret("there", value="apiVersion: v1")
    odd = await stellwerk("diff", "comp/comp", "--path", str(tmp_path))
    assert "the kubeconfig of spec.kubeConfig cannot be used" in odd.stderr


async def test_diff_of_a_component_that_is_not_there_yet_takes_its_files_and_secrets_from_a_person(
    given: Given, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    chart = tmp_path / "chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    (chart / "templates").mkdir()
    (chart / "templates" / "c.yaml").write_text(config_map("shop").replace("'b'", "b") + '  who: "{{ .Values.who }}"\n')
    cr = tmp_path / "cr.yaml"
    cr.write_text(component_file("new", given.namespace))
    other = await stellwerk("diff", "-f", str(cr), "--path", str(chart), "--image", "shop:2")
    assert (other.returncode, other.stdout) == (2, ""), "an image that would be passed over in silence misleads"
    assert "--image is not for a Component" in other.stderr
    told = await stellwerk("diff", "-f", str(cr), "--path", str(chart))
    assert told.returncode == 3, told
    assert told.stdout.splitlines()[0] == f"+ ConfigMap {given.namespace}/shop"

    made = await stellwerk("render", "-f", str(cr), "--path", str(chart))
    assert made.returncode == 0, made
    assert "who: canary" in made.stdout
    assert not await then.exists(ConfigMap, "shop")


async def test_what_a_chart_wants_at_its_end_is_no_manifest_of_it(stellwerk: Stellwerk, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    (chart / "templates" / "one.yaml").write_text(config_map("one"))
    (chart / "templates" / "bye.yaml").write_text(job("bye", annotations={"helm.sh/hook": "post-delete"}))
    spec = "spec: {sourceRef: {httpRepository: {url: https://example.com/a.tgz}}, deleteHooks: Run}\n"
    file = tmp_path / "component.yaml"
    file.write_text(f"apiVersion: core.cs.sap.com/v1alpha1\nkind: Component\nmetadata: {{name: shop}}\n{spec}")
    told = await stellwerk("render", "-f", str(file), "--path", str(chart), "-o", "json")
    assert told.returncode == 0, told
    assert "ConfigMap" in told.stdout
    assert "shop.delete-hooks" in told.stdout
    assert "Job" not in told.stdout


async def test_what_was_purged_after_its_work_is_no_difference_until_it_changes(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    hook = job("prepare", annotations={"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-succeeded"})
    chart = {"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "templates/hook.yaml": hook}
    await given.source({**chart, "templates/one.yaml": config_map("one")})
    await running.start()
    await given.component()
    await then.phases({"prepare": "Completed", "one": "Ready"})
    await then.ready()
    same = await stellwerk("diff", "comp/comp")
    assert (same.returncode, same.stdout) == (0, "nothing differs, 2 unchanged\n"), same

    await given.source({"done.yaml": config("done", purge_order="0")}, "plain")
    await given.component("plain", "plain")
    await then.phases({"done": "Completed"}, "plain")
    await then.ready("plain")
    assert (await stellwerk("diff", "comp/plain")).returncode == 0
    (tmp_path / "done.yaml").write_text(config("done", "new", purge_order="0"))
    told = await stellwerk("diff", "comp/plain", "--path", str(tmp_path))
    assert told.stdout.splitlines()[0] == f"+ ConfigMap {given.namespace}/done", told


async def test_diff_asks_for_one_subject(stellwerk: Stellwerk, given: Given) -> None:
    for arguments in (["diff"], ["diff", "comp/x", "-f", __file__]):
        told = await stellwerk(*arguments)
        assert told.returncode == 2
        assert "one of the two" in told.stderr


async def test_diff_tells_which_object_would_be_refused(given: Given, stellwerk: Stellwerk, tmp_path: Path) -> None:
    await given.config("bad", a="b")
    wrong = "immutable: canary\n"
    elsewhere = config_map("there").replace("name: there", "name: there\n  namespace: not-yet-there")
    files = {"bad.yaml": config_map("bad") + wrong, "new.yaml": config_map("new") + wrong, "there.yaml": elsewhere}
    await given.source(files)
    await given.component()
    told = await stellwerk("diff", "comp/comp")
    assert told.returncode == 3, told
    lines = sorted(told.stdout.splitlines())
    assert lines[0].startswith(f"! ConfigMap {given.namespace}/bad"), told.stdout
    assert lines[1].startswith(f"! ConfigMap {given.namespace}/new"), told.stdout
    assert lines[2] == "+ ConfigMap not-yet-there/there"
    assert "would be refused" in lines[0]
    assert "canary" not in told.stdout


async def test_diff_tells_in_four_parts_why_there_is_nothing_to_compare(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    await given.component("comp", "nowhere")
    told = await stellwerk("diff", "comp/comp")
    assert told.returncode == 1
    assert told.stderr.startswith(f"Error:   cannot work out Component {given.namespace}/comp\nCause:   "), told.stderr
    assert "nowhere" in told.stderr


@pytest.mark.req("R-801")
async def test_diff_shows_what_others_added_and_tells_the_next_reapply_from_the_next_reconcile(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk, component_cluster: LocalCluster, tmp_path: Path
) -> None:
    workload = deployment("app")
    await given.source({"one.yaml": config_map("one"), "two.yaml": config_map("two"), "app.yaml": workload})
    await running.start()
    await given.component()
    await then.ready()
    await running.rests()
    where = ["-n", given.namespace]
    for words in (["label", "cm", "one", "team=x"], ["scale", "deploy", "app", "--replicas=2"]):
        await asyncio.to_thread(kubectl, component_cluster.kubeconfig, *words, *where)
    for name, text in {"one": config_map("one"), "two": config_map("two", a="new"), "app": workload}.items():
        (tmp_path / f"{name}.yaml").write_text(text)

    told = await stellwerk("diff", "comp", "comp")
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    later = "(at the next reapply, within 1h: others have changed it)"
    assert told.returncode == 3, told
    assert f"~ ConfigMap {given.namespace}/one {later}" in lines
    assert any(line.startswith("metadata.labels.team: x -> ") and "kubectl-label" in line for line in lines), lines
    assert lines[-1].startswith("2 objects differ, 1 unchanged")
    assert told.stderr == f"Put it back now: stellwerk reconcile component/comp -n {given.namespace} --force\n"

    told = await stellwerk("diff", "comp/comp", "--path", str(tmp_path), "-o", "json")
    objects = parsed(told.stdout)["objects"]
    assert isinstance(objects, list)
    when = {str(one["object"]).split("/")[1]: one["when"] for one in objects if isinstance(one, dict)}
    assert when == {"one": "reapply", "app": "reapply", "two": "reconcile"}, told
    assert "team" in (await given.client.get(metadata_of(ConfigMap), "one", given.namespace)).metadata.labels


async def test_diff_finds_nothing_after_a_chart_with_hooks_was_installed(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    files: dict[str, str | bytes] = {
        "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        "templates/config.yaml": config_map("plain"),
    }
    for number, policy in enumerate(("", "before-hook-creation", "hook-succeeded")):
        for event in ("pre-install", "post-install,post-upgrade", "pre-install,pre-upgrade"):
            name = f"hook-{number}-{event.replace(',', '-')}"
            asked = {"helm.sh/hook": event, **({"helm.sh/hook-delete-policy": policy} if policy else {})}
            files[f"templates/{name}.yaml"] = hook(name, asked)
    await given.source(files)
    await running.start()
    await given.component()
    await then.ready(within=120)
    await running.rests()
    told = await stellwerk("diff", "comp/comp")
    assert told.returncode == 0, told
    assert told.stdout.startswith("nothing differs"), told


@pytest.mark.req("R-801")
async def test_diff_shows_the_hooks_that_run_again_and_leaves_out_what_is_applied_once(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk, component_cluster: LocalCluster, tmp_path: Path
) -> None:
    files: dict[str, str | bytes] = {
        "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        "templates/config.yaml": config_map("plain"),
        "templates/first.yaml": hook("first", {"helm.sh/hook": "pre-install"}),
        "templates/again.yaml": hook("again", {"helm.sh/hook": "pre-install,pre-upgrade"}),
        "templates/gone.yaml": hook(
            "gone", {"helm.sh/hook": "pre-install,post-upgrade", "helm.sh/hook-delete-policy": "hook-succeeded"}
        ),
    }
    await given.source(files)
    await running.start()
    await given.component()
    await then.ready()
    await running.rests()
    first = await given.client.get(metadata_of(Job), "first", given.namespace)
    label = ["label", "job", "first", "team=x", "-n", given.namespace]
    await asyncio.to_thread(kubectl, component_cluster.kubeconfig, *label)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(str(text).replace("a: b\n", "a: c\n"))

    told = await stellwerk("diff", "comp/comp", "--path", str(tmp_path))
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    assert sorted(line for line in lines if line[0] in "~+-!") == [
        f"+ Job {given.namespace}/gone",
        f"~ ConfigMap {given.namespace}/plain",
        f"~ Job {given.namespace}/again (will be deleted and created again)",
    ], told
    assert lines[-1].startswith("3 objects differ, 1 unchanged")

    before = {one.key.name: one.metadata.uid for one in (await given.client.list(Job, given.namespace)).items}
    await given.source({name: str(text).replace("a: b\n", "a: c\n") for name, text in files.items()}, revision="r2")
    await then.counts(2)
    after = {one.key.name: one.metadata.uid for one in (await given.client.list(Job, given.namespace)).items}
    assert {name for name in after if after[name] != before[name]} == {"again"}
    assert after["first"] == first.metadata.uid


def hook(name: str, annotations: dict[str, str]) -> str:
    """A Job that a chart runs as a hook."""
    body = json.loads(job(name))
    return json.dumps({**body, "metadata": {**body["metadata"], "annotations": annotations}})


async def test_values_tell_where_each_value_comes_from_and_none_of_a_secret(
    given: Given, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    values = json.dumps({"image": {"tag": "canary-tag"}, "token": "canary-token"})
    await given.secret("defaults", **{"values.yaml": values})
    await given.component(
        values={"image": {"tag": "1.2"}, "replicas": 2},
        valuesFrom=[{"name": "defaults", "key": "values.yaml"}],
    )
    told = await stellwerk("values", "comp/comp")
    assert told.returncode == 0, told
    rows = [line.split() for line in told.stdout.splitlines()]
    assert rows[0] == ["PATH", "VALUE", "FROM", "OVERRIDES"]
    by_path = {row[0]: row[1:] for row in rows[1:]}
    assert by_path["image.tag"][:2] == ["1.2", "spec.values"]
    assert by_path["replicas"][:2] == ["2", "spec.values"]
    assert by_path["token"][0] == "***"
    assert "defaults" in " ".join(by_path["token"])
    assert "defaults" in " ".join(by_path["image.tag"])
    assert "canary" not in told.stdout + told.stderr
    machine = await stellwerk("values", "comp/comp", "-o", "json")
    assert "canary" not in machine.stdout
    assert '"path":' in machine.stdout


async def test_values_have_the_defaults_of_the_chart_and_are_a_values_file_of_helm(
    given: Given, stellwerk: Stellwerk
) -> None:
    await given.source(
        {
            "chart/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
            "chart/values.yaml": "replicas: 1\nimage: {tag: latest, name: web}\nresources: {limits: {cpu: 1}}\n",
            "chart/templates/x.yaml": "",
        }
    )
    await given.secret("more", **{"values.yaml": json.dumps({"token": "canary-token"})})
    await given.component(
        path="chart",
        values={"image": {"tag": "1.2"}, "resources": None},
        valuesFrom=[{"name": "more", "key": "values.yaml"}],
    )
    told = await stellwerk("values", "comp", "comp")
    rows = {row[0]: row[1:] for row in (line.split() for line in told.stdout.splitlines())}
    assert rows["replicas"][:2] == ["1", "values.yaml"], told
    assert rows["image.tag"] == ["1.2", "spec.values", "values.yaml"]
    shaped = await stellwerk("values", "comp/comp", "-o", "yaml")
    assert yaml.safe_load(shaped.stdout) == {"image": {"name": "web", "tag": "1.2"}, "replicas": 1, "token": "***"}
    assert "canary" not in shaped.stdout + shaped.stderr


async def test_a_component_without_values_says_so(given: Given, stellwerk: Stellwerk) -> None:
    await given.component()
    told = await stellwerk("values", "comp/comp")
    assert (told.returncode, told.stdout) == (0, "\n" if told.stdout else "")
    assert "has no values" in told.stderr


async def test_a_preview_of_what_is_no_component_is_wrong_usage(given: Given, stellwerk: Stellwerk) -> None:
    await given.config("plain", a="b")
    for verb, cause in (("diff", "no operator of ours looks after it"), ("values", "is no Component")):
        refused = await stellwerk(verb, "configmap/plain")
        assert refused.returncode == 2, refused
        assert cause in refused.stderr


def component_file(name: str, namespace: str) -> str:
    """A Component with a Secret that it refers to, as one file."""
    metadata: JsonObject = {"name": name, "namespace": namespace}
    component: JsonObject = {
        "apiVersion": "core.cs.sap.com/v1alpha1",
        "kind": "Component",
        "metadata": metadata,
        "spec": {
            "sourceRef": {"fluxGitRepository": {"name": "none"}},
            "valuesFrom": [{"name": "who", "key": "values.yaml"}],
        },
    }
    secret: JsonObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "who"},
        "stringData": {"values.yaml": "who: canary"},
    }
    return "---\n".join(json.dumps(one) + "\n" for one in (component, secret))


@pytest.mark.usefixtures("relics")
async def test_diff_tells_what_the_api_server_warns_of_beside_the_result(given: Given, stellwerk: Stellwerk) -> None:
    await given.source({"relic.yaml": relic("bone"), "one.yaml": config_map("one")})
    await given.component()
    told = await stellwerk("diff", "comp/comp")
    assert told.returncode == 3, told
    assert told.stderr == f"Warning: Relic {given.namespace}/bone: {RELIC_REMARK}\n"
    assert RELIC_REMARK not in told.stdout


async def test_diff_leaves_no_trace(given: Given, stellwerk: Stellwerk, then: Then) -> None:
    await given.source({"s.yaml": SECRET.format("x")})
    await given.component()
    assert (await stellwerk("diff", "comp/comp")).returncode == 3
    assert await given.client.find(metadata_of(Secret), "login", given.namespace) is None


async def test_adopt_stops_the_original_if_nothing_would_be_created_again(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk, component_cluster: LocalCluster
) -> None:
    await given.source({"one.yaml": config_map("one", a="1")})
    await running.start()
    await given.component()
    await then.ready()
    await running.rests()
    user, name = f"migrator-{given.namespace}", f"{given.namespace}-component-operator"
    subject: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    role: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bound: JsonObject = {"metadata": {"name": user, "namespace": given.namespace}, "roleRef": role}
    await given.client.apply(RoleBinding, {**bound, "subjects": [subject]})
    look: JsonObject = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}
    await given.client.apply(ClusterRole, {"metadata": {"name": user}, "rules": [look]})
    bound = {"metadata": {"name": user}, "roleRef": {**role, "name": user}}
    await given.client.apply(ClusterRoleBinding, {**bound, "subjects": [subject]})
    rights = permissions.on("configmaps", "patch", given.namespace), permissions.on("namespaces", "get")
    await permissions.count(given.client, user, *rights)
    labels: JsonObject = {"app": "original"}
    pod: JsonObject = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "clm:1"}]}}
    spec: JsonObject = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    await given.client.create(Deployment, {"metadata": {"name": name, "namespace": given.namespace}, "spec": spec})
    before = await then.config("one")
    kubeconfig = component_cluster.kubeconfig_for(user)

    tried = await stellwerk("adopt", "component", "--dry-run", kubeconfig=kubeconfig)
    assert tried.returncode == 0, tried
    assert f"Component {given.namespace}/comp: nothing differs, 1 unchanged" in tried.stdout
    assert f"Deployment {given.namespace}/{name} would be stopped (dry run)" in tried.stdout
    unasked = await stellwerk("adopt", "component", kubeconfig=kubeconfig)
    assert (unasked.returncode, "add --yes" in unasked.stderr) == (2, True), unasked
    assert (await given.client.get(Deployment, name, given.namespace)).spec.replicas == 1

    done = await stellwerk("adopt", "component", "--yes", "--timeout", "60s", kubeconfig=kubeconfig)
    assert (done.returncode, f"{name} is stopped" in done.stdout) == (0, True), done
    back = next(line for line in done.stderr.splitlines() if line.startswith("Back: "))
    assert (await given.client.get(Deployment, name, given.namespace)).spec.replicas == 0
    after = await then.config("one")
    assert (after.metadata.uid, after.metadata.resource_version) == (
        before.metadata.uid,
        before.metadata.resource_version,
    )
    await asyncio.to_thread(kubectl, component_cluster.kubeconfig, *back.removeprefix("Back: kubectl ").split())
    assert (await given.client.get(Deployment, name, given.namespace)).spec.replicas == 1
    await given.client.delete(Deployment, name, given.namespace)
    await given.client.delete(ClusterRoleBinding, user)
    await given.client.delete(ClusterRole, user)
