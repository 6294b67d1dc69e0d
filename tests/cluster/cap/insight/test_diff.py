"""`stellwerk diff` shows what the CAP Operator would write, before it does, and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.cap.conftest import Running, Stellwerk
from tests.cluster.cap.shop import Shop, job, router, server
from tests.cluster.program import Ended

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Namespace, Pod, Secret, Service
from stellwerk.api.istio import VirtualService
from stellwerk.api.rbac import Role, RoleBinding
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.testing.cluster import AuditLog


def marked(ended: Ended) -> list[str]:
    """The lines that name an object, without namespace and blanks that make columns."""
    return [" ".join(line.split()) for line in ended.stdout.splitlines() if line[0] in "~+-!"]


async def test_what_is_as_it_should_be_differs_in_nothing(running: Running, shop: Shop, stellwerk: Stellwerk) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.shows_application("VersionExists", state="Consistent")
    (operation,) = await shop.operations()
    for subject in ("ca/shop", "cav/shop-v1", "cat/acme", f"ctop/{operation.metadata.name}"):
        same = await stellwerk("diff", subject)
        assert (same.returncode, same.stdout.partition(",")[0]) == (0, "nothing differs"), f"{subject}: {same}"


async def test_a_version_shows_what_it_would_create_and_leaves_alone_what_exists(
    running: Running, shop: Shop, stellwerk: Stellwerk, audit: AuditLog
) -> None:
    await shop.open(job("load", "Content"), job("mtxs"), router(), server("srv"))
    await running.settled(shop.client)
    await running.stop()
    scale = MergePatch({"spec": {"replicas": 3}})
    await shop.client.patch(metadata_of(Deployment), "shop-v1-srv", shop.namespace, scale)
    await shop.client.delete(metadata_of(Service), "shop-v1-app-svc", shop.namespace)
    await shop.release("2", job("load", "Content"), job("mtxs"), router())
    audit.mark()
    existing = await stellwerk("diff", "cav/shop-v1")
    new = await stellwerk("diff", "cav/shop-v2")

    assert existing.returncode == 3
    assert marked(existing) == [f"+ Service {shop.namespace}/shop-v1-app-svc"]
    assert "1 object differs" in existing.stdout
    lines = marked(new)
    assert f"+ Deployment {shop.namespace}/shop-v2-app" in lines
    assert f"+ Job {shop.namespace}/shop-v2-content (the content job that is due)" in lines
    assert any(line.startswith(f"+ Secret {shop.namespace}/shop-v2-app-") for line in lines)
    assert any(line.startswith(f"~ CAPApplicationVersion {shop.namespace}/shop-v2") for line in lines)
    assert [line for line in lines if line[0] == "!"] == []
    written = audit.entries(
        lambda each: each.namespace == shop.namespace and each.is_write and each.agent.startswith("stellwerk-cli")
    )
    assert written
    assert [each.path for each in written if "dryRun=All" not in each.path] == []


async def test_a_tenant_shows_its_operation_and_its_routes(running: Running, shop: Shop, stellwerk: Stellwerk) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2")
    await shop.version_shows("WorkloadsReady", "2")
    await shop.tenant_shows("UpgradeCompleted")
    await running.settled(shop.client)
    await running.stop()
    headers = MergePatch({"metadata": {"annotations": {"sme.sap.com/vs-route-request-header-set": '{"x": "1"}'}}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, headers)
    differs = await stellwerk("diff", "cat/acme")

    assert differs.returncode == 3, differs
    assert f"~ VirtualService {shop.namespace}/acme" in marked(differs)
    assert "headers" in differs.stdout

    await shop.set_version("1.0.0")
    differs = await stellwerk("diff", "cat/acme")

    assert differs.returncode == 3, differs
    lines = marked(differs)
    assert any(line.startswith(f"+ CAPTenantOperation {shop.namespace}/acme-") for line in lines)
    assert any(line.startswith(f"- CAPTenantOperation {shop.namespace}/acme-") for line in lines)
    assert f"~ VirtualService {shop.namespace}/acme" not in lines, "the routes follow when the operation has ended"


async def test_a_new_tenant_shows_the_version_that_it_gets_and_the_operation_that_follows(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.shows_application("VersionExists", state="Consistent")
    await running.settled(shop.client)
    await running.stop()
    await shop.subscribe("late")
    differs = await stellwerk("diff", "cat/late")

    assert differs.returncode == 3, differs
    lines = marked(differs)
    assert any(line.startswith(f"~ CAPTenant {shop.namespace}/late (") for line in lines), lines
    assert "it gets version 1.0.0" in differs.stdout
    assert any(line.startswith(f"+ CAPTenantOperation {shop.namespace}/late-") for line in lines), lines


async def test_an_application_shows_its_provider_and_the_tenants_that_follow(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    await shop.release("2")
    await shop.version_shows("WorkloadsReady", "2")
    await shop.tenant_shows("UpgradeCompleted")
    await running.settled(shop.client)
    await running.stop()
    await shop.set_version("1.0.0")
    follows = await stellwerk("diff", "ca/shop")
    await shop.apply(provider={"subDomain": "own", "tenantId": "own-id"})
    provider = await stellwerk("diff", "ca/shop")
    application = await shop.client.get(CAPApplication, "shop", shop.namespace)
    payload = names.derived("shop-provider", application.metadata.uid)
    await shop.client.create(Secret, {"metadata": {"name": payload, "namespace": shop.namespace}})
    refused = await stellwerk("diff", "ca/shop")

    assert f"+ Secret {shop.namespace}/{payload}" in provider.stdout
    assert f"Secret {payload} has the name of the payload of the provider tenant" in refused.stdout + refused.stderr
    assert f"+ CAPTenant {shop.namespace}/shop-provider" not in marked(refused)
    assert f"~ CAPTenant {shop.namespace}/acme (spec.version: 1.0.0 -> 2.0.0)" in marked(follows)
    assert f"+ CAPTenant {shop.namespace}/shop-provider" in marked(provider)


async def test_a_file_is_compared_before_it_is_applied(shop: Shop, stellwerk: Stellwerk, tmp_path: Path) -> None:
    await shop.bind()
    await shop.apply()
    file = tmp_path / "version.yaml"
    file.write_text(
        "apiVersion: sme.sap.com/v1alpha1\nkind: CAPApplicationVersion\nmetadata: {name: shop-v9}\n"
        "spec:\n  capApplicationInstance: shop\n  version: 9.0.0\n  workloads:\n"
        "  - name: app\n    consumedBTPServices: []\n    deploymentDefinition: {type: Router, image: app:9}\n"
    )
    differs = await stellwerk("diff", "-f", str(file))

    assert differs.returncode == 3, differs
    assert f"+ Deployment {shop.namespace}/shop-v9-app" in marked(differs)


VERSION = """
apiVersion: sme.sap.com/v1alpha1
kind: CAPApplicationVersion
metadata: {name: shop-v9, namespace: NAMESPACE}
spec:
  capApplicationInstance: shop
  version: 9.0.0
  workloads:
  - name: app
    consumedBTPServices: []
    deploymentDefinition: {type: Router, image: "app:9"}
