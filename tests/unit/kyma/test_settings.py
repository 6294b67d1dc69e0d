"""The lifecycle manager starts with the original's arguments unchanged, and names what contradicts itself."""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stellwerk.delivery.operator_spec import CannotStart
from stellwerk.operators import kyma
from stellwerk.operators.kyma.settings import (
    PROCESS_TABLE,
    TABLE,
    CertificateManagement,
    FipsMode,
    ManifestLinks,
    Settings,
    StoredVersion,
    refuse_contradictions,
)
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.settings.table import from_go

ARGUMENTS = """
kyma-skr-listener-bind-address=:8082 pprof=false pprof-bind-address=:8084 pprof-server-timeout=1m30s
leader-election-lease-duration=3m0s leader-election-renew-deadline=2m0s leader-election-retry-period=3s
max-concurrent-kyma-reconciles=1 max-concurrent-manifest-reconciles=1 max-concurrent-watcher-reconciles=1
max-concurrent-mandatory-modules-reconciles=1 max-concurrent-mandatory-modules-deletion-reconciles=1
rate-limiter-burst=2000 rate-limiter-frequency=1000 failure-base-delay=5s failure-max-delay=30s
cache-sync-timeout=1h0m0s k8s-client-qps=1000 k8s-client-burst=2000 k8s-skr-client-qps=50 k8s-skr-client-burst=100
log-level=0 sync-namespace=kyma-system oci-registry-host= oci-registry-cred-secret= modules-repository-subpath=
skr-image-pull-secret= restricted-default-modules= enable-webhooks=false min-maintenance-window-size=20m0s
metrics-cleanup-interval=15
drop-crd-stored-version-map=Manifest:v1beta1,Watcher:v1beta1,ModuleTemplate:v1beta1,Kyma:v1beta1
kyma-requeue-success-interval=5m0s kyma-requeue-error-interval=2s kyma-requeue-warning-interval=30s
kyma-requeue-busy-interval=5s manifest-requeue-success-interval=5m0s manifest-requeue-error-interval=2s
manifest-requeue-warning-interval=30s manifest-requeue-busy-interval=5s manifest-requeue-jitter-probability=0.02
manifest-requeue-jitter-percentage=0.02 mandatory-module-requeue-success-interval=30s
mandatory-module-deletion-requeue-success-interval=30s watcher-requeue-success-interval=1m0s
module-upgrade-rollout-max-delay=5m0s istio-gateway-secret-requeue-success-interval=5m0s
istio-gateway-secret-requeue-error-interval=2s istio-namespace=istio-system istio-gateway-name=klm-watcher
istio-gateway-namespace=kcp-system istio-gateway-server-cert-switch-grace-period=96h0m0s
istio-gateway-server-cert-expiry-window=336h0m0s istio-gateway-cert-switch-before-expiration-time=0s
cert-management=cert-manager.io/v1 self-signed-cert-duration=1440h0m0s self-signed-cert-renew-before=720h0m0s
self-signed-cert-renew-buffer=24h0m0s self-signed-cert-key-size=4096
self-signed-cert-issuer-name=klm-watcher-selfsigned self-signed-cert-issuer-namespace=istio-system
additional-dns-names= listener-port-overwrite= skr-watcher-image-name=runtime-watcher
skr-watcher-image-registry=europe-docker.pkg.dev/kyma-project/prod skr-watcher-image-tag=
skr-webhook-memory-limits=200Mi skr-webhook-cpu-limits=0.1 purge-finalizer-timeout=5m0s skip-finalizer-purging-for=
"""
DEFAULTS = ARGUMENTS.split()
OURS = {
    *("without-registry", "raw-manifest-links", "module-signatures", "layer-cache-dir", "layer-cache-mib"),
    *("disable-watcher", "enable-purge-finalizer", "egress-allow-networks", "maintenance-policy-file"),
    *("module-rollout-at-once", "module-rollout-stop-share", "module-rollout-patience"),
    *("listener-client-authority", "listener-tls-folder", "listener-wakes-per-second"),
}


def parsed(*arguments: str) -> tuple[Settings, ProcessSettings]:
    """What our command line makes of Go-style arguments."""
    found: list[tuple[Settings, ProcessSettings]] = []
    command = click.Command(
        "kyma",
        params=[*PROCESS_TABLE.options(), *TABLE.options()],
        callback=lambda **values: found.append((TABLE.from_flags(values), PROCESS_TABLE.from_flags(values))),
    )
    result = CliRunner().invoke(command, from_go(arguments, (PROCESS_TABLE, TABLE)))
    if result.exit_code:
        raise click.UsageError(result.output)
    return found[0]


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_every_flag_of_the_original_has_its_name_and_default(dashes: str) -> None:
    settings, process = parsed(*(f"{dashes}{each}" for each in DEFAULTS))

    assert settings == Settings()
    assert process == ProcessSettings(leader_elect=True, zap_log_level="warn")
    assert parsed() == (settings, process)
    assert {row.flag for row in TABLE.rows if row.flag} == {each.partition("=")[0] for each in DEFAULTS} | OURS


