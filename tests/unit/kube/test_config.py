"""A kubeconfig is read as kubectl reads it; one from a foreign hand is held to inline data."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.promptly import promptly

from stellwerk.kube.login.auth import Material
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.model import JsonObject, JsonValue


def kubeconfig(user: JsonObject | None = None, cluster: JsonObject | None = None, name: str = "home") -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443/", **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "me", "namespace": "den"}}],
        "current-context": name,
    }


def written(folder: Path, content: JsonValue, name: str = "config") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


async def header(config: ClusterConfig) -> str:
    return await config.credentials.authorization()


def test_a_context_joins_cluster_user_and_namespace(tmp_path: Path) -> None:
    config = ClusterConfig.load(written(tmp_path, kubeconfig({"token": "t"}, {"tls-server-name": "inner"})))
    assert (config.server, config.namespace, config.tls_server_name) == ("https://home.example:6443", "den", "inner")
    assert asyncio.run(header(config)) == "Bearer t"


def test_several_files_are_merged_and_the_first_to_name_a_thing_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = written(tmp_path, {"current-context": "away", "users": [{"name": "me", "user": {"token": "first"}}]}, "a")
    second = written(tmp_path, kubeconfig({"token": "second"}, name="away"), "b")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(first), str(tmp_path / "absent"), str(second)]))
    config = ClusterConfig.load()
    assert (config.server, asyncio.run(header(config))) == ("https://away.example:6443", "Bearer first")


def test_another_context_can_be_chosen_and_a_wrong_one_is_answered_with_the_right_ones(tmp_path: Path) -> None:
    path = written(tmp_path, kubeconfig())
    assert ClusterConfig.load(path, "home").server == "https://home.example:6443"
    with pytest.raises(LoginFailed, match="no context 'else'; it has: home"):
        ClusterConfig.load(path, "else")


def test_without_any_file_the_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LoginFailed, match=r"there is no kubeconfig: looked for .*/\.kube/config"):
        ClusterConfig.load()


def test_relative_paths_count_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    config = ClusterConfig.load(written(tmp_path, kubeconfig({"tokenFile": "token", "token": "inline"})))
    assert asyncio.run(header(config)) == "Bearer from-file"


@pytest.mark.req("R-205")
async def test_a_rotated_token_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    config = ClusterConfig.load(written(tmp_path, kubeconfig({"tokenFile": "token"})))
    assert await header(config) == "Bearer old"
    renewed = tmp_path / "renewed"
    renewed.write_text("new")
    renewed.rename(token)  # as the kubelet does: another file under the same name
    assert await header(config) == "Bearer new"


@pytest.mark.parametrize("content", ["", " \n", "two\nlines", "caf\u00e9"])
async def test_a_file_without_a_token_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    config = ClusterConfig.load(written(tmp_path, kubeconfig({"tokenFile": "token"})))
    with pytest.raises(LoginFailed, match=str(tmp_path / "token")):
        await header(config)


async def test_a_login_program_is_run_until_its_token_ends(tmp_path: Path) -> None:
    program = tmp_path / "login"
    program.write_text(
        "#!/bin/sh\necho run >> runs\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"\'$EXTRA\'","expirationTimestamp":"2999-01-01T00:00:00Z"}}\'\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    plugin: JsonObject = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "env": [{"name": "EXTRA", "value": "given"}],
    }
    config = ClusterConfig.load(written(tmp_path, kubeconfig({"exec": plugin})))
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert [await header(config), await header(config)] == ["Bearer given"] * 2
        config.credentials.refresh()
        assert await header(config) == "Bearer given"
    finally:
        os.chdir(before)
    assert (tmp_path / "runs").read_text() == "run\n" * 2


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "failed with exit code 3"),
        ("echo nothing", "did not print an ExecCredential"),
        ("echo '{}'", "printed no status"),
        ("printf '\\377'", "did not print an ExecCredential"),
        (
            """echo '{"status": {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00"}}'""",
            "did not print an ExecCredential",
        ),
        (
            """echo '{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "a\\\\nb"}}'""",
            "printed no token",
        ),
    ],
)
async def test_a_login_program_that_fails_says_how(tmp_path: Path, script: str, why: str) -> None:
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    plugin: JsonObject = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}
    config = ClusterConfig.load(written(tmp_path, kubeconfig({"exec": plugin})))
    with pytest.raises(LoginFailed, match=why):
        await header(config)


async def test_a_login_program_that_is_absent_is_told_with_its_hint(tmp_path: Path) -> None:
    plugin: JsonObject = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(tmp_path / "absent"),
        "installHint": "install it with care",
    }
    config = ClusterConfig.load(written(tmp_path, kubeconfig({"exec": plugin})))
    with pytest.raises(LoginFailed, match="install it with care"):
        await header(config)


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "we know"),
        ({"exec": {"command": "x", "interactiveMode": "Always"}}, "talk to a person"),
        ({"exec": {}}, "names no command"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider"),
        ({"token": 5}, "token must be text"),
        ({"client-certificate-data": "!"}, "is not base64"),
    ],
)
def test_a_login_that_cannot_be_served_is_refused_when_it_is_read(tmp_path: Path, user: JsonObject, why: str) -> None:
    with pytest.raises(LoginFailed, match=why):
        ClusterConfig.load(written(tmp_path, kubeconfig(user)))


def test_a_proxy_is_taken_from_the_kubeconfig_and_else_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://of-the-environment.example")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    own = ClusterConfig.load(written(tmp_path, kubeconfig({}, {"proxy-url": "https://own.example"})))
    assert own.proxy == "https://own.example"
    assert ClusterConfig.load(written(tmp_path, kubeconfig())).proxy == "http://of-the-environment.example"
    foreign = ClusterConfig.from_kubeconfig_text(json.dumps(kubeconfig()))
    assert foreign.proxy == "http://of-the-environment.example"


def test_a_proxy_of_another_kind_is_refused_and_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(LoginFailed, match=r"not http:// or https://") as refused:
        ClusterConfig.load(written(tmp_path, kubeconfig({}, {"proxy-url": "socks5://me:canary@proxy.example"})))
    assert "canary" not in str(refused.value)


@pytest.mark.req("R-503")
@pytest.mark.parametrize(
    ("user", "cluster", "what"),
    [
        ({"exec": {"command": "x"}}, {}, "a login program"),
        ({"auth-provider": {}}, {}, "auth-provider"),
        ({"tokenFile": "/etc/passwd"}, {}, "paths of files"),
        ({"client-certificate": "/etc/passwd"}, {}, "paths of files"),
        ({"client-key": "/etc/passwd"}, {}, "paths of files"),
        ({}, {"certificate-authority": "/etc/passwd"}, "paths of files"),
        ({}, {"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
        ({}, {"proxy-url": "http://elsewhere"}, "proxy-url"),
        ({}, {"server": "http://plain.example"}, "not https"),
    ],
)
def test_a_foreign_kubeconfig_may_hold_nothing_but_data(user: JsonObject, cluster: JsonObject, what: str) -> None:
    with pytest.raises(LoginFailed, match=what):
        ClusterConfig.from_kubeconfig_text(json.dumps(kubeconfig(user, cluster)))


def test_a_foreign_kubeconfig_with_inline_data_is_taken() -> None:
    config = ClusterConfig.from_kubeconfig_text(json.dumps(kubeconfig({"token": "t"})))
    assert asyncio.run(header(config)) == "Bearer t"


@pytest.mark.req("R-402")
def test_aliases_are_refused_before_they_expand() -> None:
    bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
    with pytest.raises(LoginFailed, match="not valid YAML"):
        ClusterConfig.from_kubeconfig_text(bomb)


@pytest.mark.req("R-801")
def test_a_broken_kubeconfig_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("users:\n- token: [canary-55aa\n")
    with pytest.raises(LoginFailed, match="line") as broken:
        ClusterConfig.load(path)
    assert "canary" not in str(broken.value)
    assert broken.value.__cause__ is None


@pytest.mark.req("R-801")
def test_no_repr_shows_a_secret(tmp_path: Path) -> None:
    user: JsonObject = {
        "token": "canary-1",
        "client-key-data": text("canary-2"),
        "username": "u",
        "password": "canary-3",
    }
    proxy: JsonObject = {"proxy-url": "http://me:canary-4@proxy.example"}
    config = ClusterConfig.load(written(tmp_path, kubeconfig(user, proxy)))
    assert "canary" not in repr(config)
    assert "canary" not in repr(Material(b"canary"))


@pytest.mark.req("R-401")
@given(
    some.text(max_size=300)
    | some.recursive(
        some.none() | some.integers() | some.text(),
        lambda inner: (
            some.lists(inner)
            | some.dictionaries(
                some.sampled_from(["users", "clusters", "contexts", "name", "user", "current-context"]), inner
            )
        ),
        max_leaves=20,
    ).map(json.dumps)
)
@promptly
def test_any_text_is_a_config_or_a_failed_login(content: str) -> None:
    with contextlib.suppress(LoginFailed):  # any other exception fails the test
        assert ClusterConfig.from_kubeconfig_text(content).server.startswith("https://")


def test_a_pod_finds_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(LoginFailed, match="not a pod"):
        ClusterConfig.in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("projected")
    (tmp_path / "namespace").write_text("kyma-system")
    config = ClusterConfig.in_cluster(tmp_path)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "kyma-system")
    assert asyncio.run(header(config)) == "Bearer projected"
