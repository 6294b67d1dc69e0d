"""What the pages ask their readers to type works as printed, in its order, on a fresh local system.

The last journey is the way of a new user through all operators: their quickstarts, something broken in each and its
cause, a bundle for others, and the take-over from each original, and back. The README is a journey of its own, since it
begins with nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import MEMORY_FOR_TIME
from stellwerk.render.binary import cache_folder
from stellwerk.testing import cluster as clusters
from tests import pages
from tests.pages import ROOT

pytestmark = pytest.mark.timeout(300)

_WITH_SAMPLES = 'eval "$(.venv/bin/stellwerk up --samples | tail -1)"\n'
_BARE = 'eval "$(.venv/bin/stellwerk up --bare | tail -1)"\n'
_ORIGINALS = """
kubectl create deployment btp-manager-controller-manager -n kyma-system --image=example.com/original:1
kubectl get namespace component-operator || kubectl create namespace component-operator
kubectl create deployment component-operator -n component-operator --image=example.com/original:1
kubectl create deployment klm-controller-manager -n kcp-system --image=example.com/original:1
"""
_ORIGINAL_CAP_OPERATOR = """
kubectl create namespace cap-operator-system
for kind in deploy/crds/*s.sme.sap.com.yaml; do kubectl create -f "$kind"; done
cat > original.yaml <<'END'
{apiVersion: v1, kind: ServiceAccount, metadata: {name: cap-operator-webhook, namespace: cap-operator-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cap-operator-webhook}
rules: [{apiGroups: [sme.sap.com], resources: ["*"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cap-operator-webhook}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cap-operator-webhook}
subjects: [{kind: ServiceAccount, name: cap-operator-webhook, namespace: cap-operator-system}]
---
apiVersion: v1
kind: Service
metadata: {name: cap-operator-webhook, namespace: cap-operator-system}
spec: {selector: {app: original}, ports: [{port: 443, targetPort: 1443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: cap-operator}
webhooks:
- name: original.sme.sap.com
  clientConfig: {service: {name: cap-operator-webhook, namespace: cap-operator-system, path: /original}}
  rules: [{apiGroups: [sme.sap.com], apiVersions: [v1alpha1], operations: [CREATE], resources: [captenants]}]
  sideEffects: None
  admissionReviewVersions: [v1]
END
for name in controller subscription-server webhook; do cat >> original.yaml <<END
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cap-operator-$name, namespace: cap-operator-system}
spec:
  selector: {matchLabels: {app: original}}
  template:
    metadata: {labels: {app: original}}
    spec: {containers: [{name: it, image: example.com/original:1}]}
END
done
kubectl apply -f original.yaml
echo 'controller: {replicas: 1}' > original-values.yaml
(echo capOperator:; sed 's/^/  /' original-values.yaml) > values.yaml
"""
_RELEASE = """
mkdir -p chart/templates
echo '{apiVersion: v2, name: shop, version: 1.0.0}' > chart/Chart.yaml
cat > chart/templates/shop.yaml <<'END'
{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}, data: {tier: {{ .Values.tier }}}}
END
echo '{apiVersion: v1, kind: ConfigMap, metadata: {name: extra}}' > extra.yaml
echo '{tier: front}' > defaults.yaml
echo '{tier: back}' > production.yaml
"""
_CAUSES = (
    r"Component stellwerk-sample/warehouse does not exist .*<- root cause",
    r"CAPTenant stellwerk-bookshop/newcomer has no annotation sme.sap.com/subscription-context-secret.*<- root cause",
    r"ModuleTemplate kcp-system/telemetry-9.9.9 does not exist.*<- root cause",
    r"Secret kyma-system/sap-btp-manager .*<- root cause",
)
"""Of what is broken on the pages, one for each operator."""
_OF_ONE_OBJECT = (
    r"RemoteInstallation .*Kyma kcp-system/demo ",
    r"\[operator-kyma\] Kyma kcp-system/demo: RemoteInstallation: ",
    r"stellwerk-bundle-[-0-9]+.tar.gz$",
)
_TAKEN_OVER = (
    r"BtpOperator kyma-system/btpoperator: nothing differs, \d+ unchanged$",
    r"Component stellwerk-sample/web: nothing differs, \d+ unchanged$",
    r"Kyma kcp-system/demo: nothing differs, \d+ unchanged$",
    r"Manifest kcp-system/demo-telemetry-812080235: nothing differs, \d+ unchanged$",
    r"Deployment kyma-system/btp-manager-controller-manager is stopped$",
    r"Deployment component-operator/component-operator is stopped$",
    r"Deployment kcp-system/klm-controller-manager is stopped$",
    r"deployment.apps/btp-manager-controller-manager serverside-applied$",
    r"deployment.apps/component-operator serverside-applied$",
    r"deployment.apps/klm-controller-manager serverside-applied$",
)
_CAP_IS_TAKEN_OVER = (
    r"Deployment cap-operator-system/cap-operator-(controller|webhook|subscription-server) is stopped$",
    r"deployment.apps/cap-operator-controller created$",
)


@dataclass(frozen=True, slots=True)
class Journey:
    """Pages that are read one after the other in one shell: what was there before, and the reader's own names.

    `shows`: what readers see, as patterns of lines.
    """

    pages: tuple[str, ...]
    before: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()


JOURNEYS = (
    Journey(("README.md",)),
    Journey(("docs/component-operator.md", "docs/install.md", "docs/upgrade.md"), _BARE),
    Journey(("docs/migration/cap-operator.md",), _BARE + _ORIGINAL_CAP_OPERATOR, shows=_CAP_IS_TAKEN_OVER),
    Journey(
        (
            "docs/cap-quickstart.md",
            "docs/local.md",
            "docs/tasks.md",
            "docs/troubleshooting.md",
            "docs/clm.md",
            "docs/kyma.md",
            "docs/migration/btp-manager.md",
            "docs/migration/component-operator.md",
            "docs/migration/kyma-lifecycle-manager.md",
            "docs/quickstart.md",
            "docs/operator-author.md",
        ),
        _WITH_SAMPLES + _ORIGINALS + _RELEASE,
        {"NAME": "web", "NAMESPACE": "stellwerk-sample", "FOLDER": "~/.local/state/stellwerk/local/module"},
        (*_CAUSES, *_OF_ONE_OBJECT, *_TAKEN_OVER),
    ),
)

# A verb that did what it was asked to may exit with 1 (an object is not ready) or 3 (something differs).
_SHELL = r"""
judge() {
  case "$2" in *stellwerk\ *|*greeter.py\ *) case "$1" in 1|3) return 0;; esac;; esac
  echo "FAILED with $1: $2" >&2
  exit 99
}
set -Euo pipefail
trap 'trap - ERR; kill $(jobs -p) 2>/dev/null; wait' EXIT
trap 'judge $? "$BASH_COMMAND"' ERR
"""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Path]:
    """The home of a reader who has a checkout with an environment in it, and has started nothing yet."""
    checkout = tmp_path / "stellwerk"
    checkout.mkdir()
    for name in ("Makefile", "deploy", "samples"):
        (checkout / name).symlink_to(ROOT / name)
    (checkout / ".venv").symlink_to(sys.prefix)
    for name in ("requirements.lock", "pyproject.toml"):
        (checkout / name).touch()
        os.utime(checkout / name, (0, 0))  # older than the environment, which make therefore leaves as it is
    state = tmp_path / ".local/state/stellwerk"
    state.parent.mkdir(parents=True)
    # Among the clusters of the session, so that it ends with it; its name is the same for all readers.
    state.symlink_to(clusters.session_folder())
    with (clusters.session_folder() / "reader.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield tmp_path
        LocalCluster(clusters.session_folder() / "local").down()


def typed(text: str, home: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG", "TMPDIR")}
    return subprocess.run(
        ["bash", "-c", f"{_SHELL}{text}\nexit 0"],
        env={
            **kept,
            **MEMORY_FOR_TIME,
            "HOME": str(home),
            "STELLWERK_CACHE": str(cache_folder()),
            "PYTHONUTF8": "1",
        },
        cwd=home / "stellwerk",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: str(journey.pages[0]))
def test_every_command_works_as_printed(journey: Journey, reader: Path) -> None:
    text = "".join(pages.script(page, journey.values) for page in journey.pages)
    done = typed(journey.before + text, reader)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    assert not re.findall(r"^Error: .*", done.stderr, re.MULTILINE), done.stderr
    assert [each for each in journey.shows if not re.search(each, done.stdout, re.MULTILINE)] == [], done.stdout
    if journey.pages == ("README.md",):
        assert_shown_as_printed(done.stdout)
        assert "SaaS registry: callback /callback/demo: SUCCEEDED" in done.stdout
        assert not (clusters.session_folder() / "local").exists()


def assert_shown_as_printed(shown: str) -> None:
    """The table in the README is the one that the program prints, but for ages."""
    printed = re.findall(r"^NAMESPACE .*?(?=^\S )", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    rows = [line.split()[:3] for line in printed[0].splitlines()]
    assert len(rows) > 4
    assert [row for row in rows if not re.search(r"^" + r" +".join(map(re.escape, row)), shown, re.MULTILINE)] == []
