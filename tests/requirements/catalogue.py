"""What the product must withstand and do, one line each. Tests name the line: `@pytest.mark.req("R-101")`.

`R-`: what every operator must withstand. `CAP-`: the acceptance scenarios of CAP (see `cap_scenarios`). The ids are for
ever: a requirement that is given up keeps its number, and no other gets it.
"""

from __future__ import annotations

from tests.requirements.cap_scenarios import CAP_SCENARIOS

REQUIREMENTS = {
    # ---- convergence
    "R-101": "a kill at any write leads to the same end",
    "R-102": "a lost reply leads to the same end, and to no second object",
    "R-103": "watch events may be hidden, merged, repeated, late",
    "R-104": "an API server with an older view causes no wrong delete",
    "R-105": "an object made anew under its old name is a new object",
    "R-106": "an own write that the cache does not show yet is waited for",
    "R-107": "a wish that changes during the work is still met in the end",
    "R-108": "an object in order costs no write and at most one read",
    "R-109": "random valid wishes, one after the other, equal a fresh start each",
    "R-110": "foreign changes are undone, reported once; fights are slowed and named",
    "R-111": "of two claims on one object one wins by rule, the other is told",
    "R-112": "a blocked deletion names what blocks it and who must act",
    # ---- API server, etcd, network
    "R-201": "a broken watch goes on where it was",
    "R-202": "a silent connection is noticed, a stale cache makes the process unready",
    "R-203": "a third of all calls may fail for minutes",
    "R-204": "etcd restarted, compacted, full, set back",
    "R-205": "restarts of the API server and rotation of all credentials need nobody",
    "R-206": "a missing right is named where it is missed, and stops nothing else",
    "R-207": "definitions of kinds may come, go and change",
    "R-208": "terminating namespaces, quotas and foreign webhooks are named and waited out",
    "R-209": "very large objects and very long lists stay bounded",
    "R-210": "a bad remote cluster harms only what lies in it",
    # ---- leadership and life cycle
    "R-301": "a leader that was frozen writes no more",
    "R-302": "wrong and jumping clocks make no second writer",
    "R-303": "an orderly end within ten seconds, at any moment",
    "R-304": "one broken reconcile harms no other",
    "R-305": "full disks, few descriptors and little memory are told, and corrupt nothing",
    "R-306": "taking over from the originals, and from our own last release, restarts no pod",
    "R-307": "a promise to the outside survives a restart",
    "R-308": "repeated and parallel requests make one thing",
    # ---- bad input
    "R-401": "any bytes to any parser give an answer",
    "R-402": "documents that are too deep, too large or ambiguous are refused",
    "R-403": "hostile archives are refused before anything of them is used",
    "R-404": "a hostile template costs its budget and nobody else's",
    "R-405": "templates reach nothing outside of their request",
    "R-406": "a bad rendered object is named before the first write",
    "R-407": "what the schema cannot express is refused twice: at the door and in the pass",
    "R-408": "names from outside are checked for their place",
    "R-409": "circles among dependencies are named and block no deletion",
    "R-410": "text nested deeper than 100 levels is refused before a recursive parser reads it",
    "R-411": "input that unfolds is bounded in bytes before the work, and so is every cache",
    "R-412": "no data of a tenant or a server blocks the event loop for more than 100 ms",
    "R-413": "unusable text, hosts, ports, certificates, uids and numbers give one object a named condition",
    # ---- privilege and tenancy
    "R-501": "content of tenants is applied with the identity that the mode asks for",
    "R-502": "references across namespaces can be forbidden",
    "R-503": "a kubeconfig from a Secret may hold inline data only",
    "R-504": "the operator's rights are just those that it uses",
    "R-505": "deletions asked for by labels stay inside of our inventory",
    "R-506": "target namespaces taken from data are checked",
    "R-507": "one tenant's flood at most doubles the others' waiting",
    "R-508": "the product starts no program but the renderer, and writes to no shared place",
    "R-509": "deletions, delete hooks and look-ups act with the identity that applied the object",
    "R-510": "one object that cannot be decoded is skipped and reported; the watch of its kind continues",
    "R-511": "a slow source or remote API server occupies no worker and no connection of others",
    "R-512": "an unexpected exception in a task stops that task only, with condition, metric, log and back-off",
    # ---- outgoing calls
    "R-601": "addresses from data are checked when they are connected to",
    "R-602": "outgoing calls have limits of time and size",
    "R-603": "credentials go to their own origin only",
    "R-604": "artifacts are verified, and cached apart where they hold secrets",
    # ---- servers
    "R-701": "malformed, huge, slow and very many requests get an answer",
    "R-702": "strangers cannot learn what exists",
    "R-703": "tokens are verified by strict rules",
    "R-704": "a client certificate in a header counts only from the gateway",
    "R-705": "tokens of one application open no other's data",
    "R-706": "admission webhooks rotate their certificate without a refused call",
    "R-707": "metrics and probes give away nothing, and can be guarded",
    "R-708": "the dashboard acts as its user and trusts no input",
    # ---- secrets
    "R-801": "marked secret values are found nowhere",
    "R-802": "decrypted material stays in memory",
    "R-803": "encrypted files are authenticated, and failures of it named",
    "R-804": "secret values in names, annotations, refusals and answers are masked wherever they are shown",
    # ---- the local control plane
    "R-901": "it listens on loopback only, with private files and free ports",
    "R-902": "it ends with its owner, and its data survives",
    "R-903": "what keeps it from starting is told in one message",
    # ---- load
    "R-A1": "a thousand components at once",
    "R-A2": "five hundred Kymas with ten modules each",
    "R-A3": "a thousand tenants, provisioned and upgraded",
    "R-A4": "a steady stream of subscriptions",
    "R-A5": "a cluster full of foreign kinds and Secrets",
    "R-A6": "four hours of faults without growth",
    # ---- acceptance scenarios
    **CAP_SCENARIOS,
}
