"""What objects of all kinds of the lifecycle manager have."""

from __future__ import annotations

from typing import Any

HOME = "kcp-system"
PREFIX = "operator.kyma-project.io"
DELETED = "2026-01-01T00:00:00Z"


def metadata(name: str, namespace: str = HOME, **fields: Any) -> dict[str, Any]:
    """The metadata of an object."""
    return {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "7", **fields}
