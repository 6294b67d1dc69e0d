"""The operator starts with the original's arguments unchanged, and says what it does not understand."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from ipaddress import ip_network

import click
import pytest
from click.testing import CliRunner

from stellwerk.kube.types.identifiers import SYSTEM_NAMESPACES
from stellwerk.operators.component.settings import (
    TABLE,
    DependentEvents,
    DriftPolicy,
    Mode,
    Permission,
    Settings,
)
from stellwerk.render.sources.egress import IN_CLUSTER, PUBLIC
from stellwerk.runtime.settings import process_settings
from stellwerk.runtime.settings.process_settings import PROCESS, ProcessSettings
from stellwerk.runtime.settings.table import from_go


def parsed(*arguments: str) -> tuple[Settings, ProcessSettings]:
    """What our command line makes of Go-style arguments."""
    seen: list[tuple[Settings, ProcessSettings]] = []
    command = click.Command(
        "component",
        params=[*PROCESS.options(), *TABLE.options()],
        callback=lambda **values: seen.append((TABLE.from_flags(values), PROCESS.from_flags(values))),
    )
    result = CliRunner().invoke(command, from_go(arguments, (PROCESS, TABLE)))
    if result.exit_code:
        raise click.UsageError(result.output)
    return seen[0]


def test_without_arguments_everything_is_as_with_the_original() -> None:
    settings, process = parsed()

    assert settings == Settings()
    assert process == ProcessSettings()
    assert (settings.default_service_account, settings.max_concurrent_reconciles, settings.events_address) == (
        "",
        5,
        "",
    )
    assert settings.tenancy is Mode.COMPATIBLE
    assert not settings.no_cross_namespace_refs
    assert settings.excluded_namespaces == ()


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_the_originals_arguments_are_taken_in_both_spellings(dashes: str) -> None:
    settings, process = parsed(
        f"{dashes}leader-elect",
        f"{dashes}default-service-account=deployer",
        *(f"{dashes}max-concurrent-reconciles", "10"),
        f"{dashes}events-address=http://notification-controller.flux-system/",
        f"{dashes}metrics-bind-address=:9090",
        f"{dashes}zap-log-level=debug",
        f"{dashes}zap-devel=false",
    )

    assert settings == Settings(
        default_service_account="deployer",
        max_concurrent_reconciles=10,
        events_address="http://notification-controller.flux-system/",
    )
    assert process == ProcessSettings(leader_elect=True, metrics_bind_address=":9090", zap_log_level="debug")


def test_every_setting_can_be_set_and_reads_back_what_it_writes() -> None:
    assert {row.field for row in TABLE.rows} == set(Settings.__dataclass_fields__)
    defaults = [f"--{row.flag}={TABLE.default(row)}" for row in TABLE.rows]
    assert parsed(*defaults)[0] == Settings()


def test_our_own_flags_are_read() -> None:
    settings, _ = parsed(
        "--reclaim-managers=kubectl, helm,argocd",
        "--dependent-events=NONE",
        "--drift-policy=repair",
        "--http-repository-interval=5m",
        "--egress-allow-hosts=*.example.com,charts.example.org",
        "--egress-allow-ports=443,8443",
        "--egress-allow-networks=10.0.0.0/8,fd00::/8",
        "--egress-refuse-networks=2001:db8:1::/48,192.0.2.0/24",
        "--max-remote-clusters=30",
        "--max-remote-clusters-per-namespace=3",
        "--max-remote-objects-mib=64",
        "--artifact-cache-dir=/var/cache/stellwerk",
        "--artifact-cache-mib=64",
    )

    assert settings.reclaim_managers == ("kubectl", "helm", "argocd")
    assert settings.dependent_events is DependentEvents.NONE
    assert settings.drift_policy is DriftPolicy.REPAIR
    assert settings.http_repository_interval == timedelta(minutes=5)
    assert settings.egress.hosts == ("*.example.com", "charts.example.org")
    assert settings.egress.ports == (443, 8443)
    assert settings.egress.networks == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.egress.refused == (ip_network("2001:db8:1::/48"), ip_network("192.0.2.0/24"))
    assert settings.flux_egress.refused == ()  # its controller is in the cluster
    assert (settings.max_remote_clusters, settings.max_remote_clusters_per_namespace) == (30, 3)
    assert settings.max_remote_objects_mib == 64
    assert (settings.artifact_cache_dir, settings.artifact_cache_mib) == ("/var/cache/stellwerk", 64)


@pytest.mark.req("R-501")
def test_strict_tenancy_brings_its_own_defaults_and_leaves_those_that_are_said() -> None:
    strict, _ = parsed("--tenancy=strict")
    said, _ = parsed("--tenancy=strict", "--egress-allow-private=true", "--refused-target-namespaces=none")

    assert strict.tenancy is Mode.STRICT
    assert strict.excluded_namespaces == SYSTEM_NAMESPACES
    assert strict.egress == PUBLIC
    assert strict.flux_egress == IN_CLUSTER
    assert said.egress.private
    assert not said.egress.http
    assert said.excluded_namespaces == ()
    assert Settings().egress == IN_CLUSTER
    assert not Settings(egress_allow_http=Permission.REFUSE).egress.http


@pytest.mark.req("R-502")
@pytest.mark.parametrize(
    ("argument", "refused"),
    [
        ("--no-cross-namespace-refs", True),
        ("--no-cross-namespace-refs=true", True),
        ("-no-cross-namespace-refs=false", False),
        ("--cross-namespace-refs", False),
    ],
)
def test_references_to_other_namespaces_are_switched_off_as_in_flux(argument: str, refused: bool) -> None:
    assert parsed(argument)[0].no_cross_namespace_refs is refused


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--max-concurrent-reconciles=0", "whole number from 1 to 1000"),
        ("--tenancy=loose", "expected one of compatible, strict"),
        ("--events-address=notification-controller", "expected a URL such as"),
        ("--egress-allow-networks=10.0.0.1/8", "expected networks such as"),
        ("--egress-allow-hosts=https://x", "expected host names or patterns"),
        ("--egress-allow-ports=0", "whole number from 1 to 65535"),
        ("--http-repository-interval=10ms", "at least one second"),
        ("--default-service-account=Deployer", "expected the name of an object"),
    ],
)
def test_a_bad_value_stops_the_start_and_says_what_is_expected(argument: str, expected: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parsed(argument)
    assert expected in " ".join(caught.value.message.replace("│", " ").split())


def test_the_page_names_every_flag() -> None:
    page = process_settings.page("Component operator", TABLE)

    for name in (*(row.flag for row in TABLE.rows), "leader-elect", "zap-log-level"):
        assert f"| `--{name}` |" in page


def test_reading_the_flags_imports_nothing_heavy() -> None:
    probe = "import sys, stellwerk.operators.component.settings; print(*(m for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True).stdout.split()

    assert not {"aiohttp", "yarl", "yaml", "cryptography", "prometheus_client"} & set(loaded)
