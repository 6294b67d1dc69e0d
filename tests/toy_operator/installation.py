"""The kinds and rights."""

from stellwerk.delivery.grants import grant
from stellwerk.delivery.installation import Installation
from tests.toy_operator.api import DEFINITIONS

GRANTS = (
    grant("toy.example.com", "sites", "get list watch", "no Site is seen"),
    grant("toy.example.com", "sites/status", "get patch update", "no Site shows its state"),
    grant("", "secrets", "get", "no remote cluster is known"),
    grant("", "configmaps", "get list watch create patch update", "no index is written"),
    grant("events.k8s.io", "events", "create patch", "no Event is sent"),
)
INSTALLATION = Installation(namespace="toy", account="toy", lease="toy", definitions=DEFINITIONS, grants=GRANTS)
