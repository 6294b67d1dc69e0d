"""Whose a host is. Pure.

Hosts are compared by their labels: `shop.example.com` is below `example.com`, `myexample.com` is not. The API server
takes hosts in lower case only (`spec.domain` has a pattern), and names with other letters in their encoded form.
"""

from __future__ import annotations


def is_within(host: str, suffix: str) -> bool:
    """Whether a host is a suffix or below it."""
    return host == suffix or host.endswith(f".{suffix}")
