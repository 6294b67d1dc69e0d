"""Default, flag, ConfigMap: the later one wins, and junk changes nothing."""

from __future__ import annotations

import time
from datetime import timedelta

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.operators.btp.settings import TABLE, CrSelection, ModuleSource, Settings
from stellwerk.runtime.settings.process_settings import PROCESS, ProcessSettings
from stellwerk.runtime.settings.table import Rejection, from_go

PUBLISHED = {
    "ChartNamespace": "kyma-system",
    "ChartPath": "./module-chart/chart",
    "ResourcesPath": "./module-resources",
    "ManagerResourcesPath": "./manager-resources",
    "SecretName": "sap-btp-manager",
    "ConfigName": "sap-btp-manager",
    "DeploymentName": "sap-btp-operator-controller-manager",
    "ProcessingStateRequeueInterval": "5m",
    "ReadyStateRequeueInterval": "15m",
    "ReadyTimeout": "5m",
    "ReadyCheckInterval": "30s",
    "HardDeleteTimeout": "20m",
    "HardDeleteCheckInterval": "10s",
    "DeleteRequestTimeout": "5m",
    "StatusUpdateTimeout": "10s",
    "StatusUpdateCheckInterval": "500ms",
    "CaCertificateExpiration": "87600h",
    "WebhookCertificateExpiration": "8760h",
    "ExpirationBoundary": "-168h",
    "RsaKeyBits": "4096",
    "EnableLimitedCache": "true",
    "ProbeInterval": "1h",
}
ROWS = {row.key: row for row in TABLE.rows}
WITHOUT_FLAG = {"CaCertificateExpiration", "WebhookCertificateExpiration", "ExpirationBoundary", "RsaKeyBits"}


def parsed(*arguments: str) -> Settings:
    """What our command line makes of Go-style arguments."""
    seen: list[Settings] = []
    command = click.Command(
        "btp",
        params=[*TABLE.options(), *PROCESS.options()],
        callback=lambda **values: seen.append(TABLE.from_flags(values)),
    )
    result = CliRunner().invoke(command, from_go(arguments, (PROCESS, TABLE)))
    if result.exit_code:
        raise click.UsageError(result.output)
    return seen[0]


def test_the_defaults_are_the_original_operators() -> None:
    text = TABLE.as_text(Settings())

    assert {key: text[key] for key in PUBLISHED} == PUBLISHED
    assert (text["CrSelection"], text["ModuleSource"], text["ImagePullSecrets"]) == ("oldest", "resources", "")


def test_every_key_but_four_has_a_flag_of_the_same_words() -> None:
    flags = {tunable.key: tunable.flag for tunable in TABLE.rows}

    assert {key for key, flag in flags.items() if not flag} == WITHOUT_FLAG
    assert flags["ProcessingStateRequeueInterval"] == "processing-state-requeue-interval"
    assert flags["EnableLimitedCache"] == "enable-limited-cache"


def test_every_setting_can_be_set() -> None:
    assert {tunable.field for tunable in TABLE.rows} == set(Settings.__dataclass_fields__)


def test_what_a_tunable_writes_it_reads_back() -> None:
    again = TABLE.overridden(Settings(), Settings(), TABLE.as_text(Settings()))

    assert again.settings == Settings()
    assert {rejection.key for rejection in again.rejections} == set()


def test_a_flag_beats_the_default_and_the_config_map_beats_the_flag() -> None:
    flags = parsed("-ready-timeout=7m", "--hard-delete-timeout", "1s", "--cr-selection", "fixed")

    effective = TABLE.overridden(flags, flags, {"ReadyTimeout": "90s", "RsaKeyBits": "2048"}).settings

    assert flags.ready_timeout == timedelta(minutes=7)
    assert effective.ready_timeout == timedelta(seconds=90)
    assert effective.hard_delete_timeout == timedelta(seconds=1)
    assert effective.cr_selection is CrSelection.FIXED
    assert effective.rsa_key_bits == 2048


def test_a_key_that_goes_away_gives_the_flag_back() -> None:
    flags = Settings(ready_timeout=timedelta(minutes=7))
    tuned = TABLE.overridden(flags, flags, {"ReadyTimeout": "90s", "EnableLimitedCache": "false"}).settings

    assert TABLE.overridden(flags, tuned, {"EnableLimitedCache": "false"}).settings.ready_timeout == timedelta(
        minutes=7
    )
    assert TABLE.overridden(flags, tuned, None).settings == flags


