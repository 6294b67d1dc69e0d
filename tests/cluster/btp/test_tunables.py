"""The tunables ConfigMap overrides flags while it exists, and junk in it changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import JsonObject, Unstructured, dig, unstructured
from stellwerk.operators.btp.api import BtpOperator
from tests.cluster.btp.beginnings import provisioned
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

DEPLOYMENTS = unstructured(Deployment.resource)
OPERAND = "sap-btp-operator-controller-manager"
CONFIG = "sap-btp-operator-config"
CONFIG_MAPS = unstructured(ConfigMap.resource)


def limited_cache(value: str) -> Callable[[Unstructured | None], bool]:
    """Whether the operand's configuration has this setting."""

    def check(seen: Unstructured | None) -> bool:
        return seen is not None and seen.at("data", "ENABLE_LIMITED_CACHE") == value

    return check


async def test_the_limited_cache_setting_reaches_the_operand_and_goes_back_with_the_config_map(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await then.becomes(CONFIG_MAPS, CONFIG, limited_cache("true"), "start with the default")

    await given.tunables(EnableLimitedCache="false", RsaKeyBits="2048")
    await then.becomes(CONFIG_MAPS, CONFIG, limited_cache("false"), "follow the tunable")
    assert running.metric("btpmanager_custom_config_applied") == 1

    await given.client.delete(ConfigMap, "sap-btp-manager", "kyma-system")
    await then.becomes(CONFIG_MAPS, CONFIG, limited_cache("true"), "go back to the default")
    assert running.metric("btpmanager_custom_config_applied") == 0


async def test_a_value_that_cannot_be_read_keeps_the_former_one_and_is_reported(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then, ReadyTimeout="7m")

    await given.tunables(ReadyTimeout="junk", EnableLimitedCache="false", RsaKeyBits="2048")

    await then.becomes(CONFIG_MAPS, CONFIG, limited_cache("false"), "follow the good value")
    assert running.settings.ready_timeout.total_seconds() == 7 * 60
    await then.event("TunablesRejected", saying=["ReadyTimeout: 'junk' has no effect: "])
    assert running.metric("btpmanager_custom_config_rejected_keys") == 1
    assert running.metric('btpmanager_setting_info{key="ReadyTimeout",value="7m"}') == 1
    assert running.metric('btpmanager_setting_info{key="EnableLimitedCache",value="false"}') == 1

    await given.client.delete(ConfigMap, "sap-btp-manager", "kyma-system")
    await then.becomes(CONFIG_MAPS, CONFIG, limited_cache("true"), "go back to the default")
    assert running.metric("btpmanager_custom_config_rejected_keys") == 0


async def test_authorities_reach_the_operand_and_go_with_the_setting(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)

    def mounts(seen: Unstructured | None) -> set[object]:
        volumes = seen.at("spec", "template", "spec", "volumes") if seen is not None else None
        return {dig(volume, "name") for volume in volumes} if isinstance(volumes, list) else set()

    await given.tunables(CustomCaCerts="our-cas", RsaKeyBits="2048")
    await then.becomes(DEPLOYMENTS, OPERAND, lambda seen: mounts(seen) == {"cert", "custom-ca-certs"}, "mount them")
    await given.tunables(RsaKeyBits="2048")
    await then.becomes(DEPLOYMENTS, OPERAND, lambda seen: mounts(seen) == {"cert"}, "mount them no more")
    await then.shows("Ready", "ReconcileSucceeded")


async def test_unknown_fields_in_the_cr_are_pruned_and_do_no_harm(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start()
    body: JsonObject = {
        "apiVersion": "operator.kyma-project.io/v1alpha1",
        "kind": "BtpOperator",
        "metadata": {"name": "btpoperator", "namespace": "kyma-system"},
        "spec": {"somebodys": "idea"},
    }
    await given.client.create(unstructured(BtpOperator.resource), {**body})

    await then.shows("Ready", "ReconcileSucceeded")
    seen = await given.client.get(unstructured(BtpOperator.resource), "btpoperator", "kyma-system")
    assert seen.at("spec", "somebodys") is None
