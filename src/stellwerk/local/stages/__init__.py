"""How pods live and end on the local cluster, beyond "everything works".

A pod with the annotation (or label) `stellwerk.local/fate` does not get the usual happy life:

- `fail`        it runs, then every container ends with exit code 1; the pod fails if its restart policy is Never, and
                crashes again and again otherwise, as with `crash-loop`
- `crash-loop`  its containers start, end with exit code 1 and wait for the next start (CrashLoopBackOff)
- `hang`        it runs and is ready, but never completes (a Job's pod that never ends)
- `unready`     it runs, but never becomes ready
- `pull-error`  it stays pending, its image cannot be pulled

Removing the annotation lets the usual life go on; an empty fate counts as none. A pod with another fate, or any other
annotation or label `stellwerk.local/...`, stays pending and names the fates that exist (`pod-unknown-fate.yaml`).

No fate makes the pods of a Deployment fail: a ReplicaSet replaces a failed pod at once, without end and without pause.
A kubelet restarts the containers of such pods in place, with pauses.
"""

from __future__ import annotations

from pathlib import Path

FATE = (
    "first((.metadata.annotations, .metadata.labels) // {} | to_entries[]"
    ' | select((.key | startswith("stellwerk.local/")) and .value != "")'
    ' | if .key == "stellwerk.local/fate" then .value else .key end)'
)
"""The expression by which the pod runner reads a pod's fate (jq syntax). A misspelt key is an unknown fate."""


def files() -> list[Path]:
    """The stage files of ours."""
    return sorted(Path(__file__).parent.glob("*.yaml"))
