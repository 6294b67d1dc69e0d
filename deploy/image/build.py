"""Builds the image: from the lists and the checkout to a layout, an archive, a bill of materials and a provenance."""

from __future__ import annotations

import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from deploy.image import config, contents, layer, layout, provenance, sbom
from deploy.image.python import OWN, ROOT

from stellwerk.local.build.toolchain import Say
from stellwerk.local.errors import BuildFailed
from stellwerk.render.binary import PROGRAM

OUTPUT = ROOT / "build" / "image"
LAYOUT, BILL, PROVENANCE = "oci", "stellwerk.cdx.json", "stellwerk.intoto.json"
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Image:
    """A built image. `unpacked_size` and `size` are those of all layers in bytes, the latter compressed."""

    folder: Path
    archive: Path
    digest: str
    size: int
    unpacked_size: int

    def summary(self) -> str:
        """Where everything is, for people."""
        return (
            f"{self.digest}\n"
            f"  layout   {self.folder / LAYOUT}\n"
            f"  archive  {self.archive}\n"
            f"  SBOM     {self.folder / BILL}\n"
            f"  built    {self.folder / PROVENANCE}\n"
            f"  size     {self.size / _MEGABYTE:.1f} MB compressed, {self.unpacked_size / _MEGABYTE:.1f} MB unpacked\n"
        )


def build(output: Path, say: Say) -> Image:
    """Build the image of this checkout into a folder; what an earlier build left there is replaced.

    Raises BuildFailed with what to do about it.
    """
    _check_machine()
    release = config.of_checkout()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix=".building-") as name:
        work = Path(name)
        made = contents.of_checkout(work, say)
        say("writing the layers")
        layers = [
            layer.write(tree, work / f"layer-{number}", comment) for number, (comment, tree) in enumerate(made.layers)
        ]
        modules = sbom.go_modules(work / "root" / OWN / "render" / "bin" / PROGRAM)
        manifest = layout.write(output / LAYOUT, layers, release)
    packages = sbom.python_packages(tree for _, tree in made.layers)
    (output / BILL).write_text(sbom.bill(release, manifest.digest, made.debian, packages, modules))
    (output / PROVENANCE).write_text(provenance.statement(release, manifest.digest, made.debian))
    archive = output / f"{release.name}-{release.version}-{layout.SYSTEM}-{layout.ARCHITECTURE}.tar"
    layout.archive(output / LAYOUT, archive, release)
    return Image(
        output, archive, manifest.digest, sum(each.size for each in layers), sum(each.unpacked_size for each in layers)
    )


def _check_machine() -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise BuildFailed(
            "cannot build the image",
            cause=f"this machine is {sys.platform} on {platform.machine()}, and the image is for linux on x86_64",
            fix="build with Docker: docker build --platform linux/amd64 -f deploy/image/Dockerfile -t stellwerk .",
        )
