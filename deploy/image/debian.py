"""The Debian packages of the image: chosen once, locked by version and hash, fetched by apt, read.

`debian.txt` names them; `debian.lock` has version and SHA-256 of each and the time at which it was made. apt verifies
the signature of the archive and fetches, with sources and a state of its own in the cache folder, so that it works on
every machine that has apt, whatever its release and without root. A package is used only if its hash is that of the
lock.

The archive keeps only the newest version of a package. When it has replaced a locked one, the build names both ways
out: a new lock, or the service of Debian that keeps all versions (snapshot.debian.org).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from deploy.image.tree import Directory, File, Link, Node

from stellwerk.local.build.toolchain import Say
from stellwerk.local.errors import BuildFailed
from stellwerk.render.binary import cache_folder

HERE = Path(__file__).parent
LIST, LOCK = HERE / "debian.txt", HERE / "debian.lock"
RELEASE, RELEASE_NUMBER = "trixie", 13
ARCHITECTURE = "amd64"
MIRRORS = {
    "DEBIAN_MIRROR": ("http://deb.debian.org/debian", (RELEASE, f"{RELEASE}-updates")),
    "DEBIAN_SECURITY_MIRROR": ("http://deb.debian.org/debian-security", (f"{RELEASE}-security",)),
}
"""By the variable that replaces it: an archive and its suites. Plain HTTP, as Debian's own default: apt checks
signatures and the build checks hashes."""
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SNAPSHOT = "http://snapshot.debian.org/archive"
_AS_OF = re.compile(r"^# as of (\S+)$", re.MULTILINE)
_URI = re.compile(r"^'[^']+' (?P<file>\S+) \d+ SHA256:(?P<sha256>[0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the lock."""

    name: str
    version: str
    sha256: str

    @property
    def purl(self) -> tuple[str, dict[str, str]]:
        """Name and qualifiers of its package URL (type `deb`, namespace `debian`)."""
        return self.name, {"arch": ARCHITECTURE, "distro": f"debian-{RELEASE_NUMBER}"}


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What is in a package: its control file as text, and its files."""

    control: str
    files: dict[str, Node]


def names() -> list[str]:
    """The packages of `debian.txt`."""
    lines = (line.partition("#")[0].strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line]


def locked() -> list[Package]:
    """The packages of `debian.lock`. Raises BuildFailed if they are not those of `debian.txt`."""
    lines = [line.split() for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    packages = [Package(name, version, digest.removeprefix("sha256:")) for name, version, digest in lines]
    if sorted(names()) != sorted(package.name for package in packages):
        raise BuildFailed(
            "cannot use the lock of the Debian packages",
            cause=f"{LOCK.name} does not have the packages of {LIST.name}",
            fix="choose versions for them: make image-lock",
        )
    return packages


def lock(now: datetime) -> str:
    """The text of a new lock, with the newest versions. Raises BuildFailed."""
    with _Apt() as apt:
        packages = apt.newest(names())
    lines = [f"{package.name} {package.version} sha256:{package.sha256}" for package in packages]
    head = [
        "# Made by `make image-lock`; do not edit. Debian packages of the image, by version and hash.",
        f"# Debian {RELEASE_NUMBER} ({RELEASE}), {ARCHITECTURE}",
        f"# as of {now.astimezone(UTC):%Y%m%dT%H%M%SZ}",
    ]
    return "\n".join([*head, *lines]) + "\n"


def fetched(packages: Sequence[Package], say: Say) -> list[Path]:
    """The files of the packages, from the cache or by apt. Raises BuildFailed."""
    missing = [package for package in packages if not _cached(package).is_file()]
    if missing:
        say(f"fetching {len(missing)} Debian packages")
        with _Apt() as apt:
            apt.download(missing)
    return [_cached(package) for package in packages]


def read(file: Path) -> Unpacked:
    """The content of a package. Raises BuildFailed if it is not a package that this program can read."""
    try:
        members = dict(_members(file.read_bytes()))
        control = next(content for name, content in members.items() if name.startswith("control.tar"))
        data = next(content for name, content in members.items() if name.startswith("data.tar"))
        with tarfile.open(fileobj=io.BytesIO(control)) as archive:
            text = archive.extractfile("./control")
            assert text is not None, "control is a regular file"
            description = text.read().decode()
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return Unpacked(description, dict(_nodes(archive)))
    except (ValueError, StopIteration, KeyError, tarfile.TarError) as error:
        raise BuildFailed(
            f"cannot read {file}",
            cause=f"it is not a Debian package with archives compressed by xz or gzip: {error}",
            fix=f"remove it and build again: rm {file}",
        ) from error


def _members(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The members of an ar archive, the outer format of a package (deb(5))."""
    if not content.startswith(b"!<arch>\n"):
        raise ValueError("no ar archive")
    position = 8
    while position < len(content):
        header = content[position : position + 60]
        size = int(header[48:58])
        position += 60
        yield header[:16].decode().strip().rstrip("/"), content[position : position + size]
        position += size + size % 2