def test_every_setting_has_either_a_flag_or_a_variable() -> None:
    assert {row.field for row in TABLE.rows} == {*Settings.__dataclass_fields__}
    assert [
        row.field for row in TABLE.rows if row.has_flag == bool(row.environment) or not row.help.endswith(".")
    ] == []


def test_arguments_as_deployments_of_the_original_have_them_are_taken() -> None:
    settings, process = parsed(
        "--leader-elect=false",
        "--metrics-bind-address=:9090",
        "-pprof",
        *("--oci-registry-host", "http://registry.local:5000"),
        "--modules-repository-subpath=/kyma/modules/",
        "--restricted-default-modules=keda, btp-operator",
        "--cert-management=cert.gardener.cloud/v1alpha1",
        "--drop-crd-stored-version-map=Kyma:v1alpha1",
        "--module-upgrade-rollout-max-delay=0",
        "--listener-port-overwrite=8443",
        "--additional-dns-names=a.example.com,b.example.com",
        "--skr-watcher-image-tag=2.1.0",
        "--log-level=3",
        "--raw-manifest-links=http",
        "--module-signatures=kyma, partner",
        "--disable-watcher",
    )

    assert process == ProcessSettings(leader_elect=False, metrics_bind_address=":9090", zap_log_level="warn")
    assert settings == Settings(
        pprof=True,
        oci_registry_host="http://registry.local:5000",
        modules_repository_subpath="kyma/modules",
        restricted_default_modules=("keda", "btp-operator"),
        cert_management=CertificateManagement.GARDENER,
        drop_crd_stored_version_map=(StoredVersion("Kyma", "v1alpha1"),),
        module_upgrade_rollout_max_delay=timedelta(),
        listener_port_overwrite="8443",
        additional_dns_names=("a.example.com", "b.example.com"),
        skr_watcher_image_tag="2.1.0",
        log_level=3,
        raw_manifest_links=ManifestLinks.HTTP,
        module_signatures=("kyma", "partner"),
        disable_watcher=True,
    )
    assert settings.watcher_image == "europe-docker.pkg.dev/kyma-project/prod/runtime-watcher:2.1.0"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("manifest-requeue-jitter-probability=0.06", "a number from 0 to 0.05"),
        ("manifest-requeue-jitter-probability=nan", "a number from 0 to 0.05"),
        ("manifest-requeue-jitter-percentage=1.1", "a number from 0 to 1"),
        ("manifest-requeue-jitter-percentage=-0.1", "a number from 0 to 1"),
        ("self-signed-cert-key-size=2048", "4096"),
        ("module-signatures=a/b", "values of a label"),
        ("cert-management=vault", "cert-manager.io/v1, cert.gardener.cloud/v1alpha1"),
        ("restricted-default-modules=keda,,btp-operator", "names of modules"),
        ("restricted-default-modules=Keda", "names of modules"),
        ("restricted-default-modules=keda;serverless", "names of modules"),
        ("drop-crd-stored-version-map=Kyma=v1beta1", "Kyma:v1beta1"),
        ("kyma-requeue-success-interval=0", "above zero"),
        ("kyma-requeue-success-interval=5", "a duration"),
        ("module-upgrade-rollout-max-delay=-1s", "or 0"),
        ("oci-registry-host=ftp://registry", "a registry"),
        ("oci-registry-host=https://", "a registry"),
        ("modules-repository-subpath=../secrets", "a path"),
        ("oci-registry-cred-secret=My_Secret", "the name of an object"),
        ("sync-namespace=kyma.system", "the name of a namespace"),
        ("listener-port-overwrite=70000", "from 1 to 65535"),
        ("skr-webhook-memory-limits=200 Mi", "an optional unit"),
        ("max-concurrent-kyma-reconciles=0", "from 1 to 1000"),
        ("raw-manifest-links=all", "none, http, file"),
    ],
)
def test_a_value_that_cannot_be_used_stops_the_start_and_says_what_is_expected(argument: str, expected: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        parsed(f"--{argument}")

    said = " ".join(refused.value.message.split())
    assert f"--{argument.partition('=')[0]}" in said
    assert expected in said


USABLE = Settings(oci_registry_host="registry.example.com", skr_watcher_image_tag="2.1.0")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("", "no registry of modules is set"),
        ("--oci-registry-host=a --oci-registry-cred-secret=b", "each names a registry"),
        ("--oci-registry-host=a", "--skr-watcher-image-tag is empty"),
        ("--oci-registry-host=a --skr-watcher-image-tag=1 --skr-watcher-image-registry=", "image-registry is empty"),
        ("--without-registry", "--skr-watcher-image-tag is empty"),
        ("--leader-election-renew-deadline=180s --without-registry --disable-watcher", "lease duration > renew"),
        ("--leader-election-retry-period=121s --without-registry --disable-watcher", "renew deadline > retry"),
    ],
)
def test_settings_that_contradict_each_other_stop_the_start_with_a_way_out(arguments: str, why: str) -> None:
    with pytest.raises(CannotStart, match=why) as refused:
        refuse_contradictions(parsed(*arguments.split())[0])

    assert "--" in refused.value.fix


