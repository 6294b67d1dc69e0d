"""Which API server, and as whom: kubeconfig files and the service account of a pod.

Reading is done once; what may change under our feet (a projected token, a renewed certificate) is kept as the path of a
file and read again by `auth` when it is used. The rules for finding and merging files are kubectl's: an explicit file,
else the list in $KUBECONFIG of which the first to name something wins, else ~/.kube/config.

A kubeconfig from a foreign hand (`from_kubeconfig_text`) can make its reader run programs and read files, so it is held
to inline data unless the caller says otherwise. A proxy of the environment is the choice of whoever runs us, and serves
both (see `proxies`).
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml

from stellwerk.kube import proxies
from stellwerk.kube.auth import (
    NO_MATERIAL,
    Anonymous,
    Credentials,
    LoginProgram,
    Material,
    Password,
    Program,
    Token,
    tls_context,
)
from stellwerk.kube.errors import LoginFailed

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MAX_BYTES = 1 << 20
_WORDS: Mapping[type, str] = {str: "text", bool: "true or false"}

V = TypeVar("V", str, bool)

try:
    _Loader: type = yaml.CSafeLoader
except AttributeError:  # PyYAML built without libyaml
    _Loader = yaml.SafeLoader


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """One API server and a login for it."""

    server: str
    authority: Material = NO_MATERIAL
    """The certificates that the server's own must descend from; empty: those of this machine."""
    client_certificate: Material = NO_MATERIAL
    client_key: Material = NO_MATERIAL
    credentials: Credentials = field(default_factory=Anonymous, repr=False)
    impersonate: tuple[str, tuple[str, ...]] | None = None
    """The user and the groups to act as."""
    namespace: str = ""
    """Where to look when nothing else is said; empty where the kubeconfig names none."""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy: str = field(default="", repr=False)
    """The URL of a proxy on the way, which may hold a password; empty: none."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """How to know the server and be known, read anew at each call; None for http. Raises LoginFailed."""
        if self.server.startswith("http://"):
            return None
        return tls_context(
            self.authority, self.client_certificate, self.client_key, verify=not self.insecure_skip_tls_verify
        )

    @classmethod
    def load(cls, kubeconfig: Path | None = None, context: str | None = None) -> ClusterConfig:
        """Read a kubeconfig: `kubeconfig`, else $KUBECONFIG, else ~/.kube/config. Raises LoginFailed."""
        paths = [kubeconfig] if kubeconfig else _default_paths()
        documents = [_Document(_read_file(path), path.parent) for path in paths if path.is_file() or kubeconfig]
        if not documents:
            looked = ", ".join(str(path) for path in paths)
            raise LoginFailed(f"there is no kubeconfig: looked for {looked}; name one with --kubeconfig or $KUBECONFIG")
        return _Merged(documents, str(paths[0])).config(context)

    @classmethod
    def in_cluster(cls, folder: Path = SERVICE_ACCOUNT) -> ClusterConfig:
        """The service account of the pod we run in. Raises LoginFailed outside of one."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (folder / "token").is_file():
            raise LoginFailed(
                "this is not a pod with a service account: KUBERNETES_SERVICE_HOST or the token file is absent"
            )
        namespace = folder / "namespace"
        server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        return cls(
            server=server,
            proxy=_proxy(server),
            authority=Material(file=folder / "ca.crt"),
            credentials=Token(Material(file=folder / "token")),
            namespace=namespace.read_text().strip() if namespace.is_file() else "",
        )

    @classmethod
    def from_kubeconfig_text(cls, text: str, *, allow_exec: bool = False, context: str | None = None) -> ClusterConfig:
        """Read a kubeconfig that came as data, from a Secret for example. Raises LoginFailed.

        Only inline data is taken: whoever wrote the text must not choose programs that we run, files that we read, a
        proxy, or a server that is not verified. `allow_exec` admits the program alone.
        """
        document = _Document(_parse(text.encode(), "the kubeconfig"), None)
        merged = _Merged([document], "the kubeconfig")
        _refuse_foreign_means(merged, context, allow_exec)
        return merged.config(context)


