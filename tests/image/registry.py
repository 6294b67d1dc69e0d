"""A real registry (`distribution`) and a real client (`crane`), built from their Go modules as the control plane is."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from stellwerk.local.build import toolchain
from stellwerk.local.build.toolchain import GoProgram
from stellwerk.local.host.ports import HOST, free_port
from stellwerk.render.binary import cache_folder
from stellwerk.testing.eventually import eventually

SOURCE = Path(__file__).parents[2] / "native" / "registry"
_FLAGS = "-s -w"
REGISTRY = GoProgram("registry", "github.com/distribution/distribution/v3/cmd/registry", _FLAGS, "about 3 minutes")
CRANE = GoProgram("crane", "github.com/google/go-containerregistry/cmd/crane", _FLAGS, "about 30 s")
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry that runs. `address` is its host and port."""

    address: str
    programs: Path

    def crane(self, *arguments: str) -> str:
        """What the client prints; it must succeed."""
        done = subprocess.run(
            [self.programs / CRANE.name, "--insecure", *arguments], capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def programs() -> Path:
    """The folder with both programs, built if need be. Raises BuildFailed."""
    digest = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()[:16]
    folder = cache_folder() / f"registry-{digest}"
    with toolchain.only_builder(_tell, folder.is_dir):
        if not folder.is_dir():
            go = toolchain.find_go(_tell)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as name:
                new = Path(name) / "complete"
                new.mkdir()
                for program in (REGISTRY, CRANE):
                    toolchain.compile_program(go, SOURCE, program, new / program.name, _tell)
                new.rename(folder)
    return folder


@contextmanager
def running(folder: Path) -> Iterator[Registry]:
    """A registry on loopback for the time of the block; `folder` takes what is pushed to it."""
    address = f"{HOST}:{free_port()}"
    settings = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": address},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))
    built = programs()
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [built / REGISTRY.name, "serve", str(folder / "config.yaml")], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _wait_until_served(address, process)
        yield Registry(address, built)
    finally:
        process.terminate()
        process.wait()


def _wait_until_served(address: str, process: subprocess.Popen[bytes]) -> None:
    direct = build_opener(ProxyHandler({}))

    async def served() -> bool:
        assert process.poll() is None, f"the registry ended with {process.returncode}"
        try:
            with direct.open(f"http://{address}/v2/", timeout=1):
                return True
        except OSError:
            return False

    asyncio.run(eventually(served, within=_START_SECONDS, describe=f"the registry answers at {address}"))


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
