"""Digests of content as sources write them: `sha256:<hex>`, also with sha384 and sha512; no others."""

from __future__ import annotations

import hashlib
import re

from stellwerk.render.errors import WrongDigest

_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_FORM = re.compile(r"(sha256|sha384|sha512):([0-9a-fA-F]+)")
_CLAIM = re.compile(r"\s*(?:sha256|sha384|sha512)\s*:", re.IGNORECASE)
"""How a digest in our form begins. Web servers have others (`x-goog-hash`, `content-digest`, `digest`)."""


class Verifier:
    """Compares content, as it comes, with the digest that was promised for it.

    One in our form that cannot be checked is refused: it would pass for one that was. Any other word (an ETag, a digest
    in the form of a web server) only changes with the content; `strict` refuses that, too.
    """

    def __init__(self, promised: str, *, strict: bool = False) -> None:
        match = _FORM.fullmatch(promised)
        if match is None and promised and (strict or _CLAIM.match(promised)):
            raise WrongDigest(
                f"the promised digest is malformed or of an unknown algorithm: {promised[:160]!a}; "
                "expected sha256:, sha384: or sha512: and hexadecimal digits"
            )
        self._algorithm, self._expected = match.groups() if match else ("", "")
        if match and len(self._expected) != _LENGTHS[self._algorithm]:
            raise WrongDigest(f"the promised digest has the wrong length: {promised[:160]!a}")
        self._found = hashlib.new(self._algorithm) if match else None

    @property
    def verifies(self) -> bool:
        """Whether the digest covers the content."""
        return self._found is not None

    def update(self, chunk: bytes) -> None:
        """A further piece of the content."""
        if self._found is not None:
            self._found.update(chunk)

    def finish(self) -> None:
        """Raises `WrongDigest` where the content was not what was promised."""
        if self._found is not None and self._found.hexdigest() != self._expected.lower():
            found = f"{self._algorithm}:{self._found.hexdigest()}"
            raise WrongDigest(
                f"the content has the digest {found}, but {self._algorithm}:{self._expected} was promised"
            )


def is_verifiable(promised: str) -> bool:
    """Whether content can be compared with the digest. Not so a word such as an ETag, or a digest that is refused."""
    try:
        return Verifier(promised).verifies
    except WrongDigest:
        return False
