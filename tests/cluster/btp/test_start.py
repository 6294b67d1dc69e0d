"""What keeps the BTP Manager from starting is told at once, by name, before it touches the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.btp.process import operator

from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.operator_process import OperatorFailed


async def test_without_the_operands_image_it_exits_with_1_and_names_the_variable(
    btp_cluster: LocalCluster, tmp_path: Path
) -> None:
    async with operator(btp_cluster, tmp_path, environment={}) as running:
        with pytest.raises(OperatorFailed, match="ended with 1 before it was ready"):
            await running.process.start()

        assert running.process.exit_code == 1
        said = running.process.log_text()
        assert "environment variable SAP_BTP_SERVICE_OPERATOR is not set" in said
        assert "Fix:" in said
        assert "Traceback" not in said
        assert not running.proxy.history.count(), "nothing was asked of the cluster"
