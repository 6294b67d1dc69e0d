"""Layers and configuration as an image: an OCI layout (a folder), and the same as an archive.

Both are as the OCI image specification 1.1 defines them. The archive also has the `manifest.json` that `docker load`
reads, as the archives of Docker itself have it, so every tool can load it. All JSON is written with sorted keys and
without spaces, and the archive as `layer` writes archives: the digest depends on the content alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.image.config import Release, process
from deploy.image.layer import MODIFIED, Layer

from stellwerk.local.errors import BuildFailed

ARCHITECTURE, SYSTEM = "amd64", "linux"
_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A reference to a blob, as the specification defines it. `digest` is `sha256:` and 64 hexadecimal digits."""

    media_type: str
    digest: str
    size: int

    def body(self, **more: object) -> dict[str, object]:
        """As JSON."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **more}


def write(folder: Path, layers: Sequence[Layer], release: Release) -> Descriptor:
    """Write a layout of one image into a folder, which is emptied first. Returns the descriptor of the image.

    The files of the layers are moved into the layout.
    """
    shutil.rmtree(folder, ignore_errors=True)
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for layer in layers:
        shutil.move(layer.file, blobs / layer.digest.removeprefix("sha256:"))
    config = _blob(blobs, f"{_TYPE}.config.v1+json", _config(layers, release))
    stored = [Descriptor(f"{_TYPE}.layer.v1.tar+gzip", layer.digest, layer.size) for layer in layers]
    manifest = _blob(
        blobs,
        f"{_TYPE}.manifest.v1+json",
        {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": config.body(),
            "layers": [each.body() for each in stored],
            "annotations": release.labels,
        },
    )
    name = {
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": f"docker.io/library/{tag(release)}",  # which containerd and kind import it as
    }
    platform = {"architecture": ARCHITECTURE, "os": SYSTEM}
    index = [manifest.body(annotations=name, platform=platform)]
    _write_json(folder / "index.json", {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": index})
    _write_json(folder / "oci-layout", {"imageLayoutVersion": "1.0.0"})
    return manifest


def tag(release: Release) -> str:
    """The name under which engines load the archive."""
    return f"{release.name}:{release.version}"


def archive(folder: Path, file: Path, release: Release) -> None:
    """Write a layout as one file."""
    manifest = read_manifest(folder)
    legacy = [
        {
            "Config": _path(manifest["config"]),
            "RepoTags": [tag(release)],
            "Layers": [_path(layer) for layer in _list(manifest["layers"])],
        }
    ]
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as target:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            with path.open("rb") as content:
                target.addfile(_member(path.relative_to(folder).as_posix(), path.stat().st_size), content)
        body = _json(legacy)
        target.addfile(_member("manifest.json", len(body)), io.BytesIO(body))


def read_manifest(folder: Path) -> dict[str, object]:
    """The manifest of the image of a layout. Raises BuildFailed if it has none, or not exactly one."""
    try:
        index = json.loads((folder / "index.json").read_bytes())
        (descriptor,) = index["manifests"]
        manifest: dict[str, object] = json.loads((folder / _path(descriptor)).read_bytes())
    except (OSError, ValueError, KeyError) as error:
        cause = f"it is no layout of one image: {error}"
        raise BuildFailed(f"cannot read {folder}", cause=cause, fix="build it: make image") from error
    return manifest


def read_config(folder: Path) -> dict[str, object]:
    """The configuration of the image of a layout. Raises BuildFailed."""
    config: dict[str, object] = json.loads((folder / _path(read_manifest(folder)["config"])).read_bytes())
    return config


def unpack(layout: Path, folder: Path) -> None:
    """Write the root file system of an image to a folder. Only root can give the files their owners."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # the root of the image, which no layer has
    for layer in _list(read_manifest(layout)["layers"]):
        with tarfile.open(layout / _path(layer)) as archive:
            archive.extractall(folder, numeric_owner=True, filter="fully_trusted")  # noqa: S202 - the layers are ours


def _config(layers: Sequence[Layer], release: Release) -> Mapping[str, object]:
    return {
        "architecture": ARCHITECTURE,
        "os": SYSTEM,
        "created": release.timestamp,
        "config": process(release),
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": release.timestamp, "created_by": layer.comment} for layer in layers],
    }


def _blob(blobs: Path, media_type: str, body: object) -> Descriptor:
    content = _json(body)
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return Descriptor(media_type, f"sha256:{digest}", len(content))


def _path(descriptor: object) -> str:
    assert isinstance(descriptor, dict), "a descriptor is an object"
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _list(value: object) -> list[object]:
    assert isinstance(value, list), "the specification defines a list"
    return value


def _json(body: object) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _write_json(file: Path, body: object) -> None:
    file.write_bytes(_json(body))


def _member(path: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode, member.mtime = size, 0o644, MODIFIED
    return member
