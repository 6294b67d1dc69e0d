"""Manifests and credentials become the objects that shall be in the cluster."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.objects.desired import Address, Document, desired_set
from stellwerk.apply.objects.manifests import read_text
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator import certificates, plan, resources
from stellwerk.operators.btp.btpoperator.resources import Running, Values
from stellwerk.operators.btp.credentials.credentials import BtpCredentials
from stellwerk.operators.btp.errors import ModuleIncomplete, ModuleUnreadable
from stellwerk.operators.btp.module import release
from stellwerk.operators.btp.module.release import ModuleRelease, Places
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.certificates.certs import KeyPair

SHIPPED = release.load(Places.of(Settings(), release.SHIPPED))
CREDENTIALS = BtpCredentials(
    namespace="kyma-system",
    cluster_id="cluster-one",
    operand_data={
        "clientid": "aWQ=",
        "clientsecret": "c2VjcmV0",
        "sm_url": "dXJs",
        "tokenurl": "dXJs",
        "extra": "eA==",
    },
)
CLUSTER_SCOPED = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"} | {
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}
CHECKSUM = "operator.kyma-project.io/config-checksum"
OPERAND = "sap-btp-operator-controller-manager"


def values(
    settings: Settings | None = None,
    running: Running | None = None,
    credentials: BtpCredentials = CREDENTIALS,
    network_policies: bool = True,
    ca_bundle: bytes = b"",
) -> Values:
    return Values(
        settings=settings or Settings(),
        credentials=credentials,
        image="img:1",
        running=running,
        network_policies=network_policies,
        ca_bundle=ca_bundle,
    )


def prepared(given: Values | None = None, of: ModuleRelease = SHIPPED) -> dict[tuple[JsonValue, JsonValue], JsonObject]:
    documents = resources.prepared(of, given or values())
    return {(d.body["kind"], dig(d.body, "metadata", "name")): d.body for d in documents}


def operand(given: Values | None = None) -> JsonObject:
    return prepared(given)["Deployment", OPERAND]


def test_every_object_carries_the_labels_and_the_namespace() -> None:
    for body in prepared().values():
        labels = dig(body, "metadata", "labels")
        assert isinstance(labels, dict)
        assert labels["app.kubernetes.io/managed-by"] == "btp-manager"
        assert labels["chart-version"] == labels["app.kubernetes.io/chart-version"] == "v0.11.10"
        assert labels["kyma-project.io/module"] == "btp-operator"
        assert dig(body, "metadata", "namespace") == "kyma-system"


def test_placed_in_a_cluster_only_namespaced_kinds_keep_the_namespace() -> None:
    def resource(gvk: GroupVersionKind) -> Resource:
        return Resource(gvk.group, gvk.version, gvk.kind, f"{gvk.kind.lower()}s", gvk.kind not in CLUSTER_SCOPED)

    wanted = desired_set(resources.prepared(SHIPPED, values()), resource)

    assert len(wanted) == 18
    assert {one.resource.kind for one in wanted if not one.key.namespace} == CLUSTER_SCOPED


def test_the_pod_template_is_labelled_for_network_policies_and_the_selector_is_left_alone() -> None:
    before = next(d.body for d in SHIPPED.documents if d.body["kind"] == "Deployment")
    after = operand()

    assert dig(after, "spec", "template", "metadata", "labels", "kyma-project.io/module") == "btp-operator"
    assert dig(after, "spec", "selector") == dig(before, "spec", "selector")
    assert dig(after, "spec", "template", "metadata", "labels", "chart-version") is None


def test_the_config_map_says_what_the_secret_and_the_tunables_say() -> None:
    elsewhere = replace(CREDENTIALS, namespace="elsewhere")
    body = prepared(values(Settings(enable_limited_cache=False), credentials=elsewhere))[
        "ConfigMap", "sap-btp-operator-config"
    ]

    assert body["data"] == {
        "CLUSTER_ID": "cluster-one",
        "RELEASE_NAMESPACE": "elsewhere",
        "MANAGEMENT_NAMESPACE": "elsewhere",
        "ENABLE_LIMITED_CACHE": "false",
        "ALLOW_CLUSTER_ACCESS": "true",
    }
    assert dig(body, "metadata", "namespace") == "kyma-system"


def test_the_operands_secret_gets_every_key_and_keeps_its_suffix() -> None:
    elsewhere = replace(CREDENTIALS, namespace="elsewhere")
    body = prepared(values(credentials=elsewhere))["Secret", "sap-btp-service-operator"]

    assert body["data"] == {**CREDENTIALS.operand_data, "tokenurlsuffix": base64.b64encode(b"/oauth/token").decode()}
    assert dig(body, "metadata", "namespace") == "elsewhere"


@pytest.mark.parametrize("image", ["registry.example.com/operand@sha256:0", ""])
def test_the_image_is_set_as_it_is(image: str) -> None:
    containers = dig(operand(replace(values(), image=image)), "spec", "template", "spec", "containers")

    assert isinstance(containers, list)
    assert [dig(c, "image") for c in containers] == [image]


def test_pull_secrets_are_set_when_there_are_some() -> None:
    with_secrets = operand(values(Settings(image_pull_secrets=("one", "two"))))

    assert dig(with_secrets, "spec", "template", "spec", "imagePullSecrets") == [{"name": "one"}, {"name": "two"}]
    assert dig(operand(), "spec", "template", "spec", "imagePullSecrets") is None


def test_the_operand_trusts_further_authorities_where_some_are_named() -> None:
    plain, trusting = operand(), operand(values(Settings(custom_ca_certs="our-cas")))
    pod, container = dig(trusting, "spec", "template", "spec"), manager_of(trusting)

    named: JsonObject = {"name": "our-cas", "optional": True}
    volume: JsonObject = {
        "name": "custom-ca-certs",
        "projected": {"sources": [{"configMap": named}, {"secret": named}]},
    }
    mount: JsonObject = {"name": "custom-ca-certs", "mountPath": "/etc/ssl/custom-ca-certs", "readOnly": True}
    assert dig(pod, "volumes") == [*listed(dig(plain, "spec", "template", "spec", "volumes")), volume]
    assert container["volumeMounts"] == [*listed(manager_of(plain)["volumeMounts"]), mount]
    folders: JsonObject = {"name": "SSL_CERT_DIR", "value": "/etc/ssl/certs:/etc/ssl/custom-ca-certs"}
    assert container["env"] == [*listed(manager_of(plain)["env"]), folders]


def manager_of(deployment: JsonObject) -> JsonObject:
    """The operand's container."""
    (container,) = listed(dig(deployment, "spec", "template", "spec", "containers"))
    assert isinstance(container, dict)
    return container


