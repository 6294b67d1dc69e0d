"""CustomResourceDefinitions of others, from the Go modules in which their projects publish them.

For the local Kubernetes and for tests: the kinds of Istio, cert-manager, Gardener and the Prometheus operator then are
what users have, with the real schemas, although none of these projects runs here. A module is downloaded once and
checked against the sum that is written here; only the definitions are kept, in the cache folder, as JSON and without
descriptions, which make up most of their size and which the API server does not act on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from stellwerk.kube.types.model import JsonObject, JsonValue, decode_json
from stellwerk.local.build import toolchain
from stellwerk.local.build.toolchain import Say
from stellwerk.local.errors import BuildFailed
from stellwerk.render.binary import cache_folder

_FORMAT = "1"
"""Of what is kept; another one makes a new folder."""
_NEEDED_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionModule:
    """One version of a Go module, and where the definitions are in it."""

    path: str
    version: str
    sum: str
    """As `go.sum` has it."""
    files: Mapping[str, str]
    """The file of each definition, by the definition's name."""


ISTIO = "kubernetes/customresourcedefinitions.gen.yaml"
MODULES = (
    DefinitionModule(
        path="istio.io/api",
        version="v1.31.4",
        sum="h1:AcnncYrlDj1PJkym7h88Gggkef4MAra8QpGaXRMsr+E=",
        files={
            "gateways.networking.istio.io": ISTIO,
            "virtualservices.networking.istio.io": ISTIO,
            "destinationrules.networking.istio.io": ISTIO,
        },
    ),
    DefinitionModule(
        path="github.com/cert-manager/cert-manager",
        version="v1.21.2",
        sum="h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        files={
            "certificates.cert-manager.io": "deploy/crds/cert-manager.io_certificates.yaml",
            "issuers.cert-manager.io": "deploy/crds/cert-manager.io_issuers.yaml",
        },
    ),
    DefinitionModule(
        path="github.com/gardener/cert-management",
        version="v0.18.0",
        sum="h1:s2YhkN8z7lXe9En52GCeqQ9be10uEbLtH/FFAh6BVgQ=",
        files={
            "certificates.cert.gardener.cloud": ("pkg/certman2/apis/cert/crd-cert.gardener.cloud_certificates.yaml"),
            "dnsentries.dns.gardener.cloud": "examples/11-dns.gardener.cloud_dnsentries.yaml",
        },
    ),
    DefinitionModule(
        path="github.com/prometheus-operator/prometheus-operator",
        version="v0.85.0",
        sum="h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        files={
            "servicemonitors.monitoring.coreos.com": (
                "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
            ),
        },
    ),
)


def definitions(names: Iterable[str], say: Say = lambda text: None) -> list[JsonObject]:
    """The CustomResourceDefinitions with these names, such as `gateways.networking.istio.io`.

    Downloads what is not in the cache folder yet. Raises KeyError for a name that no module has, BuildFailed,
    ToolchainMissing or NoSpace.
    """
    modules = {name: module for module in MODULES for name in module.files}
    return [decode_json((_folder(modules[name], say) / f"{name}.json").read_bytes()) for name in names]


def _folder(module: DefinitionModule, say: Say) -> Path:
    """The folder with the definitions of a module, filled if need be."""
    folder = cache_folder() / f"definitions-{_digest(module)}"
    if not folder.is_dir():
        with toolchain.only_builder(say, folder.is_dir, _NEEDED_BYTES):
            if not folder.is_dir():
                _fill(module, folder, say)
    return folder


def _fill(module: DefinitionModule, target: Path, say: Say) -> None:
    with (
        toolchain.needs_space(target.parent),
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".getting-") as name,
    ):
        new = Path(name) / "complete"
        new.mkdir()
        source = _downloaded(module, Path(name), say)
        for file in sorted(set(module.files.values())):
            for body in _documents(source / file):
                metadata = body.get("metadata")
                found = metadata.get("name") if isinstance(metadata, dict) else None
                if isinstance(found, str) and module.files.get(found) == file:
                    (new / f"{found}.json").write_text(json.dumps(without_descriptions(body)))
        missing = sorted(name for name in module.files if not (new / f"{name}.json").is_file())
        if missing:
            raise BuildFailed(
                f"cannot get {', '.join(missing)}",
                cause=f"{module.path} {module.version} does not contain it in {module.files[missing[0]]}",
                fix="correct its entry in stellwerk/local/build/published_definitions.py",
            )
        shutil.rmtree(target, ignore_errors=True)
        new.rename(target)


def _downloaded(module: DefinitionModule, folder: Path, say: Say) -> Path:
    """The folder of the module's content. Raises BuildFailed where it is not the one that is meant."""
    what = f"{module.path} {module.version}"
    say(f"downloading {what}")
    command = [toolchain.find_go(say), "mod", "download", "-json", f"{module.path}@{module.version}"]
    answer = decode_json(toolchain.run(command, folder, f"cannot download {what}").encode())
    if answer.get("Sum") != module.sum:
        raise BuildFailed(
            f"cannot use {what}",
            cause=f"its sum is {answer.get('Sum')}, not {module.sum}",
            fix="check GOPROXY: the module is not the one that was published",
        )
    return Path(str(answer["Dir"]))


def _documents(file: Path) -> Iterator[JsonObject]:
    for document in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
        if isinstance(document, dict):
            yield document


def without_descriptions(value: JsonObject) -> JsonObject:
    """A definition without the texts that only people read."""
    found = _without_descriptions(value, is_schema=True)
    assert isinstance(found, dict)
    return found


def _without_descriptions(value: JsonValue, *, is_schema: bool) -> JsonValue:
    """`is_schema`: the keys of a mapping are words of the schema, not names of properties."""
    if isinstance(value, list):
        return [_without_descriptions(item, is_schema=True) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_descriptions(item, is_schema=not (is_schema and key == "properties"))
        for key, item in value.items()
        if not (is_schema and key == "description" and isinstance(item, str))
    }


def _digest(module: DefinitionModule) -> str:
    text = json.dumps([_FORMAT, module.path, module.version, module.sum, sorted(module.files.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
