"""Versions whose workloads are routed to."""

from __future__ import annotations

from typing import Any

import msgspec

from stellwerk.operators.cap.kinds.version import CAPApplicationVersion


def version(*workloads: dict[str, Any], **more: Any) -> CAPApplicationVersion:
    """`shop-v1` with these workloads, as the API server has it."""
    body = {
        "metadata": {"name": "shop-v1", "namespace": "shop", "annotations": more.pop("annotations", {})},
        "spec": {"capApplicationInstance": "shop", "version": "1.0.0", "workloads": [*workloads], **more},
    }
    return msgspec.convert(body, CAPApplicationVersion)