def listed(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def test_every_webhook_trusts_the_given_authority() -> None:
    found = prepared(values(ca_bundle=b"PEM"))
    for kind in ("Mutating", "Validating"):
        webhooks = found[f"{kind}WebhookConfiguration", f"sap-btp-operator-{kind.lower()}-webhook-configuration"][
            "webhooks"
        ]
        assert isinstance(webhooks, list)
        assert len(webhooks) == 2
        assert {str(dig(w, "clientConfig", "caBundle")) for w in webhooks} == {base64.b64encode(b"PEM").decode()}


def test_another_chart_namespace_moves_the_operand_its_rights_and_its_webhooks() -> None:
    found = prepared(values(Settings(chart_namespace="btp")))

    for body in found.values():
        assert dig(body, "metadata", "namespace") in ("btp", "kyma-system")
        for subject in body.get("subjects") or []:  # type: ignore[union-attr]
            assert dig(subject, "namespace") == "btp"
        for webhook in body.get("webhooks") or []:  # type: ignore[union-attr]
            assert dig(webhook, "clientConfig", "service", "namespace") == "btp"
    assert dig(found["Secret", "sap-btp-service-operator"], "metadata", "namespace") == "kyma-system"


def test_the_manifests_themselves_are_never_changed() -> None:
    again = release.load(Places.of(Settings(), release.SHIPPED))

    resources.prepared(SHIPPED, values(Settings(chart_namespace="btp"), ca_bundle=b"PEM"))

    assert [d.body for d in SHIPPED.documents] == [d.body for d in again.documents]


# ---- pods roll when their configuration changes


def template_checksum(body: JsonObject) -> JsonValue:
    return dig(body, "spec", "template", "metadata", "annotations", CHECKSUM)


def test_a_new_operand_carries_the_checksum_of_its_configuration() -> None:
    assert template_checksum(operand())
    assert dig(operand(), "metadata", "annotations") is None


def changed_credentials(**data: str) -> BtpCredentials:
    return replace(CREDENTIALS, operand_data={**CREDENTIALS.operand_data, **data})


@pytest.mark.parametrize(
    "other",
    [
        values(credentials=changed_credentials(clientsecret="bmV3")),
        values(credentials=replace(CREDENTIALS, cluster_id="cluster-two")),
        values(Settings(enable_limited_cache=False)),
    ],
)
def test_pods_roll_when_credentials_cluster_or_cache_change(other: Values) -> None:
    assert template_checksum(operand(other)) != template_checksum(operand())


def test_pods_do_not_roll_when_keys_only_change_their_order() -> None:
    shuffled = replace(CREDENTIALS, operand_data=dict(reversed(list(CREDENTIALS.operand_data.items()))))

    assert template_checksum(operand(values(credentials=shuffled))) == template_checksum(operand())


def live_data(of: Mapping[tuple[JsonValue, JsonValue], JsonObject]) -> tuple[dict[str, str], dict[str, str]]:
    found = (of["ConfigMap", "sap-btp-operator-config"]["data"], of["Secret", "sap-btp-service-operator"]["data"])
    config, secret = ({key: str(value) for key, value in data.items()} for data in found if isinstance(data, dict))
    return config, secret


def taken_over() -> Running:
    """An operand of the original operator that runs with our configuration."""
    config, secret = live_data(prepared())
    return Running.of({"kind": "Deployment", "metadata": {"name": OPERAND}}, config, secret)


def test_taking_over_an_operand_restarts_nothing_and_remembers_what_it_runs_with() -> None:
    body = operand(values(running=taken_over()))

    assert template_checksum(body) is None
    assert dig(body, "metadata", "annotations", CHECKSUM) == template_checksum(operand())


def test_an_operand_that_was_taken_over_rolls_at_the_first_change() -> None:
    new = values(credentials=changed_credentials(clientid="bmV3"), running=taken_over())

    assert template_checksum(operand(new))


def test_a_change_that_was_half_written_still_rolls_the_pods() -> None:
    remembered = Running.of(operand(values(running=taken_over())), {}, {})
    new = values(credentials=changed_credentials(clientid="bmV3"))
    config, secret = live_data(prepared(new))
    half_written = replace(remembered, config=config, secret=secret)

    assert template_checksum(operand(replace(new, running=half_written))) == template_checksum(operand(new))


def test_once_marked_a_pod_template_stays_marked() -> None:
    running = Running.of(operand(), *live_data(prepared()))

    assert template_checksum(operand(values(running=running))) == running.template_checksum


def test_pods_are_replaced_for_credentials_only_where_their_checksum_becomes_another_one() -> None:
    changed = changed_credentials(clientid="bmV3")
    of_the_original = operand(values(running=taken_over()))

    assert resources.restarts(operand(), operand(values(credentials=changed)))
    assert resources.restarts(of_the_original, operand(values(credentials=changed, running=taken_over())))
    assert not resources.restarts(operand(), operand())
    assert not resources.restarts(operand(), operand(replace(values(), image="another")))
    assert not resources.restarts(of_the_original, of_the_original)


# ---- what is missing, what goes


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("ConfigMap", "configMap=false, secret=true, deployment=true"),
        ("Secret", "configMap=true, secret=false, deployment=true"),
        ("Deployment", "configMap=true, secret=true, deployment=false"),
    ],
)
def test_a_module_without_its_main_parts_is_refused(without: str, said: str) -> None:
    cut = replace(SHIPPED, documents=tuple(d for d in SHIPPED.documents if d.body["kind"] != without))

    with pytest.raises(ModuleIncomplete) as failure:
        resources.prepared(cut, values())

    assert str(failure.value) == f"required module resources not found in manifests ({said})"


