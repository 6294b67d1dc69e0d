"""What a cluster needs before the CAP Operator Manager starts, and how the local system starts it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stellwerk.delivery.installation import Installation
from stellwerk.operators.cap_manager import api, rights
from stellwerk.operators.cap_manager.capoperator import chart as charts
from stellwerk.operators.cap_manager.settings import IMAGE_VARIABLE, VALUES_VARIABLE

NAMESPACE = "cap-operator-system"
DEMO_IMAGE = "stellwerk.local/stellwerk:demo"
"""The local system simulates pods, so nothing pulls this image."""


def installation(installed: Sequence[Installation]) -> Installation:
    """The installation of the manager. `installed`: those of the processes that it installs."""
    return Installation(
        namespace=NAMESPACE,
        account=rights.ACCOUNT,
        lease=api.LEASE_NAME,
        definitions=(api.DEFINITION,),
        grants=rights.GRANTS,
        home_grants=rights.HOME_GRANTS,
        further=partial(rights.further, installed),
        local_flags=lambda _: [f"--image={DEMO_IMAGE}"],
        image_variable=IMAGE_VARIABLE,
        passed_values={VALUES_VARIABLE: ("imagePullSecrets", "networkPolicy", charts.KEY)},
    )
