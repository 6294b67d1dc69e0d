"""How the variables of the original's controllers are read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import click
import pytest

from stellwerk.delivery.operator_spec import CannotStart
from stellwerk.operators.cap import controllers
from stellwerk.operators.cap.settings import TABLE
from stellwerk.operators.cap.subscription import process as subscriptions
from stellwerk.operators.cap.subscription.settings import TABLE as SERVER
from stellwerk.operators.cap.variables import NO_NAMESPACE
from stellwerk.operators.cap.webhooks import process as webhooks
from stellwerk.operators.cap.webhooks.settings import TABLE as WEBHOOKS
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.settings.table import MAX_VALUE_CHARACTERS, SettingsTable


@pytest.mark.parametrize("text", ["0", "0s", "-5s", "29s", "30s"])
def test_a_short_delay_of_the_rollout_counts_as_half_a_minute(text: str) -> None:
    found = TABLE.from_environment({"ROLLOUT_DELAY": text})
    assert (found.settings.rollout_delay, found.rejections) == (timedelta(seconds=30), ())


def test_the_namespaces_of_ingress_gateways_reach_the_domains() -> None:
    found = TABLE.from_environment({"INGRESS_NAMESPACES": "istio-system, gateways"})
    assert found.settings.of_domains("cap-system").ingress_namespaces == ("istio-system", "gateways")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("istio-system gateways", ("istio-system", "gateways")),
        ("istio-system,\n gateways, istio-system", ("istio-system", "gateways")),
        ("No/Name", ("No/Name",)),
        (" , ", NO_NAMESPACE),
        (" ", NO_NAMESPACE),
        ("a," * MAX_VALUE_CHARACTERS, NO_NAMESPACE),
        ("", ("istio-system", "istio-ingress")),
        ("*", ("*",)),
    ],
)
def test_a_mistake_in_the_namespaces_of_ingress_gateways_does_not_allow_all(text: str, names: tuple[str, ...]) -> None:
    found = TABLE.from_environment({"INGRESS_NAMESPACES": text})
    assert found.settings.ingress_namespaces == names
    shown = "; ".join(map(str, found.rejections))
    assert ("counts as <none>: expected" in shown) is (names == NO_NAMESPACE)


@pytest.mark.req("R-912")
def test_only_issuers_that_an_administrator_names_reach_the_domains() -> None:
    assert TABLE.from_environment({}).settings.of_domains("cap-system").certificate_issuers == ()
    found = TABLE.from_environment({"CERTIFICATE_ISSUERS": "ClusterIssuer/letsencrypt, AWSIssuer.example.com/pca"})
    named = ("ClusterIssuer/letsencrypt", "AWSIssuer.example.com/pca")
    assert found.settings.of_domains("cap-system").certificate_issuers == named


def test_a_flag_without_the_name_of_a_namespace_is_refused() -> None:
    (flag,) = (each for each in TABLE.options() if each.name == "ingress_namespaces")
    with pytest.raises(click.BadParameter):
        flag.type_cast_value(click.Context(click.Command("cap")), " , ")


def test_a_delay_that_is_no_duration_has_no_effect() -> None:
    found = TABLE.from_environment({"ROLLOUT_DELAY": "soon"})
    assert found.settings.rollout_delay == timedelta(hours=1)
    assert "ROLLOUT_DELAY: 'soon' has no effect" in str(found.rejections[0])


@pytest.mark.parametrize(("text", "workers"), [("100", 100), ("101", 100), ("0500", 100), ("9" * 30, 100), ("20", 20)])
def test_more_workers_than_there_may_be_are_as_many_as_there_may_be(text: str, workers: int) -> None:
    found = TABLE.from_environment({"MAX_CONCURRENT_RECONCILES_CAP_TENANT": text})
    assert found.settings.max_concurrent_reconciles_cap_tenant == workers
    shown = "; ".join(map(str, found.rejections))
    assert ("counts as 100: expected a whole number from 1 to 100" in shown) is (workers == 100 != int(text))


@pytest.mark.parametrize("text", ["0", "00", "-1", "many", "1.5", ""])
def test_a_number_of_workers_that_is_none_has_no_effect(text: str) -> None:
    found = TABLE.from_environment({"MAX_CONCURRENT_RECONCILES_CAP_TENANT": text})
    assert found.settings.max_concurrent_reconciles_cap_tenant == 10


@pytest.mark.req("R-961")
@pytest.mark.parametrize("table", [TABLE, SERVER, WEBHOOKS], ids=["cap", "cap-server", "cap-webhooks"])
def test_a_mistake_in_the_watched_namespaces_does_not_widen_them(table: SettingsTable[Any]) -> None:
    for text, names in {
        "": (),
        "shop, books": ("shop", "books"),
        " ": NO_NAMESPACE,
        ",": NO_NAMESPACE,
        "*": ("*",),
        "a," * MAX_VALUE_CHARACTERS: NO_NAMESPACE,
    }.items():
        assert table.from_environment({"WATCH_NAMESPACES": text}).settings.watch_namespaces == names


@pytest.mark.req("R-961")
@pytest.mark.parametrize("names", [NO_NAMESPACE, ("*",), ("shop", "Books"), ("a/b",), ("..",)])
def test_a_watched_namespace_that_can_be_none_ends_the_start(names: tuple[str, ...]) -> None:
    with pytest.raises(CannotStart, match="is no name of a namespace"):
        controllers.launch(ProcessSettings(), replace(TABLE.defaults, watch_namespaces=names), {})
    with pytest.raises(CannotStart, match="is no name of a namespace"):
        subscriptions.launch(ProcessSettings(), replace(SERVER.defaults, watch_namespaces=names), {})
    with pytest.raises(CannotStart, match="is no name of a namespace"):
        webhooks.launch(ProcessSettings(), replace(WEBHOOKS.defaults, watch_namespaces=names), {})


@pytest.mark.req("R-961")
def test_with_watched_namespaces_those_of_gateways_have_to_be_named() -> None:
    watched = ("shop",)
    every = replace(TABLE.defaults, watch_namespaces=watched, ingress_namespaces=("*",))
    with pytest.raises(CannotStart, match=r"INGRESS_NAMESPACES is \*"):
        controllers.launch(ProcessSettings(), every, {})
    with pytest.raises(CannotStart, match="GATEWAY_NAMESPACE is empty"):
        subscriptions.launch(
            ProcessSettings(), replace(SERVER.defaults, watch_namespaces=watched, gateway_namespace=""), {}
        )


@pytest.mark.req("R-961")
def test_a_process_asks_about_its_rights_in_the_namespaces_that_it_is_limited_to() -> None:
    launched = controllers.launch(ProcessSettings(), replace(TABLE.defaults, watch_namespaces=("shop",)), {})
    assert launched.identity.namespaces == ("shop",)
    of_secrets = {each.namespace for each in launched.identity.rights.needs if each.resource == "secrets"}
    assert of_secrets == {"shop", "istio-system", "istio-ingress"}