def test_another_deployment_name_must_be_in_the_manifests() -> None:
    with pytest.raises(ModuleIncomplete, match="deployment=false"):
        resources.prepared(SHIPPED, values(Settings(deployment_name="other")))


def test_a_deployment_without_the_operands_container_is_refused() -> None:
    def renamed(document: Document) -> Document:
        body = document.body
        if body["kind"] != "Deployment":
            return document
        return Document({**body, "spec": {"template": {"spec": {"containers": [{"name": "other"}]}}}})

    with pytest.raises(ModuleUnreadable, match="no container 'manager'"):
        resources.prepared(replace(SHIPPED, documents=tuple(map(renamed, SHIPPED.documents))), values())


def test_objects_of_kinds_that_nobody_knows_are_labelled_like_any_other() -> None:
    extra = read_text("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n")

    found = prepared(of=replace(SHIPPED, documents=(*SHIPPED.documents, *extra)))

    assert dig(found["Gadget", "g"], "metadata", "labels", "app.kubernetes.io/managed-by") == "btp-manager"


def test_without_network_policies_there_are_none() -> None:
    assert not any(kind == "NetworkPolicy" for kind, _ in prepared(values(network_policies=False)))


@pytest.mark.parametrize(
    ("value", "wanted"), [("true", False), ("TRUE", False), ("false", True), ("random", True), ("", True)]
)
def test_only_true_in_any_case_switches_network_policies_off(value: str, wanted: bool) -> None:
    annotation = "operator.kyma-project.io/btp-operator-disable-network-policies"
    set_to = BtpOperator(metadata=ObjectMeta(name="b", namespace="kyma-system", annotations={annotation: value}))
    unset = BtpOperator(metadata=ObjectMeta(name="b", namespace="kyma-system"))

    assert plan.network_policies_wanted(set_to, "kyma-system") is wanted
    assert plan.network_policies_wanted(unset, "kyma-system") is True
    assert plan.network_policies_wanted(set_to, "another") is True


