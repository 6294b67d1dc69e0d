"""The search for the forms that steps replace finds each of them."""

from __future__ import annotations

import pytest
from tests import forms


@pytest.mark.parametrize(
    "line",
    [
        "informer.on_change(handler)",
        "informer.on_unreadable(handler)",
        "self.queue.add(key)",
        "self.controller.queue.add(key)",
        "self._queue.add(key)",
        "caches.tenants.expect(key, version)",
        "await hands.client.patch(target, name, namespace, patch)",
        "await self._client.create(target, body)",
        "controller.watches(other, by=owner)",
    ],
)
def test_an_old_form_is_found(line: str) -> None:
    assert [number for number, _ in forms.old_forms(f"async def some():\n    {line}\n")] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "view.get(TENANTS, key)",
        "names.add(key)",
        "await hands.client.get(target, name)",
        "steps.update(more)",
        "add(key)",
    ],
)
def test_what_a_step_does_is_no_old_form(line: str) -> None:
    assert list(forms.old_forms(f"async def some():\n    {line}\n")) == []


def test_the_folders_exist() -> None:
    assert all((forms.SOURCES / folder).is_dir() for folder in forms.CONVERTED)