def _refuse_foreign_means(merged: _Merged, context: str | None, allow_exec: bool) -> None:
    """Before anything is built of it: what is refused here is never opened, nor run."""
    cluster, user, _ = merged.parts(context)
    for found, what in (
        ("exec" in user.body and not allow_exec, "a login program (exec)"),
        ("auth-provider" in user.body, "auth-provider"),
        (any(user.text(key) for key in ("tokenFile", "client-certificate", "client-key")), "paths of files"),
        (bool(cluster.text("certificate-authority")), "paths of files"),
        (cluster.flag("insecure-skip-tls-verify"), "insecure-skip-tls-verify"),
        (bool(cluster.text("proxy-url")), "proxy-url"),
        (not cluster.server().startswith("https://"), "a server that is not https"),
    ):
        if found:
            raise LoginFailed(f"the kubeconfig uses {what}, which is refused here; use inline data only")


def _proxy(server: str, named: str = "") -> str:
    """The proxy that is named, else that of the environment. Raises LoginFailed; its URL may hold a password."""
    url = named or proxies.of_environment(server, os.environ)
    if url and not url.startswith(("http://", "https://")):
        place = "the kubeconfig" if named else "the environment"
        raise LoginFailed(f"{place} names a proxy that is not http:// or https://; no other can be used")
    return url


def usual_kubeconfig() -> Path:
    """~/.kube/config; a path that leads nowhere for a user without a home, as in many containers."""
    return Path(os.path.expanduser("~/.kube/config"))


def _default_paths() -> list[Path]:
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return listed or [usual_kubeconfig()]


def _read_file(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            return _parse(file.read(_MAX_BYTES + 1), str(path))
    except OSError as error:
        raise LoginFailed(f"cannot read the kubeconfig {path}: {error.strerror}") from error


def _parse(data: bytes, name: str) -> Mapping[str, object]:
    if len(data) > _MAX_BYTES:
        raise LoginFailed(f"{name} is larger than a mebibyte, so it is no kubeconfig")
    try:
        _refuse_aliases(data)
        content = yaml.load(data, _Loader)  # noqa: S506  # a safe loader in either build
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Only the place is told: PyYAML's text quotes the line, which may hold a token.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise LoginFailed(f"{name} is not valid YAML{where}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise LoginFailed(f"{name} is no kubeconfig: it holds a {type(content).__name__} where an object is expected")
    return content


def _refuse_aliases(data: bytes) -> None:
    """No kubeconfig needs YAML aliases, and a few lines of them can expand to gigabytes."""
    if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, _Loader)):
        raise ValueError("aliases")


@dataclass(frozen=True, slots=True)
class _Document:
    """One kubeconfig file. `folder` is what its relative paths count from; None where it has no place."""

    content: Mapping[str, object]
    folder: Path | None

    def named(self, section: str, inner: str, name: str) -> _Part | None:
        for entry in self.entries(section):
            if entry.get("name") == name:
                body = entry.get(inner)
                return _Part(body if isinstance(body, dict) else {}, self.folder, f"{inner} {name!r}")
        return None

    def entries(self, section: str) -> list[Mapping[str, object]]:
        listed = self.content.get(section)
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


@dataclass(frozen=True, slots=True)
class _Merged:
    """Files in the order of their precedence: the first that names a thing defines it whole, as with kubectl."""

    documents: list[_Document]
    place: str

    def config(self, context: str | None) -> ClusterConfig:
        cluster, user, namespace = self.parts(context)
        acting = user.text("as")
        return ClusterConfig(
            server=cluster.server(),
            authority=cluster.material("certificate-authority"),
            client_certificate=user.material("client-certificate"),
            client_key=user.material("client-key"),
            credentials=user.credentials(cluster),
            impersonate=(acting, user.texts("as-groups")) if acting else None,
            namespace=namespace,
            tls_server_name=cluster.text("tls-server-name"),
            insecure_skip_tls_verify=cluster.flag("insecure-skip-tls-verify"),
            proxy=cluster.proxy(),
        )

    def parts(self, context: str | None) -> tuple[_Part, _Part, str]:
        """The cluster, the user and the namespace that a context joins."""
        name = context or self._current_context()
        if not name:
            raise LoginFailed(f"{self.place} names no current context; choose one with --context")
        chosen = self._find("contexts", "context", name)
        user = chosen.text("user")
        nobody = _Part({}, None, "user")
        cluster = self._find("clusters", "cluster", chosen.text("cluster"))
        return cluster, self._find("users", "user", user) if user else nobody, chosen.text("namespace")

    def _current_context(self) -> str:
        named = (document.content.get("current-context") for document in self.documents)
        return next((name for name in named if isinstance(name, str) and name), "")

    def _find(self, section: str, inner: str, name: str) -> _Part:
        for document in self.documents:
            if found := document.named(section, inner, name):
                return found
        known = ", ".join(sorted(self._names(section))) or "none"
        raise LoginFailed(f"{self.place} has no {inner} {name!r}; it has: {known}")

    def _names(self, section: str) -> set[str]:
        return {str(entry.get("name")) for document in self.documents for entry in document.entries(section)}