@pytest.mark.parametrize(
    "arguments",
    [
        "--oci-registry-host=a --skr-watcher-image-tag=1",
        "--oci-registry-cred-secret=a --skr-watcher-image-tag=1",
        "--without-registry --disable-watcher",
        "--oci-registry-host=a --without-registry --disable-watcher",
    ],
)
def test_settings_that_fit_together_start(arguments: str) -> None:
    refuse_contradictions(parsed(*arguments.split())[0])


def test_variables_of_the_original_are_read_and_none_of_them_stops_the_start() -> None:
    found = TABLE.from_environment(
        {
            "ENABLE_LEGACY_KYMA_DELETION": "true",
            "GODEBUG": "x=1,fips140=only",
            "KLM_EXPERIMENTAL_KNOWN_MANAGERS": "kubectl; helm",
            "KLM_EXPERIMENTAL_FREQUENCY_LIMITER_TTL": "soon",
            "KLM_EXPERIMENTAL_MANAGED_FIELDS_ANALYSIS_LABEL": "analyse",
        }
    )

    assert found.settings == Settings(
        enable_legacy_kyma_deletion=True,
        godebug="x=1,fips140=only",
        known_managers=("kubectl", "helm"),
        managed_fields_analysis_label="analyse",
    )
    assert [each.key for each in found.rejections] == ["KLM_EXPERIMENTAL_FREQUENCY_LIMITER_TTL"]
    assert not TABLE.from_environment({"ENABLE_LEGACY_KYMA_DELETION": "True"}).settings.enable_legacy_kyma_deletion


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", FipsMode.OFF),
        ("fips140=on", FipsMode.ON),
        ("fips140=only", FipsMode.ONLY),
        ("fips140=off", FipsMode.OFF),
        ("fips140=on,fips140=only", FipsMode.ONLY),
        ("gctrace=1,fips140=debug", FipsMode.OFF),
    ],
)
def test_the_mode_of_fips_is_what_godebug_asks_for(text: str, mode: FipsMode) -> None:
    assert Settings(godebug=text).fips_mode is mode


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ("", "warn"),
        ("--log-level=1", "info"),
        ("--log-level=2", "debug"),
        ("--log-level=3", "3"),
        ("--zap-log-level=debug", "debug"),
        ("--zap-log-level=error", "warn"),
        ("--zap-log-level=info --log-level=0", "info"),
        ("--zap-log-level=5 --log-level=4", "5"),
        ("--zap-log-level=panic --log-level=12", "12"),
    ],
)
def test_the_log_shows_what_the_more_detailed_of_both_flags_asks_for(arguments: str, level: str) -> None:
    settings, process = parsed(*arguments.split())

    assert settings.more_detailed(process.zap_log_level) == level
    assert parsed(f"--zap-log-level={level}")[1].zap_log_level == level, "the engine knows it"


def test_the_terms_of_the_lease_are_those_of_the_original() -> None:
    terms = Settings().terms
    assert (terms.lease_duration_seconds, terms.renew_deadline_seconds, terms.retry_seconds) == (180, 120, 3)


def test_a_setting_that_nothing_reads_is_documented_as_one_without_effect() -> None:
    folder = Path(kyma.__file__).parent
    trees = [ast.parse(file.read_text()) for file in folder.rglob("*.py")]
    read = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    inert = {row.field for row in TABLE.rows if row.help.startswith("Accepted for compatibility: ")}

    assert {row.field for row in TABLE.rows} - read == inert
