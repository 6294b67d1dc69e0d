"""How each component is started: names and flags, decided here and nowhere else (pure).

etcd listens on Unix sockets in the cluster's private folder: no port, no certificate, and no other user of the machine
can read Secrets through it. Controller manager and scheduler serve nothing. So a cluster owns one port, the API
server's, on loopback.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.local import stages, volumes
from stellwerk.local.build.control_plane import Binaries
from stellwerk.local.host.ports import HOST

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
POD_RUNNER = "kwok"
PROVISIONER = "volumes"

NODE = "local"
ETCD_SOCKET = "etcd.sock"
SERVICE_RANGE = "10.96.0.0/16"
POD_RANGE = "10.244.0.0/16"

MEMORY_FOR_TIME: Mapping[str, str] = {"GOGC": "800", "GOMEMLIMIT": "1500MiB"}
"""What the programs of a cluster that lives for minutes (a test's, a benchmark's) have in their environment.

Their heaps are small and the garbage is plenty: with Go's defaults, collecting it is a quarter of what a write costs.
The API server takes about 700 MB more under load instead. Above the limit, garbage is collected as often as needed.
"""

_PROVISIONER_FILES = ("volumes.py", "wire.py")

# Not wanted: whatever watches machines. There are none, and a node that sends no heartbeat must stay ready.
_CONTROLLERS_LEFT_OUT = (
    "node-lifecycle-controller",
    "node-ipam-controller",
    "node-route-controller",
    "cloud-node-lifecycle-controller",
    "service-lb-controller",
    "persistentvolume-attach-detach-controller",
    "horizontal-pod-autoscaler-controller",
    "taint-eviction-controller",
    "device-taint-eviction-controller",
)


# Fair queues take a tenth of the processor time of a request, and a test is the only client. Without them the limits
# count all requests at once, so they are higher than any test needs.
_WITHOUT_FAIRNESS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=2000",
    "--max-mutating-requests-inflight=1000",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What kind of cluster.

    `port`: the API server's port; 0 chooses a free one and keeps it.
    `controllers`: run the controller manager (garbage collection, namespaces, Deployments, Jobs, service accounts).
    `pods`: run scheduler, pod runner, provisioner and one node, so that pods live and claims are bound; needs
    `controllers` to be of much use.
    `durable`: write data to the disk before answering; off for tests, where a power cut costs nothing.
    `extra_flags`: more flags per component name, appended last, so that they win.
    """

    port: int = 0
    controllers: bool = True
    pods: bool = True
    durable: bool = True
    extra_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def components(self) -> list[str]:
        """The names of what runs, in starting order."""
        controllers = [CONTROLLER_MANAGER] if self.controllers else []
        pods = [SCHEDULER, POD_RUNNER, PROVISIONER] if self.pods else []
        return [ETCD, API_SERVER, *controllers, *pods]


def command(name: str, folder: Path, port: int, options: Options, binaries: Binaries) -> list[str]:
    """Program and arguments of a component of the cluster in `folder`, whose API server has this port."""
    extra = list(options.extra_flags.get(name, ()))
    if name == POD_RUNNER:
        return [str(binaries.pod_runner), *_pod_runner(folder, binaries), *extra]
    if name == PROVISIONER:
        return [*_provisioner(folder, port), *extra]
    flags = {
        ETCD: lambda: _etcd(folder, durable=options.durable),
        API_SERVER: lambda: _api_server(folder, port, durable=options.durable),
        CONTROLLER_MANAGER: lambda: _controller_manager(folder),
        SCHEDULER: lambda: _scheduler(folder),
    }[name]()
    return [str(binaries.control_plane), name, *flags, *extra]


def files(name: str, binaries: Binaries) -> list[Path]:
    """The files besides its program that a component reads when it starts, and that an update can change in place."""
    if name == POD_RUNNER:
        return [*binaries.stages, *stages.files()]
    return [Path(__file__).with_name(module) for module in _PROVISIONER_FILES] if name == PROVISIONER else []


