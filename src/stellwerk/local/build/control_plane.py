"""The binaries of the control plane: found in the cache, or built from Go modules.

No package registry ships an API server, but its source is a Go module like any other, so a small program of ours
(`native/localkube`) depends on it and is built here (see `toolchain` for how).
The pod runner's own stage files come out of its module at build time, with their licence next to them.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from stellwerk.local.build import toolchain
from stellwerk.local.build.toolchain import GoProgram
from stellwerk.local.build.toolchain import Say as Say
from stellwerk.local.errors import BuildFailed, WrongBinary
from stellwerk.local.stages import FATE
from stellwerk.render.binary import cache_folder as cache_folder

KUBERNETES_VERSION = "v1.36.3"
_VERSION_PACKAGE = "k8s.io/component-base/version"
_POD_RUNNER = "sigs.k8s.io/kwok"
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A complete cache folder."""

    folder: Path

    @property
    def control_plane(self) -> Path:
        """The program that is etcd, API server, controller manager and scheduler."""
        return self.folder / "localkube"

    @property
    def pod_runner(self) -> Path:
        """The program that plays nodes and pods."""
        return self.folder / "kwok"

    @property
    def stages(self) -> list[Path]:
        """The pod runner's own rules of how nodes and pods live."""
        return sorted((self.folder / "stages").glob("*.yaml"))

    @property
    def is_complete(self) -> bool:
        """Whether all files are there."""
        return self.control_plane.is_file() and self.pod_runner.is_file() and len(self.stages) == len(_STAGES)


def find() -> Binaries | None:
    """The binaries, if they are built already."""
    found = Binaries(cache_folder() / f"localkube-{_digest()}")
    return found if found.is_complete else None


def ensure(say: Say = lambda text: None) -> Binaries:
    """The binaries, built if need be. Raises BuildFailed, ToolchainMissing or NoSpace."""
    found = find()
    if not found:
        with toolchain.only_builder(say, lambda: find() is not None):
            found = find() or _build(say)
    toolchain.touch(found.folder)
    return found


def check_version(reported: str, binaries: Binaries) -> None:
    """Raise WrongBinary unless the API server is the Kubernetes that was built."""
    if reported != KUBERNETES_VERSION:
        raise WrongBinary(
            f"the API server is Kubernetes {reported or 'of an unknown version'}, not {KUBERNETES_VERSION}",
            cause=f"{binaries.control_plane} is not the program that was built there",
            folder=binaries.folder,
        )


def _build(say: Say) -> Binaries:
    source = _source_folder()
    go = toolchain.find_go(say)
    cache = cache_folder()
    control_plane = GoProgram("localkube", ".", _linker_flags(), "about 5 minutes")
    pod_runner = GoProgram("kwok", f"{_POD_RUNNER}/cmd/kwok", _linker_flags(), "about 20 s")
    with toolchain.needs_space(cache), toolchain.build_folder(cache) as new:
        (new / "stages").mkdir()
        for program in (control_plane, pod_runner):
            toolchain.compile_program(go, source, program, new / program.name, say)
        _copy_stages(_module_folder(go, source, _POD_RUNNER), new / "stages")
        built = Binaries(cache / f"localkube-{_digest()}")
        shutil.rmtree(built.folder, ignore_errors=True)
        new.rename(built.folder)
    toolchain.remove_unused(cache.glob("localkube-*"), time.time())
    return built


def _copy_stages(module: Path, target: Path) -> None:
    """Take the pod runner's stages, each made to leave pods alone that carry a fate of ours (see `stages/`)."""
    shutil.copy(module / "LICENSE", target / "LICENSE")
    for stage in _STAGES:
        file = module / "kustomize/stage" / f"{stage}.yaml"
        document = yaml.safe_load(file.read_text())
        if stage.startswith("pod/") and not stage.endswith("delete"):
            document["spec"]["selector"]["matchExpressions"].append({"key": FATE, "operator": "DoesNotExist"})
        (target / file.name).write_text(yaml.safe_dump(document))


def _module_folder(go: str, source: Path, module: str) -> Path:
    listing = toolchain.run([go, "list", "-m", "-f", "{{.Dir}}", module], source, f"cannot find {module}")
    return Path(listing.strip())


def _source_folder() -> Path:
    folder = Path(__file__).parents[4] / "native" / "localkube"
    if (folder / "go.sum").is_file():
        return folder
    raise BuildFailed(
        "cannot build the local control plane",
        cause=f"its source is not at {folder}; an installed package does not carry it",
        fix="run from a checkout of the project",
    )


def _linker_flags() -> str:
    # Without these the server reports v0.0.0-master and kubectl refuses to compare versions.
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    facts = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in facts.items())])


def _digest() -> str:
    source = _source_folder()
    everything = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        everything.update((source / name).read_bytes())
    everything.update(f"{_linker_flags()} {platform.system()} {platform.machine()} {_STAGES} {FATE} 2".encode())
    return everything.hexdigest()[:16]