def _nodes(archive: tarfile.TarFile) -> Iterator[tuple[str, Node]]:
    contents: dict[str, File] = {}
    for member in archive:
        path = member.name.removeprefix("./").rstrip("/")
        if not path or path == ".":
            continue
        if member.isdir():
            yield path, Directory(member.mode, member.uid, member.gid)
        elif member.issym():
            yield path, Link(member.linkname)
        elif member.islnk():
            yield path, contents[member.linkname.removeprefix("./")]
        elif member.isfile():
            stream = archive.extractfile(member)
            assert stream is not None, "a regular file has content"
            contents[path] = File(stream.read(), member.mode, member.uid, member.gid)
            yield path, contents[path]
        else:
            raise ValueError(f"{path} is neither a file nor a directory nor a link")


def _cached(package: Package) -> Path:
    return cache_folder() / "debian" / f"{package.sha256}.deb"


class _Apt:
    """apt with sources and a state of its own. Opened by `with`, which reads the index of the archive."""

    def __enter__(self) -> _Apt:
        if shutil.which("apt-get") is None or not Path(KEYS).is_file():
            raise BuildFailed(
                "cannot fetch Debian packages",
                cause=f"this machine lacks apt-get or {KEYS}",
                fix="build with Docker instead: docker build -f deploy/image/Dockerfile -t stellwerk .",
            )
        self._folder = tempfile.TemporaryDirectory(prefix="stellwerk-apt-")
        root = Path(self._folder.name)
        for folder in ("state/lists/partial", "cache/archives/partial", "parts", "new"):
            (root / folder).mkdir(parents=True)
        sources = [
            f"deb [signed-by={KEYS} arch={ARCHITECTURE}] {os.environ.get(variable) or default} {suite} main"
            for variable, (default, suites) in MIRRORS.items()
            for suite in suites
        ]
        (root / "sources.list").write_text("\n".join(sources) + "\n")
        self._root = root
        try:
            self._run("update", "--error-on=any", failure="cannot read the index of the Debian archive")
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def newest(self, package_names: Sequence[str]) -> list[Package]:
        """The newest version of each."""
        printed = self._run("download", "--print-uris", *package_names, failure="cannot choose Debian packages")
        packages = []
        for uri in filter(None, map(_URI.match, printed.splitlines())):
            name, version, _ = unquote(uri["file"]).split("_")
            packages.append(Package(name, version, uri["sha256"]))
        return sorted(packages, key=lambda package: package.name)

    def download(self, packages: Sequence[Package]) -> None:
        """Fetch packages into the cache. Raises BuildFailed if the archive has other ones."""
        exact = [f"{package.name}={package.version}" for package in packages]
        failure = "cannot fetch the locked Debian packages"
        try:
            self._run("download", *exact, failure=failure)
        except BuildFailed as error:
            raise BuildFailed(failure, cause=error.cause, fix=_way_out()) from error
        by_digest = {hashlib.sha256(file.read_bytes()).hexdigest(): file for file in (self._root / "new").glob("*.deb")}
        for package in packages:
            if package.sha256 not in by_digest:
                raise BuildFailed(
                    failure,
                    cause=f"{package.name} {package.version} of the archive has not the hash of {LOCK.name}",
                    fix="do not use it before you know why; a new lock is made by: make image-lock",
                )
            target = _cached(package)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(by_digest[package.sha256], target.with_suffix(f".{os.getpid()}"))
            target.with_suffix(f".{os.getpid()}").replace(target)

    def _run(self, *arguments: str, failure: str) -> str:
        options = {
            "Dir::Etc::SourceList": f"{self._root}/sources.list",
            "Dir::Etc::SourceParts": f"{self._root}/parts",
            "Dir::State": f"{self._root}/state",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": f"{self._root}/cache",
            "APT::Architecture": ARCHITECTURE,
            "APT::Architectures": ARCHITECTURE,
            "APT::Sandbox::User": "",  # files of this user; the default user of apt could not write them
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            # An index of snapshot.debian.org is as old as it is; that a package is the locked one is known by its hash.
            "Acquire::Check-Valid-Until": "false",
        }
        command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items()), *arguments]
        done = subprocess.run(  # noqa: S603 - the command is ours, no shell
            command,
            cwd=self._root / "new",
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "Err:", "W:"))]
        raise BuildFailed(
            failure,
            cause="\n         ".join(lines[:5]) or f"apt-get ended with {done.returncode}",
            fix="check the network, http_proxy, and the variables " + " and ".join(MIRRORS),
        )


def _way_out() -> str:
    moment = _AS_OF.search(LOCK.read_text())
    snapshot = f"{_SNAPSHOT}/debian{{}}/{moment[1]}" if moment else _SNAPSHOT
    mirrors = [f"{name}={snapshot.format('-security' if 'SECURITY' in name else '')}" for name in MIRRORS]
    return f"choose newer versions: make image-lock; or fetch the locked ones: {' '.join(mirrors)} make image"
