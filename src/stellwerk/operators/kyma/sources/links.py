"""Links to the manifest of a module, for modules that are in no registry.

An author of a ModuleTemplate or a Manifest has the operator call an address. So links are followed only if a setting
allows it, and by the egress rules. What is installed is pinned: the digest of the content is in the Manifest, and
content that has changed is refused. A login in a link is refused as well, because the Manifest would show it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace

from yarl import URL

from stellwerk.kube import threads
from stellwerk.operators.kyma.settings import ManifestLinks
from stellwerk.operators.kyma.sources.descriptors import MOST_MANIFEST_BYTES, BadDescriptor
from stellwerk.operators.kyma.sources.registry import TOTAL_SECONDS, Challenge, answer, in_time
from stellwerk.render.errors import EgressRefused, Unavailable
from stellwerk.render.files.digests import Verifier
from stellwerk.render.sources.egress import EgressRules, parsed, shown_url
from stellwerk.render.sources.http import HttpCall, HttpClient


@dataclass(frozen=True, slots=True)
class Links:
    """Which links are followed, and how."""

    client: HttpClient = field(compare=False, repr=False)
    rules: EgressRules = field(compare=False, repr=False)
    followed: ManifestLinks = ManifestLinks.NONE
    total_seconds: float = field(default=TOTAL_SECONDS, compare=False, repr=False)

    def check(self, link: str) -> URL:
        """The address of a link that is followed. Raises EgressRefused."""
        url = parsed(link)
        needed = ManifestLinks.FILE if url.scheme == "file" else ManifestLinks.HTTP
        if self.followed not in (needed, ManifestLinks.FILE):
            raise EgressRefused(
                f"the link {shown_url(url)} is not followed. Start the operator with "
                f"--raw-manifest-links={needed.value}, or push the manifest to a registry as a layer of the module"
            )
        if url.user is not None or url.password is not None:
            raise EgressRefused(f"the link {shown_url(url)} is not followed: there is a login in it")
        return url

    async def read(self, link: str, digest: str = "") -> bytes:
        """The content of a link, which has the digest if there is one. Raises SourceError."""
        url = self.check(link)
        if url.scheme == "file":
            return await threads.run(lambda: _file(url, digest))
        call = HttpCall("GET", url.with_fragment(None), replace(self.rules, http=url.scheme == "http"))
        async with in_time(url, self.total_seconds):
            found = await answer(self.client, call, MOST_MANIFEST_BYTES, digest)
        if isinstance(found, Challenge):
            raise found.error
        return found


def _file(url: URL, digest: str) -> bytes:
    """The content of a file of this machine. Pipes and devices are not read: they may have no end."""
    if url.host:
        raise BadDescriptor(f"the link {shown_url(url)} names a file of another machine")
    verifier = Verifier(digest, strict=bool(digest))
    try:
        descriptor = os.open(url.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadDescriptor(f"{shown_url(url)} is no regular file")
            content = file.read(MOST_MANIFEST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no path"
        raise Unavailable(f"{shown_url(url)} cannot be read: {why}", why=why) from error
    if len(content) > MOST_MANIFEST_BYTES:
        raise BadDescriptor(f"{shown_url(url)} has more than {MOST_MANIFEST_BYTES >> 20} MiB")
    verifier.update(content)
    verifier.finish()
    return content
