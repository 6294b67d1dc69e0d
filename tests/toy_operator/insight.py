"""What verbs ask."""

from stellwerk.api.core import ConfigMap
from stellwerk.apply.objects.desired import Document, desired_set
from stellwerk.delivery.children import child
from stellwerk.delivery.insight import KindInsight, Preview, PreviewRequest
from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.runtime.insight.diagnosis import ConditionDiagnosis
from stellwerk.runtime.insight.reason_catalog import Catalogue, Meaning
from tests.toy_operator.api import Reason, Site
from tests.toy_operator.controllers import index

MEANINGS = {
    Reason.Published: Meaning(state=Reason.Published, meaning="All pages are published."),
    Reason.RemoteSyncing: Meaning(state=Reason.RemoteSyncing, meaning="The remote cluster is being read."),
    Reason.SecretMissing: Meaning(state=Reason.SecretMissing, meaning="No Secret.", fix=("Create the Secret.",)),
}
CATALOGUE = Catalogue(MEANINGS, dict.fromkeys(Reason, "Wait."))
HELP = {"Site": KindHelp(catalogue=CATALOGUE)}


class SitePreviewer:
    kind = Site
    accepts_image = False

    async def preview(self, subject: Site, request: PreviewRequest) -> Preview:
        """The index."""
        body = Document(child(subject, ConfigMap.resource, index(subject), keeper="toy").body)
        return Preview(field_manager="toy", objects=desired_set([body], {ConfigMap.resource.gvk: ConfigMap.resource}))


INSIGHT = {"Site": KindInsight(diagnostician=ConditionDiagnosis(CATALOGUE), previewer=SitePreviewer)}
