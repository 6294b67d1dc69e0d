"""The README of the chart: how it is installed, and the table of its values."""

from __future__ import annotations

import json
from collections.abc import Iterable

from stellwerk.delivery.chart.values import Value

_INTRODUCTION = """\
# The chart of Stellwerk

```shell
helm install stellwerk deploy/chart/stellwerk --namespace kyma-system --create-namespace \\
  --set image.repository=registry.example.com/stellwerk --set componentOperator.enabled=true
```

Each operator has a switch. Its key also accepts every value from `replicaCount` to `serviceAccount.annotations`, which
then replaces the common value for the pods of that operator; an empty value replaces nothing. The key of an operator
with admission webhooks, such as `capOperator`, accepts the values below `webhooks` as well. A key that does not exist
is an error. The roles contain what each operator needs and no wildcard; `componentOperator.rbac.clusterAdmin` is off,
so Components name a service account that the operator impersonates.

`concurrency`, `tenancy` and `egress` set options of all operators that have them. An operator's own option counts
before them unless it is empty.

Each process acts as a ServiceAccount of its own. `serviceAccount.create: false` has it use one that exists in the
namespace of the release; the chart still grants the roles to it, unless `rbac.create` is false. The chart creates no
account for two processes, because each would have the rights of both.

An operator may have servers, which are Deployments of their own. Where their values are below a key of the operator,
such as `capOperator.webhook`, that key accepts the values of every pod as well, and they count before the operator's.

## The values of the original CAP Operator

`capOperator` takes the values of the original's chart unchanged, with their names and defaults, and needs none of them.
To replace an original follow [its page](../../../docs/migration/cap-operator.md), in this order: suspend what deploys
it, save its values and its manifest for the way back, delete its Deployments, whose selectors cannot be changed, and
install:

```shell
helm get values cap-operator --namespace cap-operator-system -o json \\
  | jq '{capOperator: (. + {enabled: true})}' > values.json
helm get manifest cap-operator --namespace cap-operator-system > original.yaml
kubectl delete deployments --namespace cap-operator-system \\
  cap-operator-controller cap-operator-subscription-server cap-operator-webhook
helm install stellwerk deploy/chart/stellwerk --namespace cap-operator-system --values values.json \\
  --set image.repository=registry.example.com/stellwerk --take-ownership
kubectl delete secrets --namespace cap-operator-system --selector owner=helm,name=cap-operator
```

The last command deletes the record of the original's release, and none of its objects, which are of this release now.

An `image` whose `repository` is a program of the original (`ghcr.io/sap/cap-operator/...`) is ignored, and its `tag`
and `digest` with it: all processes run from the image of this chart. The same holds for `componentOperator` and
`ghcr.io/sap/component-operator`. A `tag` or `digest` without `repository` counts for the image of this chart, so remove
it. Objects have the names of a release `cap-operator` of the original; for another one, set
`capOperator.fullnameOverride` to its name. With
`subscriptionServer.domain`, which has no default here, the subscription server gets a certificate, a DNS entry, a
Gateway and a VirtualService.

## Upgrades

Upgrades of the chart upgrade the CustomResourceDefinitions, because they are templates here. All kinds have one stored
version, so there is no conversion.

## Values

"""


def text(table: Iterable[Value]) -> str:
    """The README with these values."""
    rows = [f"| `{value.path}` | `{json.dumps(value.default)}` | {value.help.replace('|', ',')} |" for value in table]
    return _INTRODUCTION + "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *rows, ""])
