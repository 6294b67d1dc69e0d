"""Adding an operator touches its folder and one line of `assembly.py`; every verb and page then knows it.

The toy operator is added to a copy of the product: links to all files, but for the registry with one more line and the
operator's folder.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from bench.sizes import python_lines

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.assembly import OPERATORS, PROCESSES
from stellwerk.cli.local import operator_processes
from stellwerk.delivery.monitoring import objects as monitoring
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import MEMORY_FOR_TIME
from stellwerk.testing import cluster as clusters
from stellwerk.testing.eventually import eventually
from tests.prometheus import prometheus
from tests.toy_operator.operator import OPERATOR as TOY_OPERATOR

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "toy_operator"
MOST_LINES, MOST_LINES_OF_SERVER = 110, 40
SITES = unstructured(Resource("toy.example.com", "v1", "Site", "sites", True))
PAGES = unstructured(Resource("toy.example.com", "v1", "Page", "pages", True))


OF_STRICT_TENANCY = {"component_operator_strict_tenancy_as_cluster_admin"}
"""Metrics that an operator has with settings other than those of `up`."""
SOMETIMES_ABSENT = {
    "stellwerk_memory_",  # without a memory limit
    "stellwerk_resource_info",  # without objects that are not ready
    "stellwerk_certificate_expiry_seconds",  # without servers of HTTPS
    "btpmanager_certificate_expiration_timestamp_seconds",  # without an installed module
    "component_operator_runtime_component_state",  # without Components
    "component_operator_runtime_unready_dependents_total",
    "stellwerk_task_failures_total",  # without faults
    "stellwerk_watch_restarts_total",
    "stellwerk_missing_rights",
    "stellwerk:reconcile_errors:ratio_rate15m",  # without passes
}
"""Series that healthy operators with few objects do not have. Their names and labels are on the page all the same."""
GENERATED = (
    "deploy/crds/sites.toy.example.com.yaml",
    "deploy/crds/pages.toy.example.com.yaml",
    "deploy/chart/stellwerk/Chart.yaml",
    "deploy/chart/stellwerk/values.yaml",
    "deploy/chart/stellwerk/values.schema.json",
    "deploy/chart/stellwerk/files/crds/sites.toy.example.com.yaml",
    "deploy/chart/stellwerk/files/operators/toyOperator.yaml",
    "docs/reference/settings/toy.md",
    "docs/reference/settings/toy-greeter.md",
    "docs/reference/reasons/toy.md",
    "docs/reference/topics/toy.md",
    "docs/reference/rights/toy.md",
    "deploy/monitoring/rules.yaml",
    "deploy/monitoring/dashboards/overview.json",
    "deploy/monitoring/dashboards/toy.json",
    "deploy/monitoring/busola/sites.toy.example.com.yaml",
)
_PREFIXES = (
    "stellwerk_|controller_runtime_|workqueue_|rest_client_|leader_election_|btpmanager_|component_operator_|process_"
)
_METRIC = re.compile(rf"\b((?:{_PREFIXES})[a-z_]+)")


class Product:
    """A copy of the product with one more operator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("native", "samples", "designs", "mkdocs.yml"):
            (folder / name).symlink_to(ROOT / name)
        for name in ("deploy", "docs"):  # what `make generate` reads and writes
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "CHANGELOG.md", folder)
        source, copy = ROOT / "src" / "stellwerk", folder / "src" / "stellwerk"
        (copy / "operators").mkdir(parents=True)
        for inside in ("", "operators"):
            for file in (source / inside).iterdir():
                if file.name not in ("operators", "assembly.py", "__pycache__"):
                    (copy / inside / file.name).symlink_to(file)
        toy = copy / "operators" / "toy"
        toy.mkdir()
        for file in TOY.glob("*.py"):
            (toy / file.name).write_text(file.read_text().replace("tests.toy_operator", "stellwerk.operators.toy"))
        before, line, after = (source / "assembly.py").read_text().partition("        component.OPERATOR,\n")
        assert line
        one_more = "        __import__('stellwerk.operators.toy.operator', fromlist=['OPERATOR']).OPERATOR,\n"
        (copy / "assembly.py").write_text(f"{before}{line}{one_more}{after}")
        # Workers share the folder of the session, and each has a product where the tests of this file are divided.
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        state = str(clusters.session_folder() / f"toy-{worker}")
        self.environment = {
            **os.environ,
            **MEMORY_FOR_TIME,
            "PYTHONPATH": str(folder / "src"),
            "STELLWERK_STATE": state,
        }

    def python(self, *arguments: str, code: int = 0, stdin: str = "", folder: Path | None = None) -> str:
        """Run Python with the copy. Returns what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, (done.args, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def stellwerk(self, *arguments: str, code: int = 0) -> str:
        """Call the command line of the copy. Returns what it prints."""
        return self.python("-m", "stellwerk.cli.main", *arguments, code=code)

    def greeting(self) -> str:
        """What the server of the toy operator answers."""
        process = LocalCluster(Path(self.environment["STELLWERK_STATE"]) / "local").process("operator-toy-greeter")
        with urlopen(f"http://127.0.0.1:{operator_processes.port(process, 'port')}/") as answer:
            return str(answer.read().decode())


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    made = Product(tmp_path_factory.mktemp("product"))
    made.python(str(made.folder / "deploy" / "generate.py"))
    yield made
    made.stellwerk("down", "--yes")


def test_the_operator_has_about_110_lines_of_code_and_its_server_40_more() -> None:
    lines = {file.name: python_lines(file.read_text()) for file in TOY.glob("*.py")}
    assert lines.pop("server.py") <= MOST_LINES_OF_SERVER
    assert sum(lines.values()) <= MOST_LINES


def test_make_generate_adds_it_to_kinds_chart_roles_dashboards_and_pages(product: Product) -> None:
    text = {path: (product.folder / path).read_text() for path in GENERATED}
    assert "The Secret with the kubeconfig of the remote cluster." in text["deploy/crds/sites.toy.example.com.yaml"]
    assert "| `--greeting` | `Hello` | What pages begin with. |" in text["docs/reference/settings/toy.md"]
    assert "# Settings of the Toy greeter" in text["docs/reference/settings/toy-greeter.md"]
    assert "| `--port` | `8000` | Where it greets. |" in text["docs/reference/settings/toy-greeter.md"]
    assert "## SecretMissing" in text["docs/reference/reasons/toy.md"]
    assert "no remote cluster is known" in text["docs/reference/rights/toy.md"]
    assert "toyOperator:" in text["deploy/chart/stellwerk/values.yaml"]
    assert "name: sites.toy.example.com" in text["deploy/chart/stellwerk/Chart.yaml"]
    assert "sites/status" in text["deploy/chart/stellwerk/files/operators/toyOperator.yaml"]
    assert "stellwerk-toy" in text["deploy/monitoring/dashboards/overview.json"]
    assert "StellwerkNoLeader" in text["deploy/monitoring/rules.yaml"].partition('{name="toy"}')[0][-300:]


def test_the_site_has_its_pages_and_a_page_for_each_of_its_reasons(product: Product, tmp_path: Path) -> None:
    product.python("-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path), folder=product.folder)
    reference = tmp_path / "reference"
    assert (reference / "reasons" / "toy" / "site" / "secretmissing.html").exists()
    assert "Toy operator" in (reference / "rights" / "toy.html").read_text()


def test_verbs_without_a_cluster_know_it(product: Product) -> None:
    assert "--greeting" in product.stellwerk("run", "toy", "--help")
    assert "Run the Toy greeter: greetings by HTTP." in product.stellwerk("run", "toy-greeter", "--help")
    assert "SecretMissing" in product.stellwerk("explain", "secretmissing")
    manifests = yaml.safe_load_all(product.stellwerk("install", "toy", "--print"))
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert ("CustomResourceDefinition", "sites.toy.example.com") in names
    assert ("ClusterRole", "toy") in names
    assert {("ServiceAccount", "toy-greeter"), ("ClusterRole", "toy-greeter"), ("Role", "toy-greeter")} <= {*names}
    assert len(names) == len(set(names)), "each object once"
    started = product.stellwerk("install", "toy", "--image", "example.com/stellwerk:1", "--print")
    deployed = {each["metadata"]["name"] for each in yaml.safe_load_all(started) if each["kind"] == "Deployment"}
    assert deployed == {"toy", "toy-greeter"}


async def test_up_runs_it_and_verbs_answer_about_its_objects(
    product: Product, remote_cluster: LocalCluster, tmp_path: Path
) -> None:
    started = product.stellwerk("up")
    assert "Toy operator" in started
    assert "Toy greeter" in started
    checked = product.stellwerk("check", "toy")
    for subject in ("kind Site", "kind Page", "rights", "Site objects"):
        assert f"✔ toy: {subject}" in checked
    assert re.search(r"toy: rights +9 objects", checked), "those of the server, too"
    product.stellwerk("install", "toy", "--kubeconfig", str(remote_cluster.kubeconfig))
    site = api_object("Site", "news", {"title": "News", "secretName": "there"})
    file = tmp_path / "site.json"
    file.write_text(json.dumps(site))
    assert "+ ConfigMap default/news" in product.stellwerk("diff", "-f", str(file), code=3)

    local = ClusterConfig.load(Path(product.environment["STELLWERK_STATE"]) / "local" / "kubeconfig")
    remote = ClusterConfig.load(remote_cluster.kubeconfig)
    async with Client.connect(local, field_manager="user") as home, Client.connect(remote) as away:
        await home.create(SITES, site)
        await eventually(lambda: "Hello News" in product.greeting(), describe="the server greets the Site")
        product.stellwerk("wait", "site/news", "--for=condition=Ready=False", "--timeout=30s")
        assert "SecretMissing" in product.stellwerk("get", "site")
        why = product.stellwerk("why", "site/news")
        assert "Secret default/there does not exist" in why
        assert "Next: create the Secret" in why

        kubeconfig = base64.b64encode(remote_cluster.kubeconfig.read_bytes()).decode()
        secret: JsonObject = {"metadata": {"name": "there"}, "data": {"value": kubeconfig}}
        await home.create(Secret, {"apiVersion": "v1", "kind": "Secret", **secret}, "default")
        product.stellwerk("wait", "site/news", "--for=condition=Ready", "--timeout=30s")
        assert "Site default/news" in product.stellwerk("trace", "cm/news")
        product.stellwerk("diff", "site/news")

        await away.create(PAGES, api_object("Page", "front", {"text": "world"}))

        async def published() -> str:
            found = await away.find(ConfigMap, "front", "default")
            return found.data["text"] if found is not None else ""

        await eventually(published, describe="the page of the remote cluster is published there")
        assert await published() == "Hello world"
        await away.delete(ConfigMap, "front", "default")
        await eventually(published, describe="the ConfigMap of the remote cluster is restored")
        await away.delete(PAGES, "front", "default")


async def test_every_query_of_dashboards_and_rules_finds_its_metrics_on_the_pages_of_running_operators(
    product: Product, tmp_path: Path
) -> None:
    product.stellwerk("up")
    targets = re.findall(r"metrics on ([\d.]+:\d+)", product.stellwerk("status"))
    assert len(targets) == len(PROCESSES) + len(TOY_OPERATOR.processes)
    specs = (*OPERATORS.values(), TOY_OPERATOR)
    made = [monitoring.shared(specs), *(monitoring.of_operator(spec) for spec in specs)]
    groups = [group for each in made for group in each.groups]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": groups}))
    boards: list[Any] = [board for each in made for board in each.dashboards.values()]
    queries = {target["expr"] for board in boards for panel in board["panels"] for target in panel["targets"]}
    async with prometheus(tmp_path, targets, rules) as server:

        async def has_scraped() -> bool:
            return len(await server.query("count_over_time(stellwerk_tasks[5m]) > 2")) == len(targets)

        async def has_evaluated() -> bool:
            listed = (await server.get("rules"))["groups"]
            return len(listed) == len(groups) and all(
                rule["health"] == "ok" for each in listed for rule in each["rules"]
            )

        await eventually(has_scraped, describe="each operator is scraped three times")
        await eventually(has_evaluated, describe="all rules are evaluated without an error")
        metadata = await server.get("metadata")
        for expression in sorted({*queries, *(str(rule["expr"]) for group in groups for rule in group["rules"])}):  # type: ignore[union-attr,call-overload,index]
            await server.query(expression)
            for name in _METRIC.findall(expression):
                family = re.sub(r"_(bucket|count|sum)$", "", name)
                assert {name, family} & metadata.keys() or name in OF_STRICT_TENANCY, (name, expression)
        empty = {expression for expression in queries if not await server.query(expression)}
        assert not {expression for expression in empty if not any(name in expression for name in SOMETIMES_ABSENT)}
        operators = {series["metric"]["operator"] for series in await server.query("stellwerk_operator_info")}
        assert len(operators) == len(targets)
        shown = await server.query('stellwerk_resources{kind=~"Site|BtpOperator|Component"}')
        assert {series["metric"]["kind"] for series in shown} == {"Site", "BtpOperator", "Component"}


def api_object(kind: str, name: str, spec: JsonObject) -> JsonObject:
    """An object of the toy operator."""
    return {
        "apiVersion": "toy.example.com/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
