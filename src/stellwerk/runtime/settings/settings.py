"""What is set for a process rather than for its operator. Light to import: every `--help` and completion reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """What concerns the process and not what it operates; the names are those of controller-runtime's flags."""

    metrics_bind_address: str = ":8080"
    metrics_secure: bool = False
    metrics_cert_path: str = ""
    health_probe_bind_address: str = ":8081"
    leader_elect: bool = False
    kubeconfig: str = ""
    zap_log_level: str = "info"
    zap_encoder: str = "json"
    zap_devel: bool = False
    zap_stacktrace_level: str = "error"
    zap_time_encoding: str = "epoch"
    allow_unconfined_renderer: bool = False
