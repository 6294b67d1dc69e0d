"""What the layers of the image are, and what is left out.

Three layers, by how often they change: Debian, the dependencies, the product. A node that has the first two from an
older version fetches the third one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from deploy.image import debian, python
from deploy.image.config import ENVIRONMENT, USER
from deploy.image.debian import Package
from deploy.image.python import INTERPRETER, STANDARD_LIBRARY
from deploy.image.tree import Directory, File, Link, Node, Tree

from stellwerk.local.build.toolchain import Say

_DYNAMIC = f"{STANDARD_LIBRARY}/lib-dynload"
DROPPED = {
    "usr/share/man/*": "read by people, on other machines",
    "usr/share/info/*": "the same",
    "usr/share/doc/*": "the same, but for the licences",
    "usr/share/lintian/*": "for the builders of packages",
    "usr/share/locale/*": "translations; the image speaks English",
    "usr/share/binfmts/*": "for update-binfmts",
    "usr/share/gcc/*": "for debuggers",
    "usr/share/gdb/*": "for debuggers",
    "usr/share/dict/*": "empty",
    "usr/sbin/*": "scripts for a shell",
    "etc/ca-certificates/*": "hooks of update-ca-certificates",
    "usr/lib/x86_64-linux-gnu/gconv/*": "9 MB of character sets for iconv; Python has its own",
    "usr/lib/x86_64-linux-gnu/libmvec.so*": "1 MB of vector mathematics that no program here is linked with",
    f"{STANDARD_LIBRARY}/sitecustomize.py": "a link to the next",
    "etc/python3.13/*": "a hook for crash reports of Ubuntu",
    f"{STANDARD_LIBRARY}/test/*": "tests",
    f"{_DYNAMIC}/_*test*": "tests",
    f"{STANDARD_LIBRARY}/idlelib/*": "needs Tk",
    f"{STANDARD_LIBRARY}/turtledemo/*": "needs Tk",
    f"{STANDARD_LIBRARY}/turtle.py": "needs Tk",
    f"{STANDARD_LIBRARY}/pydoc_data/*": "the manual of the language",
    f"{STANDARD_LIBRARY}/curses/*": "needs ncurses, which is not in the image",
    f"{_DYNAMIC}/_curses*": "the same",
    f"{_DYNAMIC}/readline*": "needs readline, which is not in the image",
    f"{STANDARD_LIBRARY}/sqlite3/*": "needs SQLite, which is not in the image",
    f"{_DYNAMIC}/_sqlite3*": "the same",
    f"{_DYNAMIC}/_dbm*": "needs Berkeley DB, which is not in the image",
}
"""Patterns of paths of Debian packages that are left out, each with the reason. A `*` matches `/` as well."""
_KEPT = ("usr/share/doc/*/copyright",)
_PROGRAM = f"""#!/{INTERPRETER} -P
import sys

from stellwerk.cli.main import main

sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """The layers from the lowest up, each with the comment for the history of the image, and the packages in them."""

    layers: Sequence[tuple[str, Tree]]
    debian: Sequence[Package]


def of_checkout(folder: Path, say: Say) -> Contents:
    """Make all layers. `folder` is an empty one for the build. Raises BuildFailed."""
    packages = debian.locked()
    system = _system([debian.read(file) for file in debian.fetched(packages, say)], packages)
    for name in ("dependencies", "product", "root"):
        (folder / name).mkdir()
    dependencies = python.dependencies(folder / "dependencies", say)
    product = {**python.product(folder / "product", say), "usr/local/bin/stellwerk": File(_PROGRAM.encode(), 0o755)}
    whole = python.compiled({**system, **dependencies, **product}, folder / "root", say)
    lower = [_part(whole, system), _part(whole, dependencies)]
    rest = {path: node for path, node in whole.items() if not any(path in part for part in lower)}
    comments = (f"Debian {debian.RELEASE_NUMBER} packages", f"Python packages of {python.LOCK.name}", "Stellwerk")
    return Contents(list(zip(comments, [*lower, rest], strict=True)), packages)


def _part(compiled: Tree, sources: Tree) -> dict[str, Node]:
    """The files of one layer: those of its sources, and what replaces a source as bytecode."""
    return {path: node for path, node in compiled.items() if path in sources or path.removesuffix("c") in sources}


def _system(unpacked: Sequence[debian.Unpacked], packages: Sequence[Package]) -> dict[str, Node]:
    """The files of the packages, and what their scripts would make of them."""
    files = {path: node for package in unpacked for path, node in package.files.items() if not _is_dropped(path)}
    kept = {path: node for path, node in files.items() if not isinstance(node, Directory) or _is_used(path, files)}
    return {
        **kept,
        **_users(),
        "usr/sbin": Directory(),  # /sbin is a link to it
        "etc/nsswitch.conf": File(b"hosts: files dns\n"),
        "etc/ssl/certs/ca-certificates.crt": File(_authorities(kept)),
        "usr/lib/ssl/cert.pem": Link("/etc/ssl/certs/ca-certificates.crt"),  # where OpenSSL looks by default
        "usr/bin/python3": Link(INTERPRETER.rpartition("/")[2]),
        # Scanners of vulnerabilities look for the packages of an image without dpkg here.
        **{
            f"var/lib/dpkg/status.d/{package.name}": File(each.control.encode())
            for package, each in zip(packages, unpacked, strict=True)
        },
    }


def _users() -> dict[str, Node]:
    home = ENVIRONMENT["HOME"]
    return {
        "etc/passwd": File(f"root:x:0:0:root:/root:/none\nnonroot:x:{USER}:{USER}::{home}:/none\n".encode()),
        "etc/group": File(f"root:x:0:\nnonroot:x:{USER}:\n".encode()),
        # Readable for all, because some platforms choose another user, which looks for ~/.kube/config too.
        home.removeprefix("/"): Directory(0o755, USER, USER),
    }


def _authorities(files: Tree) -> bytes:
    """All CA certificates in one file, as update-ca-certificates makes it."""
    folder = "usr/share/ca-certificates/"
    certificates = [
        node.content
        for path, node in sorted(files.items())
        if path.startswith(folder) and path.endswith(".crt") and isinstance(node, File)
    ]
    return b"".join(certificate.rstrip(b"\n") + b"\n" for certificate in certificates)


def _is_dropped(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in DROPPED) and not any(
        fnmatchcase(path, pattern) for pattern in _KEPT
    )


def _is_used(path: str, files: Tree) -> bool:
    """Whether a directory is part of the layout of the system, or something is in it."""
    return not path.startswith("usr/") or any(other.startswith(f"{path}/") for other in files)