def test_junk_leaves_the_value_in_force_and_is_reported() -> None:
    tuned = TABLE.overridden(Settings(), Settings(), {"ProbeInterval": "2h"}).settings

    again = TABLE.overridden(Settings(), tuned, {"ProbeInterval": "junk", "ReadyTimeout": "90s"})

    assert again.settings.probe_interval == timedelta(hours=2)
    assert again.settings.ready_timeout == timedelta(seconds=90)
    assert [rejection.key for rejection in again.rejections] == ["ProbeInterval"]
    assert "not a duration such as 90s" in str(again.rejections[0])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ReadyTimeout", ""),
        ("ReadyTimeout", "-5m"),
        ("ReadyStateRequeueInterval", "0"),
        ("ProcessingStateRequeueInterval", "0"),
        ("DeleteRequestTimeout", "0"),
        ("WebhookCertificateExpiration", "0"),
        ("ReadyCheckInterval", "often"),
        ("ProbeInterval", "-1h"),
        ("ExpirationBoundary", "168h"),
        ("RsaKeyBits", "1024"),
        ("RsaKeyBits", "99999"),
        ("RsaKeyBits", "4096.0"),
        ("RsaKeyBits", "-4096"),
        ("EnableLimitedCache", "yes"),
        ("ChartNamespace", "Kyma_System"),
        ("ChartNamespace", "x" * 64),
        ("SecretName", "a/b"),
        ("CrSelection", "youngest"),
        ("ModuleSource", ""),
        ("ModuleSource", "charts"),
        ("ImagePullSecrets", "ok,Not OK"),
        ("ResourcesPath", "a\0b"),
        ("readyTimeout", "5m"),
    ],
)
def test_a_value_that_cannot_work_is_rejected(key: str, value: str) -> None:
    effective = TABLE.overridden(Settings(), Settings(), {key: value})

    assert effective.settings == Settings()
    assert [rejection.key for rejection in effective.rejections] == [key]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("ProbeInterval", "0", timedelta()),
        ("ReadyTimeout", "0", timedelta()),
        ("ReadyCheckInterval", "0", timedelta()),
        ("HardDeleteCheckInterval", "-10s", timedelta(seconds=-10)),
        ("StatusUpdateTimeout", "0", timedelta()),
        ("StatusUpdateCheckInterval", "0", timedelta()),
        ("HardDeleteTimeout", "0", timedelta()),
        ("ExpirationBoundary", "0", timedelta()),
        ("ChartPath", "", ""),
        ("EnableLimitedCache", "False", False),
        ("ImagePullSecrets", "one, two,", ("one", "two")),
        ("ModuleSource", "auto", ModuleSource.AUTO),
        ("ModuleSource", "chart", ModuleSource.CHART),
    ],
)
def test_values_at_the_edge_are_accepted(key: str, value: str, expected: object) -> None:
    effective = TABLE.overridden(Settings(), Settings(), {key: value})

    assert effective.rejections == ()
    assert getattr(effective.settings, ROWS[key].field) == expected


def test_a_rejection_is_short_and_on_one_line() -> None:
    shown = TABLE.overridden(Settings(), Settings(), {"Kubeconfig": "a\n\x1b[31mb" + "c" * 5000}).rejections[0]

    assert shown == Rejection("Kubeconfig", "a [31mb" + "c" * 53 + "...", "there is no such key")


def test_a_bad_flag_names_itself_and_what_is_expected() -> None:
    with pytest.raises(click.UsageError, match=r"(?s)--ready-timeout.*90s"):
        parsed("--ready-timeout", "junk")


def test_flags_of_the_original_operators_deployment_are_taken() -> None:
    arguments = [
        "-chart-path=/chart",
        "-metrics-bind-address=:8080",
        "--health-probe-bind-address",
        ":8081",
        "--leader-elect",
        "--zap-log-level=debug",
        "-zap-devel=false",
        "-enable-limited-cache",
        "false",
    ]

    assert parsed(*arguments) == Settings(chart_path="/chart", enable_limited_cache=False)


def test_the_process_has_the_defaults_of_the_original() -> None:
    assert ProcessSettings(metrics_bind_address=":8080", health_probe_bind_address=":8081", leader_elect=False) == (
        ProcessSettings()
    )


def test_process_settings_are_read_from_flags() -> None:
    process = PROCESS.from_flags({"leader_elect": True, "zap_log_level": "3", "chart_path": "x", "kubeconfig": None})

    assert process == ProcessSettings(leader_elect=True, zap_log_level="3")


def test_help_names_every_default() -> None:
    command = click.Command("btp", params=[*TABLE.options(), *PROCESS.options()])
    help_text = " ".join(CliRunner().invoke(command, ["--help"], terminal_width=200).output.split())

    for tunable in TABLE.rows:
        if tunable.flag:
            assert f"--{tunable.flag} " in help_text
    assert "[default: ./module-resources]" in help_text


HOSTILE = [
    "9" * 300_000,
    "9" * 5_000 + "h",
    "-" * 300_000,
    "1h" * 100_000,
    "0." + "0" * 300_000 + "1h",
    "a," * 200_000,
    "x" * 900_000,
    "\0",
    "1E999 ",
    "\u0663h",
    "\ud800",
]


@pytest.mark.req("R-401", "R-413")
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:4]!r} x {len(text)}")
def test_no_text_is_too_much_for_a_tunable(text: str) -> None:
    began = time.process_time()

    effective = TABLE.overridden(Settings(), Settings(), dict.fromkeys(ROWS, text))

    assert time.process_time() - began < 1.0, "a value of a megabyte is not searched again and again"
    assert all(len(str(rejection)) < 500 for rejection in effective.rejections)
    paths = {"ChartPath", "ResourcesPath", "ManagerResourcesPath"}
    assert {rejection.key for rejection in effective.rejections} >= ROWS.keys() - paths


def test_many_keys_that_do_not_exist_are_counted_and_some_are_named() -> None:
    effective = TABLE.overridden(Settings(), Settings(), {f"Key{number:05}": "x" for number in range(10_000)})

    assert len(effective.rejections) == 21
    assert str(effective.rejections[0]).startswith("Key00000: 'x' has no effect")
    assert effective.rejections[-1].key == "9980 more keys"


@pytest.mark.req("R-401")
@pytest.mark.req("R-413")
@given(
    st.dictionaries(
        st.sampled_from(sorted(ROWS)) | st.text(max_size=20),
        st.text(max_size=60)
        | st.integers().map(lambda number: f"{number}h")
        | st.integers(min_value=0).map(lambda number: "9" * min(number, 5_000))
        | st.sampled_from(
            ["1e400h", "-1h", "9" * 4_400, "99999999999999h", "٣h", "\udcff", "0x10", "1h\x00", "NaN", "inf"]
        ),
        max_size=5,
    )
)
def test_any_text_under_any_key_is_a_setting_or_a_rejection(data: dict[str, str]) -> None:
    base = Settings()
    effective = TABLE.overridden(base, base, data)
    assert len(effective.rejections) <= len(data)