@dataclass(frozen=True, slots=True)
class _Part:
    """A cluster, user or context of a kubeconfig, read with care for its types."""

    body: Mapping[str, object]
    folder: Path | None
    name: str

    def text(self, key: str) -> str:
        return self._typed(key, str, "")

    def flag(self, key: str) -> bool:
        return self._typed(key, bool, False)

    def server(self) -> str:
        url = self.text("server").rstrip("/")
        if not url.startswith(("https://", "http://")):
            raise LoginFailed(f"{self.name} of the kubeconfig has no server URL with https:// or http://")
        return url

    def proxy(self) -> str:
        return _proxy(self.server(), self.text("proxy-url"))

    def material(self, key: str) -> Material:
        """Inline data wins over the file, as with kubectl."""
        if data := self.text(f"{key}-data"):
            try:
                return Material(base64.b64decode(data, validate=True))
            except binascii.Error:
                raise LoginFailed(f"{self.name} of the kubeconfig: {key}-data is not base64") from None
        return Material(file=self._path(path)) if (path := self.text(key)) else Material()

    def credentials(self, cluster: _Part) -> Credentials:
        """The token file wins over the inline token: it is the one that is renewed. Either wins over a program."""
        if self.body.get("auth-provider") is not None:
            raise LoginFailed(f"{self.name} of the kubeconfig uses auth-provider, which Kubernetes removed; use exec")
        if path := self.text("tokenFile"):
            return Token(Material(file=self._path(path)))
        if token := self.text("token"):
            return Token(Material(token.encode()))
        if username := self.text("username"):
            return Password(username, self.text("password"))
        section = self.body.get("exec")
        return LoginProgram(self._program(section, cluster)) if section is not None else Anonymous()

    def _program(self, section: object, cluster: _Part) -> Program:
        if not isinstance(section, dict) or not section.get("command"):
            raise LoginFailed(f"{self.name} of the kubeconfig: exec names no command")
        part = _Part(section, self.folder, f"exec of {self.name}")
        if part.text("interactiveMode") == "Always":
            raise LoginFailed(f"{part.name} wants to talk to a person (interactiveMode Always), which cannot be served")
        command = part.text("command")
        return Program(
            # A command with a slash is a path, and a relative one counts from the kubeconfig's folder.
            command=str(part._path(command)) if "/" in command else command,
            arguments=part.texts("args"),
            environment=part._environment(),
            api_version=part.text("apiVersion"),
            install_hint=part.text("installHint"),
            cluster=cluster._told() if part.flag("provideClusterInfo") else None,
        )

    def _told(self) -> Mapping[str, object]:
        """The cluster as a login program is told of it."""
        authority = base64.b64encode(self.material("certificate-authority").read()).decode()
        told = {"server": self.server(), "certificate-authority-data": authority}
        return {**told, "tls-server-name": self.text("tls-server-name")}

    def _environment(self) -> dict[str, str]:
        entries = self.body.get("env")
        pairs = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        return {str(pair.get("name", "")): str(pair.get("value", "")) for pair in pairs}

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.body.get(key)
        return tuple(str(value) for value in values) if isinstance(values, list) else ()

    def _path(self, text: str) -> Path:
        path = Path(text)
        return path if self.folder is None else self.folder / path

    def _typed(self, key: str, kind: type[V], default: V) -> V:
        value = self.body.get(key)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise LoginFailed(f"{self.name} of the kubeconfig: {key} must be {_WORDS[kind]}")
        return value
