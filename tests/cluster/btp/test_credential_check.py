"""Credentials that SAP Service Manager does not take any more are told beside the module, which stays as it is."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from aiohttp import web

from stellwerk.operators.btp.credentials.credential_check import TokenServer
from stellwerk.render.sources.egress import EgressRules
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.tls_server import TlsServer
from tests.cluster.btp.given import CREDENTIALS, Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

LOOPBACK = EgressRules(networks=(ip_network("127.0.0.0/8"),))


async def judge(request: web.Request) -> web.StreamResponse:
    """Takes the usual secret and no other."""
    given = (await request.post()).get("client_secret")
    if given == CREDENTIALS["clientsecret"]:
        return web.json_response({"access_token": "token", "token_type": "bearer"})
    return web.json_response({"error": "invalid_client", "error_description": f"{given!r} is wrong"}, status=401)


@pytest.mark.req("R-801")
async def test_a_secret_with_other_credentials_is_asked_about_at_once_and_its_refusal_is_told(
    running: Running, given: Given, then: Then
) -> None:
    async with TlsServer(judge) as server:
        running.token_server = TokenServer(rules=LOOPBACK, authority=server.authority.encode())
        await given.required_secret(tokenurl=server.url)
        await running.start()
        await given.btp_operator()
        await then.shows("Ready", "ReconcileSucceeded")
        assert answers(running) == {}, "it is off"

        await given.tunables(CredentialCheckInterval="1h", RsaKeyBits="2048")
        await eventually(lambda: answers(running) == {"accepted": 1.0}, describe="the credentials are good")

        await given.required_secret(tokenurl=server.url, clientsecret="canary-of-the-past")
        await then.event("CredentialsRefused", saying=["kyma-system/sap-btp-manager (invalid_client)"])
        assert running.metric("btpmanager_credentials_refused") == 1

        await given.required_secret(tokenurl=server.url)
        await then.event("CredentialsAccepted")
        assert running.metric("btpmanager_credentials_refused") == 0
        shown = [(one.state, one.reason) for one in then.history.of()]
        assert shown[-1] == ("Ready", "ReconcileSucceeded")
        assert "Error" not in [state for state, _ in shown]
        await running.stop()


def answers(running: Running) -> dict[str, float]:
    """How many questions came to what."""
    found: dict[str, float] = {}
    for verdict in ("accepted", "refused", "unanswered"):
        try:
            found[verdict] = running.metric(f'btpmanager_credential_checks_total{{result="{verdict}"}}')
        except AssertionError:
            continue
    return found
