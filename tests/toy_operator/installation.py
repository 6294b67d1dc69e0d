"""The kinds and rights."""

from stellwerk.delivery.installation import Installation
from tests.toy_operator.api import DEFINITIONS
from tests.toy_operator.controllers import SITE

INSTALLATION = Installation(namespace="toy", account="toy", lease="toy", definitions=DEFINITIONS, grants=SITE.grants())
