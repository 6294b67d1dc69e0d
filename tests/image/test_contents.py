"""What is in the image, and what is not."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from deploy.image import config, layout
from deploy.image.elf import is_elf
from tests.image.conftest import BuiltImage
from tests.image.container import PROFILE, Container, Runtime, run

MOST_BYTES = 160_000_000


def test_the_image_is_small(root: Path) -> None:
    assert sum(path.lstat().st_size for path in _files(root)) <= MOST_BYTES


def test_there_is_no_shell_and_no_program_but_python(root: Path) -> None:
    programs = {path.name for folder in ("usr/bin", "usr/sbin", "usr/local/bin") for path in (root / folder).glob("*")}
    assert programs == {"python3", "python3.13", "stellwerk"}


def test_every_file_belongs_to_root_and_nobody_else_can_write_it(root: Path) -> None:
    assert [
        str(path)
        for path in root.rglob("*")
        if (path.lstat().st_uid, path.lstat().st_gid) != (0, 0) and path != root / "home/nonroot"
    ] == []
    assert [str(path) for path in _files(root) if not path.is_symlink() and path.stat().st_mode & 0o6022] == []


def test_no_link_is_broken(root: Path) -> None:
    assert [str(path) for path in root.rglob("*") if path.is_symlink() and not _target(root, path).exists()] == []


def test_all_bytecode_is_in_the_image(root: Path) -> None:
    modules = root / "usr/local/lib/python3.13/dist-packages/stellwerk"
    sources = set(modules.rglob("*.py"))
    assert sources, "our modules have their sources"
    assert not {
        path for path in sources if not (path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc").is_file()
    }
    assert not [path for path in root.rglob("*.py") if path not in sources]


def test_every_library_that_a_program_needs_is_in_the_image(root: Path, runtime: Runtime, tmp_path: Path) -> None:
    """The loader of the image is asked, for each program and extension module."""
    inside = ["/" + path.relative_to(root).as_posix() for path in _files(root) if _is_dynamic(path)]
    assert len(inside) > 80
    script = (
        "import subprocess, sys\n"
        "for path in sys.argv[1:]:\n"
        "    listed = subprocess.run(['/lib64/ld-linux-x86-64.so.2', '--list', path], capture_output=True, text=True)\n"
        "    missing = [line for line in listed.stdout.splitlines() if 'not found' in line]\n"
        "    if missing or listed.returncode: print(path, missing, listed.stderr)\n"
    )
    done = _python(runtime, tmp_path, script, *inside)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_every_extension_module_can_be_imported(root: Path, runtime: Runtime, tmp_path: Path) -> None:
    """An extension without its debugging information still works, and so do those of the standard library."""
    names = []
    for folder in ("usr/lib/python3.13/lib-dynload", "usr/local/lib/python3.13/dist-packages"):
        for path in (root / folder).rglob("*.so"):
            module = path.relative_to(root / folder)
            names.append(".".join([*module.parts[:-1], module.name.partition(".")[0]]))
    assert "uvloop.loop" in names
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = _python(runtime, tmp_path, script, *names)
    assert done.returncode == 0, done.stderr


def test_public_servers_can_be_trusted(runtime: Runtime, tmp_path: Path) -> None:
    script = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'])"
    done = _python(runtime, tmp_path, script)
    assert int(done.stdout) > 100, done.stderr


def test_the_program_runs_as_its_user_on_a_root_that_it_cannot_write(runtime: Runtime, tmp_path: Path) -> None:
    script = (
        "import os\n"
        "print(os.getuid(), os.getgid(), os.getgroups())\n"
        "for folder in ('/', '/usr', '/etc', '/usr/local/lib', '/var'):\n"
        "    try: open(folder + '/written', 'w')\n"
        "    except OSError as error: print(error.strerror)\n"
        "    else: print('written')\n"
    )
    done = _python(runtime, tmp_path, script)
    user, *errors = done.stdout.splitlines()
    assert user in ("65532 65532 []", "65532 65532 [65532]")
    refusal = "Permission denied" if runtime.name == "chroot" else "Read-only file system"
    assert errors == [refusal] * 5, done.stderr


def test_the_program_runs_under_the_filter_of_pods(runtime: Runtime, tmp_path: Path) -> None:
    if runtime.name == "chroot" or not PROFILE.exists():
        pytest.skip(
            f"{runtime.name} has no filter of system calls here: apt install runc golang-github-containers-common"
        )
    script = "print(open('/proc/self/status').read())"
    done = _python(runtime, tmp_path, script)
    assert {"Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000"} <= set(done.stdout.splitlines()), done.stderr


def test_a_user_that_the_platform_chooses_can_run_the_program(runtime: Runtime, tmp_path: Path) -> None:
    """OpenShift, for example, gives each namespace a range of its own. The program looks for a kubeconfig at home."""
    arguments = ["stellwerk", "get", "components"]
    done = run(
        runtime, Container(arguments=arguments, environment=config.ENVIRONMENT, user=1000690000), tmp_path / "container"
    )
    assert "~/.kube/config does not exist" in done.stderr, done.stderr


def test_the_configuration_names_user_program_and_labels(image: BuiltImage) -> None:
    stored = layout.read_config(image.layout)
    process = stored["config"]
    assert isinstance(process, dict)
    assert (stored["os"], stored["architecture"]) == ("linux", "amd64")
    assert (process["User"], process["Entrypoint"]) == ("65532:65532", ["stellwerk"])
    labels = process["Labels"]
    names = {"title", "description", "version", "created", "licenses", "revision"}
    assert {f"org.opencontainers.image.{name}" for name in names} <= labels.keys()
    assert layout.read_manifest(image.layout)["annotations"] == labels


def test_the_layers_are_what_the_configuration_promises(image: BuiltImage) -> None:
    """Each blob has its digest as its name; that of the uncompressed layer is in the configuration."""
    for blob in (image.layout / "blobs/sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    assert len(list((image.layout / "blobs/sha256").iterdir())) == 5


def test_the_archive_has_the_layout_and_what_docker_reads(image: BuiltImage) -> None:
    with tarfile.open(image.archive) as archive:
        names = set(archive.getnames())
        index = archive.extractfile("manifest.json")
        assert index is not None
        (described,) = json.load(index)
    assert {"oci-layout", "index.json", described["Config"], *described["Layers"]} <= names
    assert described["RepoTags"] == [f"stellwerk:{config.of_checkout().version}"]
    (image_in_index,) = json.loads((image.layout / "index.json").read_bytes())["manifests"]
    name = image_in_index["annotations"]["io.containerd.image.name"]
    assert name == f"docker.io/library/{described['RepoTags'][0]}"


def test_the_bill_of_materials_has_every_package_in_the_image(image: BuiltImage, root: Path) -> None:
    bill = json.loads(image.bill.read_text())
    listed = {unquote(part["purl"].partition("?")[0]) for part in bill["components"] if "purl" in part}
    debian = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert {purl.split("/")[2].partition("@")[0] for purl in listed if purl.startswith("pkg:deb/")} == debian
    distributions = (root / "usr/local/lib/python3.13/dist-packages").glob("*.dist-info")
    python = {purl.removeprefix("pkg:pypi/").replace("-", "_") for purl in listed if purl.startswith("pkg:pypi/")}
    assert {path.stem.lower().replace("-", "@") for path in distributions} == python
    golang = {purl for purl in listed if purl.startswith("pkg:golang/")}
    assert any(purl.startswith("pkg:golang/helm.sh/helm/v4@v4.") for purl in golang)
    assert any(purl.startswith("pkg:golang/stdlib@1.") for purl in golang)
    digest = json.loads((image.layout / "index.json").read_text())["manifests"][0]["digest"]
    assert bill["metadata"]["component"]["purl"].startswith(f"pkg:oci/stellwerk@{digest}")


def _python(runtime: Runtime, folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    container = Container(arguments=["python3", "-c", script, *arguments], environment=config.ENVIRONMENT)
    return run(runtime, container, folder / "container")


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_symlink() or path.is_file())


def _target(root: Path, link: Path) -> Path:
    """Where a link leads inside of the image."""
    target = os.readlink(link)
    return root / target.lstrip("/") if target.startswith("/") else link.parent / target


def _is_dynamic(path: Path) -> bool:
    """Whether the loader is needed for it: a program or a library, but not one that is linked statically."""
    if path.is_symlink() or not stat.S_ISREG(path.stat().st_mode) or path.name == "stellwerk-renderer":
        return False
    with path.open("rb") as file:
        return is_elf(file.read(16)) and not path.name.startswith("ld-linux")
