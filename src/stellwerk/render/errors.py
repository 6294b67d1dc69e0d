"""What can go wrong on the way from a source to objects.

    RenderError                     the tree's root; `str()` is a sentence for people
    ├── SourceError                 the files could not be had
    │   ├── EgressRefused           the address is not one that may be called
    │   ├── Unavailable             no answer, a late one, or a refusal; keeps the HTTP status
    │   ├── IncompleteAnswer        an answer without what was asked for: a header, a target of a redirect
    │   ├── RepeatedLogin           an answer that shows the password or token that was sent
    │   ├── WrongDigest             the content is not the content that was promised
    │   └── BadArchive              an archive that is broken, harmful or too large; knows the entry
    │       └── NotAnArchive        something else than an archive or a manifest
    ├── PathNotFound                `spec.path` names nothing in the files
    │   └── NotADirectory           it names a file
    ├── InvalidValues               values that are no mapping, or no YAML; knows the source, quotes nothing of it
    ├── Unrenderable                the renderer refused the files; knows file, line and column as far as they are known
    │   ├── InvalidChart  InvalidConfig  RefusedValues  TemplateFailed  InvalidManifest  KustomizeFailed
    │   ├── SubstituteFailed  PatchFailed  DecryptFailed  UnsupportedHook  LimitExceeded
    │   └── LookupFailed            a template asked the cluster and got no answer; `__cause__` is the cause
    ├── ExpressionError             an expression has no answer
    │   ├── InvalidExpression       it can never be evaluated; knows line and column
    │   └── ExpressionFailed        it has none for these objects
    └── WorkerError                 the renderer itself
        ├── RendererMissing         it was not built or not packaged
        ├── RendererTimeout         it took longer than the budget and was killed
        ├── RendererGone            it died while it rendered
        ├── RendererClosed          it was closed
        └── RendererBroken          it does not keep to the protocol: a bug of ours

`transient`: whether the same request may succeed later without a change. What a failure means for a
custom resource (reason, retry) is the operator's decision. No text carries a value of a Secret or the login in a URL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class RenderError(Exception):
    """Anything that went wrong on the way from a source to objects."""

    _transient: ClassVar[bool] = False

    @property
    def transient(self) -> bool:
        """Whether time alone may mend it."""
        return self._transient


# ---- the files


class SourceError(RenderError):
    """The files could not be had."""


class EgressRefused(SourceError):
    """The address is not one that may be called."""


class Unavailable(SourceError):
    """The server did not answer, or with something other than what was asked for. `status` 0: no answer at all.

    `why` is what went wrong without the address, for addresses that must stay hidden. `unknown_host`: the
    name of the server could not be resolved.
    """

    def __init__(self, message: str, *, status: int = 0, why: str = "", unknown_host: bool = False) -> None:
        self.status = status
        self.why = why
        self.unknown_host = unknown_host
        super().__init__(message)

    @property
    def transient(self) -> bool:
        """Outages pass; what the server refuses, it will refuse again."""
        return self.status == 0 or self.status >= 500 or self.status in (408, 425, 429)


class IncompleteAnswer(SourceError):
    """The server answered without something that is needed; `header` names it where it is a header."""

    def __init__(self, message: str, *, header: str = "") -> None:
        self.header = header
        super().__init__(message)


class RepeatedLogin(SourceError):
    """The server's answer shows the password or token that it was sent, so that it cannot be shown to people."""


class WrongDigest(SourceError):
    """The content is not what was promised. Sources are replaced while they are fetched, so a later try may fit."""

    _transient = True


class BadArchive(SourceError):
    """An archive that is broken, harmful or too large. Nothing of it was used."""

    def __init__(self, why: str, *, entry: str = "") -> None:
        self.why = why
        self.entry = entry
        super().__init__(f"archive entry {shown(entry)}: {why}" if entry else f"archive: {why}")


class NotAnArchive(BadArchive):
    """The content is neither an archive nor a manifest."""


# ---- what was asked of them


