"""`stellwerk up`, `status` and `down`, as a person types them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stellwerk.assembly import PROCESSES
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import MEMORY_FOR_TIME
from stellwerk.testing import cluster as clusters
from stellwerk.testing.eventually import eventually

Type = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = Path(sys.prefix) / "bin" / "stellwerk"
NOBODY = "http://127.0.0.1:9"
"""A proxy that does not answer."""


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"typed-{secrets.token_hex(4)}"
    yield chosen
    LocalCluster(clusters.session_folder() / chosen).down()


@pytest.fixture
def environment() -> dict[str, str]:
    """That of somebody behind a company's proxy, which must not come between us and this machine."""
    ours = {"STELLWERK_STATE": str(clusters.session_folder()), "LC_ALL": "C.UTF-8"}
    return {**os.environ, **MEMORY_FOR_TIME, **ours, "HTTP_PROXY": NOBODY, "HTTPS_PROXY": NOBODY, "NO_PROXY": ""}


@pytest.fixture
def stellwerk(name: str, environment: dict[str, str]) -> Type:
    """Types one verb about the system of this test."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *words, "--name", name], env=environment, capture_output=True, text=True, timeout=100, check=False
        )

    return run


@pytest.mark.req("R-901")
def test_up_says_where_it_runs_status_agrees_and_down_ends_it(
    name: str, environment: dict[str, str], stellwerk: Type
) -> None:
    folder = clusters.session_folder() / name
    before = stellwerk("status")
    assert (before.returncode, before.stdout) == (1, "")
    assert "stellwerk up" in before.stderr

    up = stellwerk("up")
    assert up.returncode == 0, up.stderr
    first = up.stdout.splitlines()[0]
    assert re.fullmatch(r"✔ control plane ready {14}\d+\.\d s   API server 1\.\d+\.\d+ on 127\.0\.0\.1:\d+", first)

    shell = f"set -eu; {up.stdout.splitlines()[-1]}; kubectl config view; stellwerk get namespaces"
    copied = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True, text=True, check=False)
    assert copied.returncode == 0, copied.stderr
    assert first.split()[-1] in copied.stdout, "kubectl uses this cluster"
    assert "kube-system" in copied.stdout, "and stellwerk does"

    status = stellwerk("status")
    assert status.returncode == 0
    assert status.stdout.splitlines()[-1].split() == ["logs", str(folder / "log")]
    assert (folder / "log" / "etcd.log").is_file()
    assert status.stdout.splitlines()[0].split()[-1] == first.split()[-1]
    assert "✗" not in status.stdout
    assert re.search(
        r"✔ operator-btp +process \d+, probes on 127\.0\.0\.1:\d+, metrics on 127\.0\.0\.1:\d+", status.stdout
    )

    asyncio.run(eventually(lambda: "invalidated from webhook CAPTenant" in refusal_of_webhook(folder / "kubeconfig")))

    assert stellwerk("down").returncode == 2, "nobody said yes"
    assert stellwerk("down", "--yes").returncode == 0
    assert stellwerk("status").returncode == 1


def refusal_of_webhook(kubeconfig: Path) -> str:
    """What kubectl prints about a tenant without an application."""
    tenant = {
        "apiVersion": "sme.sap.com/v1alpha1",
        "kind": "CAPTenant",
        "metadata": {"name": "acme"},
        "spec": {"capApplicationInstance": "none", "subDomain": "acme", "tenantId": "acme"},
    }
    command = [
        str(PROGRAM.with_name("kubectl")),
        "--kubeconfig",
        str(kubeconfig),
        "create",
        "--dry-run=server",
        "-f",
        "-",
    ]
    done = subprocess.run(command, input=json.dumps(tenant), capture_output=True, text=True, check=False)
    return done.stderr


def test_a_bare_system_names_its_kubeconfig(name: str, stellwerk: Type) -> None:
    up = stellwerk("up", "--bare")
    assert up.returncode == 0, up.stderr
    kubeconfig = clusters.session_folder() / name / "kubeconfig"
    assert up.stdout.splitlines()[1].split() == ["✔", "kubeconfig", str(kubeconfig)]
    assert up.stdout.splitlines()[-1].endswith(f"KUBECONFIG={kubeconfig}")


@pytest.mark.req("R-901")
def test_two_who_type_up_at_once_in_different_folders_get_one_system(
    name: str, environment: dict[str, str], stellwerk: Type, tmp_path: Path
) -> None:
    command = [str(PROGRAM), "up", "--name", name]
    both = [
        subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for folder in (tmp_path, Path("/"))
    ]
    said = [one.communicate(timeout=100)[0].decode() for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    before = stellwerk("status").stdout
    assert stellwerk("up").returncode == 0
    assert stellwerk("status").stdout == before
    credentials = LocalCluster(clusters.session_folder() / name).folder / "credentials"
    assert len(list(credentials.glob("system-serviceaccount-*"))) == len(PROCESSES)