"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("version: 9.0.0", "version: nine"),
        ("  version: 9.0.0", "  version: 9.0.0\n  versions: 9.0.0"),
    ],
    ids=["pattern", "unknown field"],
)
async def test_a_file_that_the_api_server_refuses_is_not_compared(
    shop: Shop, stellwerk: Stellwerk, tmp_path: Path, right: str, wrong: str
) -> None:
    await shop.apply()
    file = tmp_path / "version.yaml"
    file.write_text(VERSION.replace("NAMESPACE", shop.namespace).replace(right, wrong))
    refused = await stellwerk("diff", "-f", str(file))

    assert refused.returncode == 1, refused
    assert refused.stderr.startswith(f"Error:   the API server refuses CAPApplicationVersion {shop.namespace}/shop-v9")
    assert refused.stdout == ""


async def test_a_file_of_another_namespace_than_that_of_the_call_is_refused(
    shop: Shop, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    file = tmp_path / "version.yaml"
    file.write_text(VERSION.replace("NAMESPACE", "elsewhere"))
    refused = await stellwerk("diff", "-f", str(file))

    assert refused.returncode == 2, refused
    assert "Fix:     leave out -n, or use -n elsewhere" in refused.stderr


@pytest.mark.parametrize("has_target", [True, False])
async def test_a_domain_shows_its_objects_or_what_keeps_it_from_having_any(
    shop: Shop, stellwerk: Stellwerk, has_target: bool
) -> None:
    label = f"gateway-of-{shop.namespace}"
    pod = {"metadata": {"name": label, "namespace": "istio-system", "labels": {"istio": label}}}
    await shop.client.apply(Namespace, {"metadata": {"name": "istio-system"}})
    await shop.client.create(Pod, {**pod, "spec": {"containers": [{"name": "main", "image": "gateway:1"}]}})  # type: ignore[dict-item]
    host = f"{shop.namespace}.example.com"
    spec = {"domain": host, "ingressSelector": {"istio": label}, "tlsMode": "Simple", "dnsMode": "Wildcard"}
    if has_target:
        spec["dnsTarget"] = "lb.example.com"
    metadata = {"name": "primary", "namespace": shop.namespace}
    await shop.client.apply(Domain, {"metadata": metadata, "spec": spec})  # type: ignore[dict-item]
    differs = await stellwerk("diff", "dom/primary")

    if not has_target:
        assert differs.returncode == 1
        assert "set spec.dnsTarget" in differs.stderr
        return
    assert differs.returncode == 3, differs
    kinds = [line.split()[1] for line in marked(differs) if line[0] == "+"]
    assert sorted(kinds) == ["Certificate", "DNSEntry", "Gateway"]
    assert "assumed to run with CERT_MANAGER=" in differs.stderr
    assert await shop.client.find(metadata_of(VirtualService), "acme", shop.namespace) is None


async def test_a_domain_shows_what_the_settings_of_the_running_operator_make_of_it(
    shop: Shop, stellwerk: Stellwerk
) -> None:
    label = f"gateway-of-{shop.namespace}"
    pod = {"metadata": {"name": "gateway", "namespace": shop.namespace, "labels": {"istio": label}}}
    await shop.client.create(Pod, {**pod, "spec": {"containers": [{"name": "main", "image": "gateway:1"}]}})  # type: ignore[dict-item]
    spec = {"domain": f"{shop.namespace}.example.com", "ingressSelector": {"istio": label}, "tlsMode": "Simple"}
    metadata = {"name": "primary", "namespace": shop.namespace}
    await shop.client.apply(Domain, {"metadata": metadata, "spec": {**spec, "dnsMode": "Wildcard"}})  # type: ignore[dict-item]
    variables = [
        {"name": "DNS_MANAGER", "value": "kubernetes"},
        {"name": "DNS_TARGET", "value": "lb.example.com"},
        {"name": "INGRESS_NAMESPACES", "value": shop.namespace},
    ]
    container = {"name": "main", "image": "stellwerk:1", "command": ["stellwerk", "run", "cap"], "env": variables}
    labels = {"app": "cap"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    await shop.client.apply(Namespace, {"metadata": {"name": NAMESPACE}})
    await shop.client.apply(Deployment, {"metadata": {"name": "cap", "namespace": NAMESPACE}, "spec": deployment})  # type: ignore[dict-item]
    differs = await stellwerk("diff", "dom/primary")
    await shop.client.delete(metadata_of(Deployment), "cap", NAMESPACE)

    assert differs.returncode == 3, differs
    kinds = [line.split()[1] for line in marked(differs) if line[0] == "+"]
    assert sorted(kinds) == ["Certificate", "Gateway"], differs


async def test_a_user_of_one_namespace_is_shown_which_domain_does_not_exist(
    shop: Shop, stellwerk: Stellwerk, cap_cluster: LocalCluster
) -> None:
    await shop.bind()
    await shop.apply(domainRefs=[{"kind": "Domain", "name": "lost"}])
    user, metadata = f"user of {shop.namespace}", {"name": "user", "namespace": shop.namespace}
    rules: list[JsonObject] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await shop.client.create(Role, {"metadata": {**metadata}, "rules": [*rules]})
    binding: JsonObject = {
        "metadata": {**metadata},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "user"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    await shop.client.create(RoleBinding, binding)

    shown = await stellwerk("diff", "ca/shop", kubeconfig=cap_cluster.kubeconfig_for(user))

    assert "Domain lost, which does not exist (there are none)" in shown.stdout + shown.stderr, shown