class PathNotFound(RenderError):
    """The path names nothing in the files."""

    def __init__(self, path: str, folders: Sequence[str] = ()) -> None:
        """`folders`: those that exist, in the part of the path that does."""
        self.path = path
        self.folders = folders
        super().__init__(f"{self._what}: {path}")

    _what: ClassVar[str] = "no such file or directory"


class NotADirectory(PathNotFound):
    """The path names a file."""

    _what = "not a directory"


class InvalidValues(RenderError):
    """Values that cannot be used. `source` names a Secret and its key, or a field; nothing of the content is quoted."""

    def __init__(self, source: str, why: str, *, line: int = 0) -> None:
        self.source = source
        self.why = why
        self.line = line
        super().__init__(f"values of {_place(source, line, 0)}: {why}")


# ---- errors of the renderer


class Unrenderable(RenderError):
    """The renderer refused the files. `file` is a path in them; `line` and `column` count from 1, 0 where unknown."""

    def __init__(self, why: str, *, file: str = "", line: int = 0, column: int = 0) -> None:
        self.why = why
        self.file = file
        self.line = line
        self.column = column
        super().__init__(f"{_place(file, line, column)}: {why}" if file else why)


class InvalidChart(Unrenderable):
    """Chart.yaml, a dependency or a schema is wrong."""


class InvalidConfig(Unrenderable):
    """.component-config.yaml or .component-ignore is wrong."""


class RefusedValues(Unrenderable):
    """The chart or kustomization does not take these values."""


class TemplateFailed(Unrenderable):
    """A template does not parse or does not run."""


class InvalidManifest(Unrenderable):
    """What was rendered is no Kubernetes object."""


class KustomizeFailed(Unrenderable):
    """Kustomize does not take the files."""

    missing = ""
    """A path in the artifact that a kustomization lists and did not get; empty where that is not the cause."""


class SubstituteFailed(Unrenderable):
    """A ${...} expression is wrong."""


class PatchFailed(Unrenderable):
    """postBuild.patches or postBuild.images do not fit the objects."""


class DecryptFailed(Unrenderable):
    """No key fits, or an encrypted file was changed."""


class UnsupportedHook(Unrenderable):
    """A Helm hook that has no counterpart here."""


class LimitExceeded(Unrenderable):
    """Too much output, too many objects, too deep, or more memory than one rendering may take."""


class LookupFailed(Unrenderable):
    """A template asked the cluster and got no answer. `__cause__` is what the lookup raised."""

    _transient = True


# ---- errors of expressions


class ExpressionError(RenderError):
    """An expression has no answer."""

    def __init__(self, why: str, *, line: int = 0, column: int = 0) -> None:
        self.why = why
        self.line = line
        self.column = column
        super().__init__(f"line {line}, column {column}: {why}" if line else why)


class InvalidExpression(ExpressionError):
    """It cannot be understood, or its answer would not be yes or no."""


class ExpressionFailed(ExpressionError):
    """It has no answer for these objects: a key is missing, a value is of another type, or it takes too long."""

    _transient = True


# ---- the renderer itself


class WorkerError(RenderError):
    """The renderer could not do its work; the files may be all right."""


class RendererMissing(WorkerError):
    """There is no renderer to start."""


class RendererTimeout(WorkerError):
    """Rendering took longer than its budget and was ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"rendering took longer than {seconds:g} s and was ended; look for endless loops in templates")


class RendererGone(WorkerError):
    """The renderer died while it rendered."""

    _transient = True


class RendererClosed(WorkerError):
    """The renderer was closed."""

    _transient = True


class RendererBroken(WorkerError):
    """The renderer does not keep to the protocol."""


def shown(name: str) -> str:
    """A name from outside as one short line."""
    text = ascii(name)[1:-1] if not name.isprintable() else name
    return text if len(text) <= 120 else f"{text[:80]}...{text[-37:]}"


def _place(file: str, line: int, column: int) -> str:
    parts = [shown(file)]
    if line:
        parts.append(f"line {line}")
    if column:
        parts.append(f"column {column}")
    return ", ".join(parts)
