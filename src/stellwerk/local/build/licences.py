"""The licences of what the renderer is linked from, as one text that travels with it.

Most of them ask that their words go where the program goes. The compiler is asked which packages the program consists
of, for a list kept by hand would be wrong with the next update. A package may have a text of its own besides that of
its module (a fork that it carries, for example), so every folder from the package up to its module's root is looked
into. A module without any is an error and not a gap: whether it may be shipped is for a person to find out.

Many modules share one text to the letter. It is written once, below the names of all that it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stellwerk.local.build import toolchain
from stellwerk.local.errors import BuildFailed

_NAMES = re.compile(r"(un)?licen[cs]e|copying|copyright|notice|patents|authors", re.IGNORECASE)
_RULE = "=" * 100
_OF_MODULE = "{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}"
_FORMAT = f"{{{{with .Module}}}}{_OF_MODULE}{{{{else}}}}std\t\t\t{{{{.Dir}}}}{{{{end}}}}"


@dataclass(frozen=True, slots=True)
class Package:
    """One package of the program: its module (empty for Go's own) and where both lie."""

    module: str
    root: Path
    folder: Path


def of_program(go: str, source: Path) -> str:
    """All licences of the program that `source` builds to. Raises BuildFailed where a module has none."""
    failure = "cannot find out which modules the renderer is built from"
    listed = toolchain.run([go, "list", "-deps", "-f", _FORMAT, "."], source, failure)
    go_root = Path(toolchain.run([go, "env", "GOROOT"], source, failure).strip())
    return written(gathered(packages(listed, go_root)))


def packages(listed: str, go_root: Path) -> list[Package]:
    """What `go list` printed, with the standard library as a module in `go_root`."""
    found = []
    for line in filter(None, listed.splitlines()):
        module, version, root, folder = line.split("\t")
        if module == "std":
            found.append(Package("the Go standard library", go_root, Path(folder)))
        else:
            found.append(Package(f"{module} {version}".strip(), Path(root), Path(folder)))
    return found


def gathered(found: Iterable[Package]) -> Mapping[str, Mapping[str, str]]:
    """By module, the texts by their path in it. Raises BuildFailed where a module has none."""
    texts: dict[str, dict[str, str]] = {}
    for package in found:
        texts.setdefault(package.module, {}).update(_between(package))
    without = sorted(module for module, of_module in texts.items() if not of_module)
    if without:
        raise BuildFailed(
            "cannot gather the licences of the renderer",
            cause=f"there is no licence text in {', '.join(without)}",
            fix="find out under which terms it may be shipped before you ship it",
        )
    return texts


def _between(package: Package) -> Iterator[tuple[str, str]]:
    """The texts in the folders from the module's root down to the package."""
    inside = package.folder.relative_to(package.root) if package.folder.is_relative_to(package.root) else Path()
    for depth in range(len(inside.parts) + 1):
        folder = package.root.joinpath(*inside.parts[:depth])
        for file in sorted(folder.iterdir()):
            if _NAMES.match(file.name) and file.is_file() and file.suffix not in (".go", ".py", ".sh"):
                yield str(file.relative_to(package.root)), file.read_text(errors="replace")


def written(texts: Mapping[str, Mapping[str, str]]) -> str:
    """One text: the modules, and then each licence once with those that it belongs to."""
    owners: dict[str, list[str]] = {}
    for module in sorted(texts):
        for path, text in sorted(texts[module].items()):
            owners.setdefault(text.strip(), []).append(f"{module}: {path}")
    parts = ["The renderer of Stellwerk contains these modules:", "", *(f"  {module}" for module in sorted(texts))]
    for text, names in owners.items():
        parts += ["", _RULE, *names, _RULE, "", text]
    return "\n".join(parts) + "\n"
