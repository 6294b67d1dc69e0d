"""What people ask about the BTP Manager besides its reasons. Names come from the code, so that none goes stale here."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.operators.btp import api, reasons
from stellwerk.operators.btp.api import State
from stellwerk.operators.btp.btpoperator import certificates
from stellwerk.operators.btp.credentials.credentials import (
    CLUSTER_ID_KEY,
    CREDENTIALS_NAMESPACE_KEY,
    REQUIRED_KEYS,
)
from stellwerk.operators.btp.settings import TABLE
from stellwerk.runtime.insight.help_topics import Topic

_DEFAULTS = TABLE.as_text(TABLE.defaults)
_SECRET = f"{api.STANDARD_NAMESPACE}/{api.REQUIRED_SECRET_NAME}"
_IN_NAMESPACE = f"kubectl -n {api.STANDARD_NAMESPACE}"

_KEYS = {
    "clientid": "Who asks SAP Service Manager.",
    "clientsecret": "The proof that goes with it.",
    "sm_url": "Where SAP Service Manager is.",
    "tokenurl": "Where tokens for it are given out.",
    CLUSTER_ID_KEY: "What the services know this cluster as. A change restarts the operand.",
}

CREDENTIALS = Topic(
    about="the Secret that the module needs, and what follows when it changes",
    text=(
        f"The module takes its credentials from the Secret {_SECRET}. It counts only with the label "
        f"{api.MANAGED_BY_LABEL}={api.BROKER_NAME} (or ={api.OPERATOR_NAME}); without the label it is as good as "
        "absent.",
        f"{CREDENTIALS_NAMESPACE_KEY} is optional and names the namespace in which the operand keeps its own copy; "
        f"without it that is {api.STANDARD_NAMESPACE}. All further keys are handed on to the operand.",
        f"Any change is applied at once, and the operand's pods roll, which an Event on the BtpOperator reports. "
        f"When {CLUSTER_ID_KEY} or "
        f"{CREDENTIALS_NAMESPACE_KEY} changes, the former value is noted on the Secret, the new one is put in place, "
        "and what belonged to the former is deleted last. What is secret of it appears in no status, no Event and no "
        "log.",
    ),
    rows=tuple((key, _KEYS[key]) for key in REQUIRED_KEYS),
    commands=(f"{_IN_NAMESPACE} describe secret {api.REQUIRED_SECRET_NAME}",),
)

DELETION = Topic(
    about="what blocks a deletion, how it is forced, and what stays",
    text=(
        "A BtpOperator that is deleted stays as long as users have service instances or bindings, in whichever "
        "namespace: deleting the module would delete the services. The condition counts them and names some. The "
        "module works on meanwhile, and the deletion goes on by itself when the last one is gone.",
        f'The label {api.FORCE_DELETE_LABEL}="true", spelled just so, deletes them with the module: all bindings '
        f"first, then all instances, by the services' own brokers. After HardDeleteTimeout "
        f"({_DEFAULTS['HardDeleteTimeout']}; the condition names the time) or a failure the operand is taken away and "
        "the finalizers of what is left are removed; the services themselves may then live on in SAP BTP.",
        "Everything of the module goes, the kinds of instances and bindings included. The kind BtpOperator, the "
        f"Secret {_SECRET} and the ConfigMap {api.STANDARD_NAMESPACE}/{api.TUNABLES_NAME} stay.",
    ),
    commands=(
        "kubectl get servicebindings.services.cloud.sap.com,serviceinstances.services.cloud.sap.com -A",
        f'{_IN_NAMESPACE} label btp {api.STANDARD_NAME} {api.FORCE_DELETE_LABEL}="true"',
    ),
)

CERTIFICATES = Topic(
    about="how the operand's webhooks are trusted, and when their certificates are made anew",
    text=(
        f"The operand's webhooks serve the certificate in the Secret {api.WEBHOOK_SECRET_NAME}, signed by the "
        f"authority in the Secret {api.CA_SECRET_NAME}; both webhook configurations carry it. All three are "
        "kept in agreement: a bundle that somebody edits is put back, and costs no new certificate.",
        f"An authority lives for {_DEFAULTS['CaCertificateExpiration']}, a certificate for "
        f"{_DEFAULTS['WebhookCertificateExpiration']}; each is made anew "
        f"{_DEFAULTS['ExpirationBoundary'].lstrip('-')} before its end, when it is missing or damaged, and when the "
        "two do not belong together. A new authority always comes with a new certificate.",
        "To have one made anew, delete its Secret.",
    ),
    rows=(
        (f"{api.CA_SECRET_NAME}", f"{certificates.CA_CERTIFICATE_KEY} and {certificates.CA_PRIVATE_KEY_KEY}"),
        (
            f"{api.WEBHOOK_SECRET_NAME}",
            f"{certificates.WEBHOOK_CERTIFICATE_KEY} and {certificates.WEBHOOK_PRIVATE_KEY_KEY}",
        ),
    ),
    commands=(f"{_IN_NAMESPACE} delete secret {api.WEBHOOK_SECRET_NAME}",),
)

NETWORK_POLICIES = Topic(
    about="what the module allows itself in a namespace that denies everything else",
    text=(
        "The module brings network policies that let its pods reach the API server, SAP Service Manager and DNS, and "
        "let the API server call its webhooks and permitted scrapers read its metrics. A pod that a policy selects may "
        "do only what some policy allows: so these also hold the module's pods to just that.",
        f"The annotation {api.DISABLE_NETWORK_POLICIES_ANNOTATION}: true on the BtpOperator deletes them, and removing "
        "it brings them back. Policies without the module's labels are never touched.",
    ),
    commands=(
        f"{_IN_NAMESPACE} get networkpolicies -l {api.MANAGED_SELECTOR}",
        f"{_IN_NAMESPACE} annotate btp {api.STANDARD_NAME} {api.DISABLE_NETWORK_POLICIES_ANNOTATION}=true",
    ),
)

TUNABLES = Topic(
    about="what can be set while the operator runs",
    text=(
        f"The ConfigMap {api.STANDARD_NAMESPACE}/{api.TUNABLES_NAME} overrides the operator's flags, key by key, and "
        "takes effect at once. A value that cannot be read changes nothing and is reported in the log; a key that is "
        "removed gives the flag or the default back. Durations are written as in Go: 90s, 5m, 1h30m.",
    ),
    rows=tuple((tunable.key, f"{tunable.help} Default: {_DEFAULTS[tunable.key] or 'none'}.") for tunable in TABLE.rows),
    commands=(
        f"{_IN_NAMESPACE} create configmap {api.TUNABLES_NAME} --from-literal=ReadyTimeout=10m",
        f"{_IN_NAMESPACE} get configmap {api.TUNABLES_NAME} -o yaml",
    ),
)

CONDITIONS = Topic(
    about="how the state of a BtpOperator is to be read",
    text=(
        f"A BtpOperator has the condition {api.READY}, and the word status.state beside it. The condition is True "
        "only while the whole module is applied and available; its reason says why the state is what it is, its "
        "message names the object and the cause. lastTransitionTime moves only when it turns True or False, and "
        "observedGeneration says which spec it is about.",
        f"The condition {api.STALLED} is there only while the user has to act, and says the same as {api.READY}: tools "
        "that wait as kstatus does take it for a failure. Events about such a state are of type Warning.",
    ),
    rows=(
        (State.Ready, "The module works."),
        (State.Processing, "Nobody's turn: the operator goes on by itself."),
        (State.Deleting, "Nobody's turn: the module is being taken away."),
        (State.Warning, "The user's turn: something is missing that only a person can give."),
        (State.Error, "The operator could not, and tries again."),
    ),
    commands=(
        f"{_IN_NAMESPACE} wait btp {api.STANDARD_NAME} --for=condition={api.READY} --timeout=5m",
        f"stellwerk why btp/{api.STANDARD_NAME} -n {api.STANDARD_NAMESPACE}",
    ),
)

TOPICS = {
    "conditions": CONDITIONS,
    "credentials": CREDENTIALS,
    "deletion": DELETION,
    "certificates": CERTIFICATES,
    "network-policies": NETWORK_POLICIES,
    "tunables": TUNABLES,
}

HELP = {"BtpOperator": KindHelp(catalogue=reasons.CATALOGUE, page=reasons.page, topics=TOPICS)}
