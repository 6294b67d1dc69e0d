"""What templates ask about kinds of which it is not known whether the cluster serves them (pure).

An API service that does not answer, and that this process has never seen, has unknown kinds. To a template they look
absent, so that it leaves out what it would deploy otherwise, and what is deployed would be pruned. So a rendering whose
templates ask about such a group does not count. One that brings the API service itself does: it may be what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stellwerk.apply.set.model.desired_set import API_SERVICE
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.component.errors import KindsUnknown
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import Rendered

_ASKING = rb"(?:APIVersions|apiResources)[^\n]{0,200}"
"""How templates ask, as far as the group is on the same line."""


def check(rendered: Rendered, files: Files, unknown: Sequence[str]) -> None:
    """Raises `KindsUnknown`. `unknown`: groups with their versions, such as `metrics.k8s.io/v1beta1`."""
    brought = {str(dig(body, "spec", "group") or "") for body in rendered.objects if _is_service(body)}
    for version in unknown:
        group = version.rpartition("/")[0]
        if group not in brought and _is_asked(group, files.values()):
            raise KindsUnknown(version)


def _is_asked(group: str, texts: Iterable[bytes]) -> bool:
    asking = re.compile(_ASKING + re.escape(group.encode()))
    return any(asking.search(text) for text in texts)


def _is_service(body: JsonObject) -> bool:
    return (str(body.get("apiVersion") or "").rpartition("/")[0], body.get("kind")) == API_SERVICE
