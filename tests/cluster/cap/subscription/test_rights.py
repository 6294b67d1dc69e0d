"""The subscription server has what it needs and nothing else: every right is used, or its rare occasion is named."""

from __future__ import annotations

import pytest
from tests.cluster import rights as audited
from tests.cluster.cap.subscription.bookshop import SERVER, Bookshop, Serving

from stellwerk.operators.cap.subscription import rights
from stellwerk.testing.cluster import AuditLog


@pytest.mark.req("R-504")
async def test_every_right_of_the_subscription_server_is_used_or_its_rare_occasion_is_named(
    serving: Serving, shop: Bookshop, audit: AuditLog
) -> None:
    await serving.stop()
    audit.mark()
    await serving.start()
    await serving.settled(shop.client)
    await shop.subscribe()
    await shop.output("one", '{"b": 3}')
    await shop.shows("Ready")
    await shop.subscribe(guid="guid-2", callback="/callback/2")
    await shop.registries.received(2)
    await shop.unsubscribe(guid="guid-2")
    await shop.gone()
    await shop.registries.received(3)
    await shop.promises_show("delivered", "delivered", "delivered")
    await serving.has_sent_events()

    requests = audit.entries(lambda entry: entry.user == SERVER)
    unused = audited.unused(rights.GRANTS, requests)
    assert not unused, f"granted and not used: {unused}"
    here = ("", shop.namespace)  # namespaces of other tests are on their way out, and take nothing more
    assert not [entry for entry in requests if entry.status == 403 and entry.namespace in here]
