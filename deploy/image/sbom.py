"""What is in the image, as a software bill of materials (CycloneDX 1.6, JSON).

Three kinds of parts: Debian packages from the lock, Python packages from their `*.dist-info`, and the Go modules that
the renderer is linked from, as the compiler recorded them in it. The bill is a function of the image: it has the time
of the image, and a serial number that is made from the digest.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from email.parser import Parser
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from deploy.image import debian
from deploy.image.config import Release
from deploy.image.debian import Package
from deploy.image.tree import File, Tree
from packageurl import PackageURL

from stellwerk.local.build import toolchain

_NAME = re.compile(r"^[A-Za-z0-9._-]+")
_SEPARATORS = re.compile(r"[-_.]+")


@dataclass(frozen=True, slots=True)
class PythonPackage:
    """A distribution. `needs` are the names of its requirements, of extras too."""

    name: str
    version: str
    licence: str
    needs: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class GoModule:
    """A module with its version; that of the standard library has no `v`."""

    path: str
    version: str


def python_packages(trees: Iterable[Tree]) -> list[PythonPackage]:
    """The distributions in the layers, sorted by name."""
    found = [
        _distribution(Parser().parsestr(node.content.decode()))
        for tree in trees
        for path, node in tree.items()
        if path.endswith(".dist-info/METADATA") and isinstance(node, File)
    ]
    return sorted(found, key=lambda package: package.name)


def go_modules(program: Path) -> list[GoModule]:
    """The modules that a Go program is linked from, with the standard library. Raises BuildFailed."""
    go = toolchain.find_go(lambda text: None)
    return modules(toolchain.run([go, "version", "-m", str(program)], program.parent, f"cannot read {program}"))


def modules(printed: str) -> list[GoModule]:
    """The modules that `go version -m` printed; of a replaced one, what replaces it."""
    lines = [line.split("\t") for line in printed.splitlines()]
    compiler = printed.partition("\n")[0].rpartition(": go")[2].split()[0]
    listed: list[GoModule] = []
    for line in lines[1:]:
        match line:
            case ["", "dep", path, version, *_]:
                listed.append(GoModule(path, version))
            case ["", "=>", path, version, *_]:
                listed[-1] = GoModule(path, version)
    return [GoModule("stdlib", compiler), *listed]


def bill(
    release: Release,
    digest: str,
    system: Sequence[Package],
    packages: Sequence[PythonPackage],
    linked: Sequence[GoModule],
) -> str:
    """The bill of one image with this digest."""
    hexadecimal = digest.removeprefix("sha256:")
    image = Component(
        type=ComponentType.CONTAINER,
        name=release.name,
        version=release.version,
        purl=PackageURL("oci", None, release.name, digest, {"arch": debian.ARCHITECTURE}),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hexadecimal)],
        bom_ref="image",
    )
    base = Component(
        type=ComponentType.OPERATING_SYSTEM, name="debian", version=str(debian.RELEASE_NUMBER), bom_ref="debian"
    )
    renderer = Component(
        type=ComponentType.APPLICATION, name=f"{release.name}-renderer", version=release.version, bom_ref="renderer"
    )
    of_debian = [_debian(package) for package in system]
    of_python = {package.name: _python(package, release) for package in packages}
    of_go = [_go(module) for module in linked]
    product = of_python[release.name]
    needs: dict[Component, Sequence[Component]] = {
        image: [base, product],
        base: of_debian,
        renderer: of_go,
        **{of_python[package.name]: _needed(package, of_python) for package in packages},
    }
    needs[product] = [*needs[product], renderer]
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest),
        metadata=BomMetaData(component=image, timestamp=release.created),
        components=[base, renderer, *of_debian, *of_python.values(), *of_go],
        dependencies=[
            Dependency(ref=part.bom_ref, dependencies=[Dependency(ref=other.bom_ref) for other in others])
            for part, others in needs.items()
        ],
    )
    return str(JsonV1Dot6(bom).output_as_string(indent=2)) + "\n"


def _distribution(metadata: Message) -> PythonPackage:
    needs = {_normal(found[0]) for text in metadata.get_all("Requires-Dist", []) if (found := _NAME.match(text))}
    licence = metadata.get("License-Expression") or metadata.get("License") or ""
    name = _normal(metadata["Name"])
    return PythonPackage(name, metadata["Version"], licence.partition("\n")[0].strip(), frozenset(needs))


def _normal(name: str) -> str:
    """The name as package indexes compare it (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def _needed(package: PythonPackage, components: Mapping[str, Component]) -> list[Component]:
    return [components[name] for name in sorted(package.needs) if name in components and name != package.name]


def _debian(package: Package) -> Component:
    name, qualifiers = package.purl
    return _library(
        PackageURL("deb", "debian", name, package.version, qualifiers),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=package.sha256)],
    )


def _python(package: PythonPackage, release: Release) -> Component:
    kind = ComponentType.APPLICATION if package.name == release.name else ComponentType.LIBRARY
    licences = [_licence(package.licence)] if package.licence else []
    return _library(PackageURL("pypi", None, package.name, package.version), kind=kind, licences=licences)


def _go(module: GoModule) -> Component:
    namespace, _, name = module.path.rpartition("/")
    return _library(PackageURL("golang", namespace or None, name, module.version))


def _licence(text: str) -> License:
    return LicenseFactory().make_from_string(text)


def _library(
    purl: PackageURL,
    *,
    kind: ComponentType = ComponentType.LIBRARY,
    hashes: Iterable[HashType] = (),
    licences: Iterable[License] = (),
) -> Component:
    return Component(
        type=kind,
        group=purl.namespace if purl.type == "golang" else None,
        name=purl.name,
        version=purl.version,
        purl=purl,
        hashes=hashes,
        licenses=licences,
        bom_ref=str(purl),
    )
