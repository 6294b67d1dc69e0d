"""The API server and the identity: kubeconfig files and the service account of a pod.

Reading is done once; what may change under our feet (a projected token, a renewed certificate) is kept as the path of a
file and read again by `auth` when it is used. The rules for finding and merging files are kubectl's: an explicit file,
else the list in $KUBECONFIG of which the first to name something wins, else ~/.kube/config.

A kubeconfig from a foreign hand (`from_kubeconfig_text`) can make its reader run programs and read files, so it is held
to inline data unless the caller permits more. A proxy of the environment is the choice of the process's user, and
serves both (see `proxy_settings`).
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

from stellwerk.kube import yaml
from stellwerk.kube.login import proxy_settings
from stellwerk.kube.login.auth import (
    NO_MATERIAL,
    Anonymous,
    CredentialProgram,
    Credentials,
    LoginProgram,
    Material,
    Password,
    Token,
    checked_inline,
    tls_context,
)
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.header_values import fits
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):  # for rare names: it takes a fifth of the time that a shell waits for a completion
    import yarl

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_OWN_LIMITS = yaml.YamlLimits(bytes=1 << 20, expansion=1, free_values=0)
_FOREIGN_LIMITS = yaml.YamlLimits(bytes=1 << 20, values=10_000, expansion=1, free_values=0)
"""Reading 10,000 values takes some 30 ms, so that the event loop can do it."""
_WORDS: Mapping[type, str] = {str: "text", bool: "true or false"}

V = TypeVar("V", str, bool)


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
    """The default namespace; empty where the kubeconfig names none."""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy: str = field(default="", repr=False)
    """The URL of a proxy on the way, which may hold a password; empty: none."""
    may_connect: Callable[[str], bool] | None = field(default=None, repr=False)
    """Whether an address that the server's name was resolved to may be connected to; None: any."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS settings of server and client, read again at each call; None for http. Raises LoginFailed."""
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
        """The service account of the pod we run in. Raises LoginFailed outside of one, or where it is unusable."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (folder / "token").is_file():
            raise LoginFailed(
                "this is not a pod with a service account: KUBERNETES_SERVICE_HOST or the token file is absent"
            )
        namespace = folder / "namespace"
        server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        if why := _unusable(server):
            raise LoginFailed(f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT name no API server: {why}")
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

        Only inline data is used: the author of the text must not choose programs that we run, files that we read, a
        proxy, or a server that is not verified. `allow_exec` admits the program alone. Certificates and keys are
        checked here: one that is unusable, or would take the event loop long to use, is refused.
        """
        document = _Document(_parse(text, "the kubeconfig", _FOREIGN_LIMITS), None)
        merged = _Merged([document], "the kubeconfig")
        _refuse_foreign_means(merged, context, allow_exec)
        config = merged.config(context)
        checked_inline(config.authority, config.client_certificate, config.client_key)
        return config


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
    url = named or proxy_settings.of_environment(server, os.environ)
    place = "the kubeconfig" if named else "the environment"
    if url and not url.startswith(("http://", "https://")):
        raise LoginFailed(f"{place} names a proxy that is not http:// or https://; no other can be used")
    if url and (why := _unusable(url, may_have_user=True)):
        raise LoginFailed(f"{place} names a proxy that cannot be used: {why}")
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
            return _parse(file.read(_OWN_LIMITS.bytes + 1), str(path), _OWN_LIMITS)
    except OSError as error:
        raise LoginFailed(f"cannot read the kubeconfig {path}: {error.strerror}") from error


