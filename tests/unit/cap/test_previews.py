"""What `stellwerk diff` assumes of an operator that it does not find."""

from __future__ import annotations

import pytest

from stellwerk.operators.cap.domain.plan import CertManager
from stellwerk.operators.cap.insight.previews.domain import assumed_settings
from stellwerk.operators.cap.settings import Settings


@pytest.mark.parametrize(
    ("only_cert_manager", "issuer"), [(True, CertManager.CERT_MANAGER), (False, CertManager.GARDENER)]
)
def test_an_operator_that_is_not_found_is_assumed_to_have_its_defaults_and_the_only_issuer(
    only_cert_manager: bool, issuer: CertManager
) -> None:
    assumed = assumed_settings("home", only_cert_manager=only_cert_manager)

    assert assumed.cert_manager is issuer
    assert assumed.dns_manager is Settings().dns_manager
    assert assumed.namespace == "home"
