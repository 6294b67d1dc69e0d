"""How the image was made, as an in-toto statement with a SLSA provenance (version 1).

It names the commit and every lock by digest, and each Debian package by its own. Like the bill of materials it is a
function of the image, so another build of the same commit gives the same text; who built it is proved by the signature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from deploy.image import layout
from deploy.image.config import Release
from deploy.image.debian import Package
from deploy.image.python import ROOT
from packageurl import PackageURL

LOCKS = ("requirements.lock", "deploy/tools/uv.lock", "deploy/image/debian.lock", "native/renderer/go.sum")
"""What the image is made of, by hash. The Go toolchain is `deploy/tools/go.lock`, unless the machine has one."""
_STATEMENT, _PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
_BUILD_TYPE = "urn:stellwerk:make-image:v1"


def statement(release: Release, digest: str, system: Sequence[Package]) -> str:
    """The statement about the image with this digest, as JSON."""
    commit = {"uri": release.source or release.name, "digest": {"gitCommit": release.revision}}
    body = {
        "_type": _STATEMENT,
        "subject": [{"name": layout.tag(release), "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"source": release.source, "revision": release.revision},
                "internalParameters": {"platform": f"{layout.SYSTEM}/{layout.ARCHITECTURE}"},
                "resolvedDependencies": [
                    *([commit] if release.revision else []),
                    *({"uri": f"file:{name}", "digest": {"sha256": _digest(name)}} for name in LOCKS),
                    *({"uri": _uri(package), "digest": {"sha256": package.sha256}} for package in system),
                ],
            },
            "runDetails": {"builder": {"id": _BUILD_TYPE}, "metadata": {"finishedOn": release.timestamp}},
        },
    }
    return json.dumps(body, indent=2) + "\n"


def predicate(text: str) -> str:
    """The part of a statement that cosign signs: it makes the rest again, for the image that it is given."""
    return json.dumps(json.loads(text)["predicate"])


def subject(text: str) -> str:
    """The digest of the image that a statement is about, as `sha256:` and 64 digits."""
    return f"sha256:{json.loads(text)['subject'][0]['digest']['sha256']}"


def _uri(package: Package) -> str:
    name, qualifiers = package.purl
    return PackageURL("deb", "debian", name, package.version, qualifiers).to_string()


def _digest(name: str) -> str:
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