def _parse(data: str | bytes, name: str, limits: yaml.YamlLimits) -> Mapping[str, object]:
    try:
        content = yaml.read_value(data, limits=limits)
    except yaml.UnreadableYaml as error:
        where = f" at line {error.line}" if error.line else ""
        # The cause is left out, because its trace may show what was read, which may be a token.
        raise LoginFailed(f"{name} is not valid YAML{where}: {error.why}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise LoginFailed(f"{name} is no kubeconfig: it holds a {type(content).__name__} where an object is expected")
    return content


_NAMES_PORT = re.compile(r":[^\]]*\Z")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LABELS = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE)
_LONGEST_HOST = 253
_LONGEST_URL = 2_048
_ASCII_HOST = re.compile(r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*(?::[0-9]+)?")
"""Names and IPv4 addresses that mean the same in every spelling rule of URLs, with their port."""
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\?#]")


def context_names(kubeconfig: Path | None = None) -> list[str]:
    """The contexts of the kubeconfig that `ClusterConfig.load` reads. Raises LoginFailed, OSError."""
    paths = [path for path in ([kubeconfig] if kubeconfig else _default_paths()) if path.is_file()]
    return sorted(_Merged([_Document(_read_file(path), path.parent) for path in paths], "")._names("contexts"))


def checked_server(url: str) -> str:
    """The URL of an API server as connections are made to it. Raises LoginFailed."""
    url = url.rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise LoginFailed("the server's URL does not begin with https:// or http://")
    if why := _unusable(url):
        raise LoginFailed(f"the server's URL cannot be used: {why}")
    return url


def _unusable(url: str, *, may_have_user: bool = False) -> str:
    """Why no connection can be made to the server or proxy of this URL; empty where one can."""
    if len(url) > _LONGEST_URL:
        return f"it is longer than {_LONGEST_URL} characters"
    if _NOT_IN_A_URL.search(url):
        return "it has a blank, a control character, a backslash, a query or a fragment"
    authority = url.partition("://")[2].partition("/")[0]
    _, has_user, authority = authority.rpartition("@")
    if has_user and not may_have_user:
        return "it has a user; name the user under users"
    port = authority.rpartition("]")[2].rpartition(":")[2] if _NAMES_PORT.search(authority) else "443"
    if not _PORT.fullmatch(port) or int(port) > 65_535:
        return "its port is not a number from 1 to 65535"
    return "" if is_host(_host(url, authority)) else "its host is neither a DNS name nor an IP address"


def _host(url: str, authority: str) -> str:
    """The host as connections are made to it; empty for none."""
    if _ASCII_HOST.fullmatch(authority):
        return authority.partition(":")[0]
    try:
        return yarl.URL(url).raw_host or ""
    except ValueError:  # UnicodeError, from names that IDNA cannot write, is one
        return ""


def is_host(text: str) -> bool:
    """Whether connections can be made to this name or address, and certificates can prove it."""
    if ":" in text:
        try:
            return ip_address(text).version == 6 and "%" not in text
        except ValueError:
            return False
    if len(text) > _LONGEST_HOST or not _LABELS.fullmatch(text):
        return False
    try:
        return bool(text.encode().decode("idna"))
    except UnicodeError:
        return False


@dataclass(frozen=True, slots=True)
class _Document:
    """One kubeconfig file. `folder` is what its relative paths count from; None where it has no place."""

    content: Mapping[str, object]
    folder: Path | None

    def named(self, section: str, inner: str, name: str) -> _Part | None:
        for entry in self.entries(section):
            if entry.get("name") == name:
                body = entry.get(inner)
                return _Part(body if isinstance(body, dict) else {}, self.folder, f"{inner} {_quoted(name)}")
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
        return ClusterConfig(
            server=cluster.server(),
            authority=cluster.material("certificate-authority"),
            client_certificate=user.material("client-certificate"),
            client_key=user.material("client-key"),
            credentials=user.credentials(cluster),
            impersonate=user.impersonated(),
            namespace=namespace,
            tls_server_name=cluster.tls_server_name(),
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
        known = ", ".join(known[:_LONGEST_NAME] for known in sorted(self._names(section))[:_MOST_NAMED]) or "none"
        raise LoginFailed(f"{self.place} has no {inner} {_quoted(name)}; it has: {known}")

    def _names(self, section: str) -> set[str]:
        return {str(entry.get("name")) for document in self.documents for entry in document.entries(section)}


_MOST_NAMED = 20
_LONGEST_NAME = 100


def _quoted(name: str) -> str:
    """A name for a message, which ends up in a condition: names of any length are valid."""
    return repr(name) if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]!r}..."


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
        if why := _unusable(url):
            raise LoginFailed(f"{self.name} of the kubeconfig has a server URL that cannot be used: {why}")
        return url

    def tls_server_name(self) -> str:
        name = self.text("tls-server-name")
        if name and not is_host(name):
            raise LoginFailed(f"{self.name} of the kubeconfig: tls-server-name is neither a DNS name nor an IP address")
        return name

    def impersonated(self) -> tuple[str, tuple[str, ...]] | None:
        """The user and the groups to act as."""
        user, groups = self.text("as"), self.texts("as-groups")
        if not all(fits(value) for value in (user, *groups)):
            raise LoginFailed(f"{self.name} of the kubeconfig: as and as-groups must have no line breaks")
        return (user, groups) if user else None

    def proxy(self) -> str:
        return _proxy(self.server(), self.text("proxy-url"))

    def material(self, key: str) -> Material:
        """Inline data wins over the file, as with kubectl."""
        if data := self.text(f"{key}-data"):
            try:
                return Material(base64.b64decode(data, validate=True))
            except ValueError:  # binascii.Error, or text that is not ASCII
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

    def _program(self, section: object, cluster: _Part) -> CredentialProgram:
        if not isinstance(section, dict) or not section.get("command"):
            raise LoginFailed(f"{self.name} of the kubeconfig: exec names no command")
        part = _Part(section, self.folder, f"exec of {self.name}")
        if part.text("interactiveMode") == "Always":
            raise LoginFailed(f"{part.name} wants to talk to a person (interactiveMode Always), which cannot be served")
        command = part.text("command")
        return CredentialProgram(
            # A command with a slash is a path, and a relative one counts from the kubeconfig's folder.
            command=str(part._path(command)) if "/" in command else command,
            arguments=part.texts("args"),
            environment=part._environment(),
            api_version=part.text("apiVersion"),
            install_hint=part.text("installHint"),
            cluster=cluster._told() if part.flag("provideClusterInfo") else None,
        )

    def _told(self) -> Mapping[str, object]:
        """The cluster as a login program receives it."""
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
