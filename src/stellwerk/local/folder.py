"""The content of a cluster's folder, and how it gets there.

cluster.json      version and port                  kubeconfig       the administrator's
pki/              authority, server, token key      credentials/     kubeconfig and PEM per identity
data/             etcd                              log/ audit.log   logs and requests
run/              process ids, held by locks
"""

from __future__ import annotations

import json
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypedDict

from stellwerk.lazy_imports import lazy_imports
from stellwerk.local import components
from stellwerk.local.build import control_plane
from stellwerk.local.errors import BrokenData, NoSpace, RunsElsewhere, WrongVersion
from stellwerk.local.host import processes
from stellwerk.local.host.ports import HOST
from stellwerk.local.host.private_files import write_private
from stellwerk.local.host.processes import Process

with lazy_imports(__name__):  # `status` and `down` need neither, and the certificates take 75 ms
    from stellwerk.kube import yaml
    from stellwerk.local import certs

LOGS = "log"
"""The folder, in that of a cluster, with a log for each process."""
ADMINISTRATOR = "stellwerk:admin"
_ADMINISTRATORS = "system:masters"
CONTEXT = "local"
"""The context of the cluster in its kubeconfigs.

In the administrator's, another one may be current: tools write to the first file of KUBECONFIG, and make the cluster
current that they add.
"""
_FREE_BYTES = 300 * 1024**2


