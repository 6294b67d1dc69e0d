"""The chart that installs the operator takes the values of the original's, and says what it does with each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.unit.component.test_settings import parsed

from stellwerk import __version__
from stellwerk.kube.types.model import JsonObject, JsonValue, decode_json, dig, encode_json
from stellwerk.operators.component import rights
from stellwerk.operators.component.api import DEFINITIONS
from stellwerk.operators.component.settings import Mode
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import RendererMissing, RenderError
from stellwerk.render.files import local_files
from stellwerk.render.request.request import ClusterApis, ReleaseInfo, RenderRequest
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart" / "component-operator"
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
PAGE = ROOT / "docs" / "reference" / "settings" / "component-chart.md"
IMAGE: JsonObject = {"image": {"repository": "example.com/stellwerk"}}

Installed = dict[tuple[str, str], JsonObject]
Install = Callable[..., Awaitable[Installed]]


@pytest.fixture
async def install() -> AsyncIterator[Install]:
    """What an installation with these values makes, by kind and name; definitions are left out."""
    try:
        program = renderer_path()
    except RendererMissing as error:
        pytest.skip(str(error))
    async with Renderer(lambda: program, shares=Shares(workers=1)) as renderer:

        async def made(values: JsonObject | None = None, name: str = "component-operator") -> Installed:
            request = RenderRequest(
                files=local_files.read(CHART),
                prefix="example.com",
                release=ReleaseInfo(name, "operators"),
                values={**IMAGE, **(values or {})},
                cluster=ClusterApis({"gitVersion": "v1.36.3"}),
            )
            found = (await renderer.render(request)).objects
            kept = [one for one in found if one["kind"] != "CustomResourceDefinition"]
            assert len(found) - len(kept) == len(DEFINITIONS)
            return {(str(one["kind"]), str(dig(one, "metadata", "name"))): one for one in kept}

        yield made


def pod(found: Installed, name: str = "component-operator") -> JsonValue:
    return dig(found["Deployment", name], "spec", "template", "spec")


def container(found: Installed) -> JsonObject:
    containers = dig(pod(found), "containers")
    assert isinstance(containers, list)
    (only,) = containers
    assert isinstance(only, dict)
    return only


def arguments(found: Installed) -> list[str]:
    given = container(found)["args"]
    assert isinstance(given, list)
    return [str(word) for word in given]


async def test_without_further_values_it_is_installed_as_the_original_is(install: Install) -> None:
    found = await install()

    assert set(found) == {
        ("Deployment", "component-operator"),
        ("ServiceAccount", "component-operator"),
        ("Role", "component-operator"),
        ("RoleBinding", "component-operator"),
        ("ClusterRoleBinding", "component-operator-cluster-admin"),
        ("ClusterRole", "component-operator-view"),
    }
    manager = container(found)
    assert (manager["name"], manager["image"]) == ("manager", f"example.com/stellwerk:{__version__}")
    assert manager["ports"] == [
        {"name": "metrics", "containerPort": 8080, "protocol": "TCP"},
        {"name": "probes", "containerPort": 8081, "protocol": "TCP"},
    ]
    settings, process = parsed(*arguments(found))
    assert process.leader_elect
    assert (settings.tenancy, settings.max_concurrent_reconciles) == (Mode.COMPATIBLE, 5)
    assert dig(pod(found), "securityContext", "runAsUser") == 65534
    spread = dig(pod(found), "topologySpreadConstraints")
    assert isinstance(spread, list)
    assert [dig(one, "topologyKey") for one in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    labels = dig(found["Deployment", "component-operator"], "metadata", "labels")
    assert dig(labels, "component-operator.cs.sap.com/ignored") == "true"


async def test_options_become_arguments_that_the_program_takes(install: Install) -> None:
    options: JsonObject = {
        "defaultServiceAccount": "deployer",
        "maxConcurrentReconciles": 20,
        "eventsAddress": "http://notification-controller.flux-system.svc/",
        "tenancy": "strict",
        "noCrossNamespaceRefs": True,
        "allowUnconfinedRenderer": True,
        "extraArgs": ["--drift-policy=Repair"],
    }

    settings, process = parsed(*arguments(await install({"options": options})))
    assert process.allow_unconfined_renderer
    assert settings.default_service_account == "deployer"
    assert settings.max_concurrent_reconciles == 20
    assert settings.events_address.startswith("http://notification-controller")
    assert (settings.tenancy, settings.no_cross_namespace_refs) == (Mode.STRICT, True)
    assert settings.drift_policy.value == "Repair"


@pytest.mark.req("R-501")
@pytest.mark.req("R-504")
async def test_with_less_rights_it_has_what_it_needs_for_itself_and_no_more(install: Install) -> None:
    found = await install({"rbac": {"clusterAdmin": False}})

    assert "cluster-admin" not in json.dumps(found["ClusterRoleBinding", "component-operator"])
    assert ("ClusterRoleBinding", "component-operator-cluster-admin") not in found
    for standing in rights.manifests("operators"):
        standing = decode_json(encode_json(standing))
        role = (str(standing["kind"]), str(dig(standing, "metadata", "name")))
        for part in ("rules", "roleRef", "subjects", "aggregationRule"):
            assert found[role].get(part) == standing.get(part), role


async def test_several_replicas_have_a_budget_for_disruptions(install: Install) -> None:
    budget = ("PodDisruptionBudget", "component-operator")

    assert dig((await install({"replicaCount": 2}))[budget], "spec", "minAvailable") == 1
    spec = dig((await install({"replicaCount": 3, "pdb": {"maxUnavailable": "50%"}}))[budget], "spec")
    assert (dig(spec, "maxUnavailable"), dig(spec, "minAvailable")) == ("50%", None)
    assert budget not in await install({"replicaCount": 2, "pdb": {"enabled": False}})


async def test_what_stands_at_the_pod_is_taken_as_it_is(install: Install) -> None:
    as_it_is: JsonObject = {
        "nodeSelector": {"disk": "fast"},
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "login"}],
    }
    found = await install({**as_it_is, "podLabels": {"team": "a"}, "podAnnotations": {"note": "b"}})

    for key, value in as_it_is.items():
        assert dig(pod(found), key) == value
    metadata = dig(found["Deployment", "component-operator"], "spec", "template", "metadata")
    assert dig(metadata, "labels", "team") == "a"
    assert dig(metadata, "labels", "app.kubernetes.io/instance") == "component-operator"
    assert dig(metadata, "annotations") == {"note": "b"}


async def test_a_constraint_of_ones_own_gets_the_selector_that_it_lacks(install: Install) -> None:
    own: JsonObject = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    other: JsonObject = {**own, "labelSelector": {"matchLabels": {"x": "y"}}}
    spread = dig(pod(await install({"topologySpreadConstraints": [own, other]})), "topologySpreadConstraints")

    assert isinstance(spread, list)
    assert dig(spread[0], "labelSelector", "matchLabels", "app.kubernetes.io/name") == "component-operator"
    assert dig(spread[1], "labelSelector", "matchLabels", "x") == "y"


@pytest.mark.parametrize(
    ("values", "release", "name"),
    [
        ({}, "prod", "prod-component-operator"),
        ({"nameOverride": "co"}, "prod", "prod-co"),
        ({"fullnameOverride": "it"}, "prod", "it"),
    ],
)
async def test_objects_are_named_by_release_or_override(
    install: Install, values: JsonObject, release: str, name: str
) -> None:
    assert ("Deployment", name) in await install(values, release)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"image": {}}, "image.repository"),
        ({"replicas": 2}, "replicas"),
        ({"options": {"tenancy": "lax"}}, "tenancy"),
    ],
)
async def test_a_value_that_means_nothing_is_refused_by_name(install: Install, values: JsonObject, named: str) -> None:
    with pytest.raises(RenderError, match=named):
        await install(values)


def leaves(values: JsonObject, path: str = "") -> Iterator[str]:
    """The values that one can set."""
    for key, value in values.items():
        is_group = isinstance(value, dict) and bool(value) and key not in ("podSecurityContext", "securityContext")
        if is_group and key != "resources":
            yield from leaves(value, f"{path}{key}.")  # type: ignore[arg-type]  # a group is a dict
        else:
            yield f"{path}{key}"


def test_the_page_has_a_row_for_every_value_and_none_besides() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]

    assert rows == [*leaves(DEFAULTS)]


def test_the_schema_knows_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    for leaf in leaves(DEFAULTS):
        place = schema
        for key in leaf.split("."):
            place = place["properties"][key]
        assert "type" in place or "enum" in place


def test_the_chart_has_the_version_of_the_program() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert about["version"] == about["appVersion"] == __version__


@pytest.mark.req("R-509")
@pytest.mark.parametrize(
    ("asked", "tenancy", "is_admin"),
    [
        (None, "compatible", True),
        (None, "strict", False),
        (True, "strict", True),
        (False, "compatible", False),
    ],
)
async def test_strict_tenancy_comes_without_cluster_admin_unless_that_is_asked_for(
    install: Install, asked: bool | None, tenancy: str, is_admin: bool
) -> None:
    values: JsonObject = {"options": {"tenancy": tenancy}}
    found = await install(values if asked is None else {**values, "rbac": {"clusterAdmin": asked}})
    bound = [name for (kind, name), body in found.items() if dig(body, "roleRef", "name") == "cluster-admin" and kind]
    assert bound == (["component-operator-cluster-admin"] if is_admin else [])
    assert (("ClusterRole", "component-operator-dependents") in found) is not is_admin
