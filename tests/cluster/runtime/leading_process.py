"""A process that writes again and again while it leads: the patient of the freezing test.

Arguments: kubeconfig, namespace. It says `leads` after each write and rests for a moment, and ends with code 3 when it
has lost the lease. The rest is where it can be frozen: a write that has passed the fence and is on its way cannot be
called back by anybody.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.process.leader import LeaderElector, LeadershipLost, Terms

TERMS = Terms(lease_duration_seconds=3, renew_deadline_seconds=2, retry_seconds=0.3)
LEASE = "freezing"
REST_SECONDS = 0.8


async def lead(kubeconfig: Path, namespace: str) -> None:
    config = ClusterConfig.load(kubeconfig)
    async with Client.connect(config) as unfenced:
        elector = LeaderElector(unfenced, LEASE, namespace, terms=TERMS, clock=SystemClock())
        async with Client.connect(config, before_write=elector.fence.check) as fenced:

            async def write_for_ever() -> None:
                number = 0
                while True:
                    number += 1
                    metadata = {"name": "written", "namespace": namespace}
                    await fenced.apply(
                        ConfigMap,
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata}, "data": {"n": str(number)}},
                    )
                    sys.stdout.write("leads\n")
                    sys.stdout.flush()
                    await asyncio.sleep(REST_SECONDS)

            await elector.run(write_for_ever)


if __name__ == "__main__":
    try:
        asyncio.run(lead(Path(sys.argv[1]), sys.argv[2]))
    except LeadershipLost as lost:
        sys.stderr.write(f"{lost}\n")
        sys.exit(3)