def test_the_legacy_network_policy_is_always_to_be_deleted() -> None:
    listed = resources.to_delete(SHIPPED, Settings(chart_namespace="btp"))

    assert [(d.body["kind"], d.body["metadata"]) for d in listed] == [
        ("NetworkPolicy", {"name": "kyma-project.io--btp-operator-allow-to-webhook", "namespace": "btp"})
    ]


DEFINITIONS = CustomResourceDefinition.resource
INSTANCE_CRD = "serviceinstances.services.cloud.sap.com"
OLDER_CRD = replace(DEFINITIONS, version="v1beta1")
OTHER_DEPLOYMENT = replace(Deployment.resource, group="example.com")
OTHER_POLICY = "kyma-project.io--btp-operator-to-dns"


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "applied"),
    [
        (Deployment.resource, "btp", OPERAND, True),
        (Deployment.resource, "kyma-system", OPERAND, False),
        (OTHER_DEPLOYMENT, "btp", OPERAND, False),
        (Deployment.resource, "btp", "former", False),
        (DEFINITIONS, "", INSTANCE_CRD, True),
        (OLDER_CRD, "", INSTANCE_CRD, True),
        (NetworkPolicy.resource, "btp", OTHER_POLICY, True),
        (Secret.resource, "credentials", "sap-btp-service-operator", True),
        (Secret.resource, "btp", "sap-btp-service-operator", False),
    ],
)
def test_what_this_release_applies_is_not_deleted_by_a_list_of_another(
    resource: Resource, namespace: str, name: str, applied: bool
) -> None:
    address = Address(resource, ObjectKey(namespace, name))

    assert resources.is_applied(address, SHIPPED, Settings(chart_namespace="btp"), "credentials") is applied


def test_a_certificate_secret_carries_the_managed_by_label_alone() -> None:
    authority, _ = certificates.documents_of(KeyPair(b"PEM", b"KEY"), KeyPair(b"", b""), "kyma-system")
    body = authority.body

    assert dig(body, "metadata", "labels") == {"app.kubernetes.io/managed-by": "btp-manager"}
    assert body["data"] == {"ca.crt": base64.b64encode(b"PEM").decode(), "ca.key": base64.b64encode(b"KEY").decode()}
