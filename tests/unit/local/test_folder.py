"""What a start writes into the folder of a cluster, and what it leaves alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.errors import BrokenData
from stellwerk.local.folder import CONTEXT, ClusterFolder
from stellwerk.local.host.private_files import write_private

PORT = 20_001


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ClusterFolder:
    """The folder of a cluster that was prepared once."""
    folder = ClusterFolder(tmp_path_factory.mktemp("clusters") / "local")
    folder.prepare(PORT)
    return folder


def changed_by_the_user(folder: ClusterFolder) -> bytes:
    """The administrator's kubeconfig as `kubectl config set-context` leaves it: YAML, with another namespace."""
    document = yaml.safe_load(folder.kubeconfig.read_text())
    document["contexts"][0]["context"]["namespace"] = "shop"
    document["contexts"].append({"name": "mine", "context": {"cluster": "local", "user": "stellwerk:admin"}})
    folder.kubeconfig.write_text(yaml.safe_dump(document))
    return folder.kubeconfig.read_bytes()


def test_a_start_keeps_the_users_changes_of_the_kubeconfig(folder: ClusterFolder) -> None:
    changed = changed_by_the_user(folder)
    folder.prepare(PORT)
    assert folder.kubeconfig.read_bytes() == changed


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{", b"clusters: {}"])
def test_a_kubeconfig_with_another_port_or_without_the_cluster_is_written_again(
    folder: ClusterFolder, content: bytes | None
) -> None:
    changed_by_the_user(folder)
    if content is not None:
        folder.kubeconfig.write_bytes(content)
    folder.prepare(PORT + 1)
    (cluster,) = json.loads(folder.kubeconfig.read_bytes())["clusters"]
    assert cluster["cluster"]["server"] == f"https://127.0.0.1:{PORT + 1}"
    folder.prepare(PORT)


OTHERS: dict[str, dict[str, object]] = {
    "clusters": {"name": "prod", "cluster": {"server": "https://prod.example"}},
    "users": {"name": "prod", "user": {"token": "t"}},
    "contexts": {"name": "prod", "context": {"cluster": "prod", "user": "prod"}},
}


def with_another_cluster(folder: ClusterFolder) -> dict[str, list[dict[str, object]]]:
    """The administrator's kubeconfig as tools leave it that add a cluster and make it current."""
    document: dict[str, list[dict[str, object]]] = yaml.safe_load(folder.kubeconfig.read_text())
    for section, entry in OTHERS.items():
        document[section].append(entry)
    folder.kubeconfig.write_text(yaml.safe_dump({**document, "current-context": "prod"}))
    return document


def assert_both_are_there(folder: ClusterFolder, *, port: int) -> None:
    assert ClusterConfig.load(folder.kubeconfig).server == "https://prod.example"
    assert ClusterConfig.load(folder.kubeconfig, CONTEXT).server == f"https://127.0.0.1:{port}"


def test_another_port_leaves_the_clusters_that_tools_have_added_and_the_namespace(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.prepare(PORT)
    changed_by_the_user(folder)
    with_another_cluster(folder)
    folder.prepare(PORT + 1)
    assert_both_are_there(folder, port=PORT + 1)
    assert ClusterConfig.load(folder.kubeconfig, CONTEXT).namespace == "shop"


@pytest.mark.parametrize(
    "contexts",
    [[], [{"name": CONTEXT, "context": {"cluster": "prod", "user": "prod"}}], [{"name": CONTEXT}], [CONTEXT], None],
)
def test_a_start_writes_the_context_that_is_gone_or_names_another_cluster(
    tmp_path: Path, contexts: list[object] | None
) -> None:
    folder = ClusterFolder(tmp_path)
    folder.prepare(PORT)
    document = with_another_cluster(folder)
    others = None if contexts is None else [*contexts, OTHERS["contexts"]]
    folder.kubeconfig.write_text(json.dumps({**document, "contexts": others, "current-context": CONTEXT}))
    folder.prepare(PORT)
    assert ClusterConfig.load(folder.kubeconfig).server == f"https://127.0.0.1:{PORT}"
    if others:
        assert ClusterConfig.load(folder.kubeconfig, "prod").server == "https://prod.example"


def test_a_start_leaves_a_kubeconfig_without_a_current_context(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.prepare(PORT)
    document = json.loads(folder.kubeconfig.read_bytes())
    folder.kubeconfig.write_text(json.dumps({**document, "current-context": ""}))
    folder.prepare(PORT)
    assert json.loads(folder.kubeconfig.read_bytes())["current-context"] == ""
    assert ClusterConfig.load(folder.kubeconfig, CONTEXT).server == f"https://127.0.0.1:{PORT}"


def test_the_kubeconfig_of_an_account_has_its_namespace_and_one_place(folder: ClusterFolder) -> None:
    cluster = LocalCluster(folder.path)
    before = set(folder.path.glob("credentials/*"))
    kubeconfig = cluster.kubeconfig_of_account("cap-operator-system", "cap-operator")
    (context,) = json.loads(kubeconfig.read_bytes())["contexts"]
    assert context["context"]["namespace"] == "cap-operator-system"
    assert cluster.kubeconfig_of_account("cap-operator-system", "cap-operator") == kubeconfig
    assert set(folder.path.glob("credentials/*")) - before == {kubeconfig}


def test_users_with_similar_names_or_other_groups_do_not_share_a_kubeconfig(folder: ClusterFolder) -> None:
    cluster = LocalCluster(folder.path)
    accounts = {cluster.kubeconfig_of_account("a", "b-c"), cluster.kubeconfig_of_account("a-b", "c")}
    assert len(accounts) == 2
    assert cluster.kubeconfig_for("jane") != cluster.kubeconfig_for("jane", ["admins"])


def as_of_a_former_release(issued: Path, digits: str) -> Path:
    """A kubeconfig as former releases named it: with random digits."""
    name, _, _ = issued.stem.rpartition("-")
    former = issued.with_name(f"{name}-{digits}.kubeconfig")
    issued.rename(former)
    return former


def test_the_files_of_former_releases_go_and_those_of_other_identities_stay(folder: ClusterFolder) -> None:
    cluster = LocalCluster(folder.path)
    user = f"system:serviceaccount:shop:{'long-' * 12}name"  # more characters than X.509 has for a name
    identities: list[tuple[str, list[str]]] = [
        (user, ["others"]),
        (f"{user}-00000003", []),
        (user.replace(":", "-"), []),
    ]
    others = {
        as_of_a_former_release(cluster.kubeconfig_for(*identity), f"{number:08}")
        for number, identity in enumerate(identities)
    }
    first = as_of_a_former_release(cluster.kubeconfig_for(user), "0000000a")
    second, damaged = (first.with_name(first.name.replace("0000000a", digits)) for digits in ("0000000b", "0000000c"))
    second.write_bytes(first.read_bytes())
    damaged.write_text("{}")
    before = set(folder.path.glob("credentials/*"))
    assert before >= {*others, first, second, damaged}
    issued = cluster.kubeconfig_for(user)
    assert set(folder.path.glob("credentials/*")) == {issued, *before} - {first, second}


def test_a_file_of_a_former_release_stays_while_a_process_uses_it(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.prepare(PORT)
    cluster = LocalCluster(folder.path)
    former = as_of_a_former_release(cluster.kubeconfig_for("jane"), "0000000a")
    process = folder.process("operator")
    command = ["/bin/sh", "-c", "sleep 1000; true", f"--kubeconfig={former}"]
    process.start(command, working_folder=tmp_path, environment=dict(os.environ))
    try:
        cluster.kubeconfig_for("jane")
        assert former.exists()
    finally:
        process.kill()
    cluster.kubeconfig_for("jane")
    assert not former.exists()


def test_a_damaged_record_does_not_cost_the_data(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("")
    with pytest.raises(BrokenData) as broken:
        ClusterFolder(tmp_path).check()
    assert "--keep-data" in broken.value.fix
    assert str(tmp_path / "cluster.json") in broken.value.fix


def test_a_private_file_is_replaced_only_for_another_content_or_mode(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_private(file, b"old")
    first = file.stat().st_ino
    write_private(file, b"old")
    assert file.stat().st_ino == first
    file.chmod(0o644)
    write_private(file, b"old")
    assert file.stat().st_mode & 0o777 == 0o600
    write_private(file, b"new")
    assert file.read_bytes() == b"new"
