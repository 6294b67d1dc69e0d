"""What the components are told, decided without starting any."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.local import components
from stellwerk.local.build.control_plane import Binaries
from stellwerk.local.components import (
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD,
    POD_RUNNER,
    PROVISIONER,
    SCHEDULER,
    Options,
)
from stellwerk.local.errors import BrokenData, LocalError, NoSpace, PortTaken, WrongBinary, WrongVersion

FOLDER = Path("/clusters/local")
BINARIES = Binaries(Path("/cache"))


def command(name: str, options: Options) -> list[str]:
    return components.command(name, FOLDER, 40123, options, BINARIES)


def test_everything_runs_by_default_and_pods_are_left_out_on_request() -> None:
    assert Options().components == [ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, POD_RUNNER, PROVISIONER]
    assert Options(pods=False).components == [ETCD, API_SERVER, CONTROLLER_MANAGER]
    assert Options(pods=False, controllers=False).components == [ETCD, API_SERVER]


def test_every_component_is_recognized_by_the_folder_in_its_arguments() -> None:
    for name in Options().components:
        assert any(f"{FOLDER}/" in word for word in command(name, Options())), name


def test_only_tests_may_lose_data_in_a_power_cut() -> None:
    assert "--unsafe-no-fsync" not in command(ETCD, Options())
    assert "--unsafe-no-fsync" in command(ETCD, Options(durable=False))


def test_only_the_programs_of_a_test_trade_memory_for_time_and_within_a_limit() -> None:
    brief = Options(durable=False)
    for name in Options().components:
        assert not components.environment(name, Options(), {})
        variables = {"GOGC", "GOMEMLIMIT"} if name != PROVISIONER else set()
        assert components.environment(name, brief, {}).keys() == variables


def test_only_the_api_server_of_a_test_serves_without_fair_queues() -> None:
    flag = "--enable-priority-and-fairness=false"
    assert flag in command(API_SERVER, Options(durable=False))
    assert flag not in command(API_SERVER, Options())


def test_etcd_does_not_read_the_settings_of_etcdctl() -> None:
    inherited = {"ETCD_DATA_DIR": "/elsewhere", "ETCDCTL_API": "3", "PATH": "/bin"}
    assert components.environment(ETCD, Options(), inherited) == {"ETCDCTL_API": "3", "PATH": "/bin"}
    assert components.environment(API_SERVER, Options(), inherited) == inherited


def test_no_component_but_the_api_server_has_a_port() -> None:
    assert "--secure-port=40123" in command(API_SERVER, Options())
    assert "--secure-port=0" in command(CONTROLLER_MANAGER, Options())
    assert "--secure-port=0" in command(SCHEDULER, Options())
    urls = [flag for flag in command(ETCD, Options()) if "-urls=" in flag]
    assert urls
    assert all("unix://" in flag for flag in urls)


def test_extra_flags_come_last_and_only_where_they_belong() -> None:
    options = Options(extra_flags={ETCD: ["--quota-backend-bytes=1000000"]})
    assert command(ETCD, options)[-1] == "--quota-backend-bytes=1000000"
    assert "--quota-backend-bytes=1000000" not in command(API_SERVER, options)


def test_the_audit_log_leaves_out_the_control_plane_and_nobody_else() -> None:
    rules = components.audit_policy()["rules"]
    assert isinstance(rules, list)
    silent = {user for rule in rules if rule["level"] == "None" for user in rule.get("users", [])}
    assert silent == {"system:apiserver", *components.IDENTITIES}
    assert rules[-1] == {"level": "Metadata"}


@pytest.mark.parametrize(
    ("failure", "cause", "fix"),
    [
        (NoSpace(FOLDER, needs_bytes=300 * 1024**2, variables="STELLWERK_STATE"), "300 MiB", "STELLWERK_STATE"),
        (PortTaken("127.0.0.1:40123"), "listens on 127.0.0.1:40123", "another port"),
        (WrongBinary("it does not run", cause="no reason", folder=FOLDER), "no reason", f"remove {FOLDER}"),
        (BrokenData("it cannot be read", cause="garbage"), "garbage", "`stellwerk down`"),
        (
            WrongVersion("it cannot be read", cause="written in 2031", written_by="v1.99.0"),
            "written in 2031",
            "start it with the Stellwerk that has Kubernetes v1.99.0",
        ),
    ],
)
def test_a_failure_says_what_why_and_how_to_mend_it(failure: LocalError, cause: str, fix: str) -> None:
    first, second, third = str(failure).splitlines()
    assert first == f"Error:   {failure.summary}"
    assert second.startswith("Cause:   ")
    assert cause in second
    assert third.startswith("Fix:     ")
    assert fix in third


def test_the_rules_of_pods_and_the_code_of_the_provisioner_are_read_when_they_start() -> None:
    names = {name: [file.name for file in components.files(name, BINARIES)] for name in Options().components}
    assert "pod-crash.yaml" in names[POD_RUNNER]
    assert names[PROVISIONER] == ["volumes.py", "wire.py"]
    assert all(file.is_file() for file in components.files(PROVISIONER, BINARIES))
    assert not any(names[name] for name in (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER))