KubeconfigDocument = TypedDict(
    "KubeconfigDocument",
    {
        "apiVersion": str,
        "kind": str,
        "clusters": list[dict[str, object]],
        "users": list[dict[str, object]],
        "contexts": list[dict[str, object]],
        "current-context": str,
    },
)


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What a cluster remembers of itself: which Kubernetes wrote its data, and the API server's port (0: none yet)."""

    version: str
    port: int


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """The folder of one cluster, which may not exist yet."""

    path: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.path / "kubeconfig"

    @property
    def authority(self) -> Path:
        """The certificate that the API server's own is checked against."""
        return self.path / "pki" / "ca.crt"

    @property
    def identity(self) -> Path:
        """The administrator's certificate and key."""
        return self.path / "pki" / "admin.pem"

    def process(self, name: str) -> Process:
        """A process of the cluster by name."""
        return Process(name, self.path / "run", self.path / LOGS / f"{name}.log")

    def processes(self) -> list[Process]:
        """Every process that was started here and not stopped since."""
        return processes.recorded(self.path / "run", self.path / LOGS)

    def record(self) -> ClusterRecord | None:
        """What the last start wrote down; None before the first. Raises BrokenData."""
        file = self.path / "cluster.json"
        try:
            stored = json.loads(file.read_bytes())
            return ClusterRecord(str(stored["version"]), int(stored["port"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BrokenData(
                "the cluster's record cannot be read",
                cause=f"{file}: {error}",
                fix=f"run `stellwerk down --keep-data` and remove {file}: the next `stellwerk up` keeps the data",
            ) from error

    def check(self) -> None:
        """Raise WrongVersion, BrokenData or NoSpace where a start cannot succeed, or OSError. Changes nothing."""
        if record := self.record():
            _check_upgrade(record.version, self.path)
        if shutil.disk_usage(_existing(self.path)).free < _FREE_BYTES:
            raise self.no_space()

    def prepare(self, port: int) -> None:
        """Prepare the folder, which was checked, for a start on this port. Raises BrokenData or OSError."""
        for name in ("pki", "credentials", LOGS, "run"):
            (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        facts = {"version": control_plane.KUBERNETES_VERSION, "port": port}
        write_private(self.path / "cluster.json", json.dumps(facts).encode())
        write_private(self.path / "audit-policy.json", json.dumps(components.audit_policy()).encode())
        self._settle_credentials(port)

    def no_space(self) -> NoSpace:
        """The message when the disk is full."""
        return NoSpace(self.path, needs_bytes=_FREE_BYTES, variables="STELLWERK_STATE")

    def issue(self, user: str, groups: Sequence[str], port: int, namespace: str) -> Path:
        """A new kubeconfig for this user in these groups, in the place of an earlier one for both."""
        name = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in user)
        identity = sha256("\n".join([user, *groups]).encode()).hexdigest()[:8]
        target = self.path / "credentials" / f"{name}-{identity}.kubeconfig"
        credential = self._load_authority().client(user, groups)
        _write(target, self._kubeconfig(user, credential, port, namespace))
        self._remove_former(target.parent.glob(f"{name}-{'[0-9a-f]' * 8}.kubeconfig"), target, credential)
        return target

    def _remove_former(self, candidates: Iterable[Path], target: Path, credential: certs.Credential) -> None:
        """Remove the files of former releases, which wrote a new one at each start, unless a process was given it.

        Their names ended in random digits, so only the certificate shows that one is of the same user and groups.
        """
        former = [file for file in candidates if file != target and _has_name_of(file, credential)]
        if not former:
            return
        try:
            words = [word for process in self.processes() for word in process.arguments()]
        except RunsElsewhere:
            return
        for file in former:
            if not any(str(file) in word for word in words):
                file.unlink(missing_ok=True)

    def renew_serving_certificate(self) -> None:
        """Give the API server a new certificate and key."""
        self._write_server(self._load_authority())

    def _load_authority(self) -> certs.Authority:
        keys = self.authority.parent
        try:
            return certs.load_or_create_authority(keys)
        except (ValueError, TypeError) as error:
            raise BrokenData("the cluster's certificates cannot be read", cause=f"{keys}: {error}") from error

    def _settle_credentials(self, port: int) -> None:
        authority = self._load_authority()
        keys = self.authority.parent
        if not (keys / "service-accounts.key").exists():
            write_private(keys / "service-accounts.key", authority.new_signing_key())
        if not authority.vouches_for(keys / "server.crt"):
            self._write_server(authority)
        # Kubeconfigs have the port, which may have changed.
        admin = authority.kept_client(self.identity, ADMINISTRATOR, [_ADMINISTRATORS])
        document = self._kubeconfig(ADMINISTRATOR, admin, port)
        _merge(self.kubeconfig, document)
        for user, component in components.IDENTITIES.items():
            groups = [_ADMINISTRATORS] if component in components.ADMINISTRATORS else []
            target = self.path / "credentials" / component
            credential = authority.kept_client(target.with_suffix(".pem"), user, groups)
            _write(target.with_suffix(".kubeconfig"), self._kubeconfig(user, credential, port))

    def _write_server(self, authority: certs.Authority) -> None:
        credential = authority.server([HOST])
        write_private(self.path / "pki" / "server.key", credential.key)
        write_private(self.path / "pki" / "server.crt", credential.certificate)

    def _kubeconfig(
        self, user: str, credential: certs.Credential, port: int, namespace: str = "default"
    ) -> KubeconfigDocument:
        server = {
            "server": f"https://{HOST}:{port}",
            "certificate-authority-data": _base64(self.authority.read_bytes()),
        }
        secret = {
            "client-certificate-data": _base64(credential.certificate),
            "client-key-data": _base64(credential.key),
        }
        context = {"cluster": CONTEXT, "user": user, "namespace": namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": server}],
            "users": [{"name": user, "user": secret}],
            "contexts": [{"name": CONTEXT, "context": context}],
            "current-context": CONTEXT,
        }


def _write(file: Path, document: Mapping[str, object]) -> None:
    # JSON is YAML, and the standard library writes it.
    write_private(file, json.dumps(document, indent=1).encode())


def _merge(kubeconfig: Path, document: KubeconfigDocument) -> None:
    """Write the cluster, the user and the context of the administrator into a kubeconfig unless they are in it.

    Whatever else a user or a tool has added stays, and so do the current context and the namespace.
    """
    found = _read(kubeconfig)
    (cluster,), (user,), (context,) = document["clusters"], document["users"], document["contexts"]
    sections = {
        "clusters": _with(cluster, found.get("clusters")),
        "users": _with(user, found.get("users")),
        "contexts": _with(_kept_context(found.get("contexts")) or context, found.get("contexts")),
    }
    if any(found.get(section) != entries for section, entries in sections.items()):
        current = found.get("current-context") or CONTEXT
        _write(kubeconfig, {**document, **found, **sections, "current-context": current})


def _read(kubeconfig: Path) -> Mapping[str, object]:
    """What a kubeconfig contains; nothing where it cannot be read as one."""
    try:
        text = kubeconfig.read_bytes()
        content = json.loads(text) if text.startswith(b"{") else yaml.read_value(text)
    except (OSError, ValueError, yaml.UnreadableYaml):
        return {}
    return content if isinstance(content, dict) else {}


def _with(entry: Mapping[str, object], section: object) -> list[object]:
    """The entries of a section with this one, in the place of all that have its name."""
    entries: list[object] = section if isinstance(section, list) else []
    others = [other for other in entries if not (isinstance(other, dict) and other.get("name") == entry["name"])]
    return entries if entry in entries and len(others) == len(entries) - 1 else [*others, entry]


def _kept_context(section: object) -> Mapping[str, object] | None:
    """The context of the cluster, in which a user may have chosen a namespace; None where it has become another."""
    ours = {"cluster": CONTEXT, "user": ADMINISTRATOR}
    for entry in section if isinstance(section, list) else []:
        if isinstance(entry, dict) and entry.get("name") == CONTEXT:
            context = entry.get("context")
            if isinstance(context, dict) and ours.items() <= context.items():
                return entry
    return None


def _has_name_of(kubeconfig: Path, credential: certs.Credential) -> bool:
    """Whether a kubeconfig that was written here has the user and the groups of a credential."""
    try:
        (user,) = json.loads(kubeconfig.read_bytes())["users"]
        certificate = b64decode(user["user"]["client-certificate-data"])
        return certs.have_one_name(certificate, credential.certificate)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


def _check_upgrade(written_by: str, folder: Path) -> None:
    """Raise WrongVersion unless the data may be read: by the same minor version, or the next.

    Source of the rule: Kubernetes documentation, "Version Skew Policy".
    """
    old, new = _minor(written_by), _minor(control_plane.KUBERNETES_VERSION)
    if old is None or new is None or not 0 <= new - old <= 1:
        raise WrongVersion(
            f"Kubernetes {control_plane.KUBERNETES_VERSION} cannot use this cluster's data",
            cause=f"{folder} was written by Kubernetes {written_by}",
            written_by=written_by,
        )


def _minor(version: str) -> int | None:
    parts = version.removeprefix("v").split(".")
    return int(parts[1]) if len(parts) > 2 and parts[0] == "1" and parts[1].isdigit() else None


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)