def environment(name: str, options: Options, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a component, from the one of the command that starts it.

    etcd reads a setting from each variable ETCD_*, which users set for `etcdctl`, and refuses to start with many.
    """
    own = {} if options.durable or name == PROVISIONER else MEMORY_FOR_TIME
    return {**{key: text for key, text in inherited.items() if name != ETCD or not key.startswith("ETCD_")}, **own}


def _etcd(folder: Path, *, durable: bool) -> list[str]:
    # The addresses are relative to the working folder, so a long path of the folder does not hit the limit of a
    # socket's name. The port 0 satisfies the parser of advertised addresses and means nothing. The path of the data is
    # absolute, because some containers recognize a process only by the folder in its arguments.
    return [
        "--name=local",
        f"--data-dir={folder}/data",
        f"--listen-client-urls=unix://{ETCD_SOCKET}",
        f"--advertise-client-urls=unix://{ETCD_SOCKET}:0",
        "--listen-peer-urls=unix://peer.sock",
        "--initial-advertise-peer-urls=unix://peer.sock:0",
        "--initial-cluster=local=unix://peer.sock:0",
        "--log-level=warn",
        *([] if durable else ["--unsafe-no-fsync"]),
    ]


def _api_server(folder: Path, port: int, *, durable: bool) -> list[str]:
    keys = folder / "pki"
    # A cluster that lives for weeks must not fill the disk; in a test's, a rotated log would hide what was counted.
    audit_megabytes = 50 if durable else 4000
    return [
        f"--etcd-servers=unix:{ETCD_SOCKET}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={keys}/server.crt",
        f"--tls-private-key-file={keys}/server.key",
        f"--client-ca-file={keys}/ca.crt",
        f"--service-account-key-file={keys}/service-accounts.key",
        f"--service-account-signing-key-file={keys}/service-accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        # The endpoints of the Service "kubernetes" may not be a loopback address, and nothing here would use them.
        "--endpoint-reconciler-type=none",
        "--authorization-mode=RBAC",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--profiling=false",
        # It taints a new node until the node lifecycle controller finds it ready, and that controller does not run.
        "--disable-admission-plugins=TaintNodesByCondition",
        f"--audit-policy-file={folder}/audit-policy.json",
        f"--audit-log-path={folder}/audit.log",
        f"--audit-log-maxsize={audit_megabytes}",
        "--audit-log-maxbackup=1",
        *([] if durable else _WITHOUT_FAIRNESS),
    ]


def _controller_manager(folder: Path) -> list[str]:
    keys = folder / "pki"
    return [
        f"--kubeconfig={folder}/credentials/{CONTROLLER_MANAGER}.kubeconfig",
        f"--root-ca-file={keys}/ca.crt",
        f"--cluster-signing-cert-file={keys}/ca.crt",
        f"--cluster-signing-key-file={keys}/ca.key",
        f"--service-account-private-key-file={keys}/service-accounts.key",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--controllers=" + ",".join(["*", *(f"-{name}" for name in _CONTROLLERS_LEFT_OUT)]),
    ]


def _scheduler(folder: Path) -> list[str]:
    return [
        f"--kubeconfig={folder}/credentials/{SCHEDULER}.kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _pod_runner(folder: Path, binaries: Binaries) -> list[str]:
    return [
        f"--kubeconfig={folder}/credentials/{POD_RUNNER}.kubeconfig",
        f"--manage-single-node={NODE}",
        f"--node-ip={HOST}",
        f"--cidr={POD_RANGE}",
        "--node-lease-duration-seconds=0",
        *(f"--config={file}" for file in files(POD_RUNNER, binaries)),
    ]


def _provisioner(folder: Path, port: int) -> list[str]:
    # -P: the working folder is the cluster's, and nothing is imported from it.
    program = [sys.executable, "-P", "-m", volumes.__name__]
    return [*program, str(port), f"{folder}/pki/ca.crt", f"{folder}/credentials/{PROVISIONER}.pem"]


def audit_policy() -> dict[str, object]:
    """Who asked what, without bodies; the control plane's talk with itself is left out."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "users": ["system:apiserver", *IDENTITIES]},
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata"},
        ],
    }


IDENTITIES: Mapping[str, str] = {
    "system:kube-controller-manager": CONTROLLER_MANAGER,
    "system:kube-scheduler": SCHEDULER,
    "stellwerk:pod-runner": POD_RUNNER,
    "stellwerk:volume-provisioner": PROVISIONER,
}
"""Who the components are to the API server: user name to component."""

ADMINISTRATORS = frozenset({POD_RUNNER, PROVISIONER})
"""Components that act as administrators. The others have their roles from Kubernetes."""

_RESOURCES = {"cpu": "1k", "memory": "1Ti", "pods": "1M", "ephemeral-storage": "1Pi"}


def node() -> dict[str, object]:
    """The one node of a local cluster."""
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/role": "agent"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": _RESOURCES, "allocatable": _RESOURCES},
    }
