"""`-f -` and SOURCE `-` read standard input, as with kubectl."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from stellwerk.cli.main import run

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: piped}\n"
COMPONENT = """\
apiVersion: core.cs.sap.com/v1alpha1
kind: Component
metadata: {name: web, namespace: shop}
spec: {sourceRef: {fluxGitRepository: {name: x}}}
"""


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False))


def test_a_release_takes_manifests_from_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, CONFIG)
    assert run(["template", "rel", "-", "--offline"]) == 0, capsys.readouterr()
    assert "name: piped" in capsys.readouterr().out


def test_a_component_is_read_from_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed(monkeypatch, COMPONENT)
    assert run(["render", "-f", "-"]) == 1
    assert "Component shop/web" in capsys.readouterr().err


def test_what_the_pipe_holds_is_named_when_it_is_no_component(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, CONFIG)
    assert run(["diff", "-f", "-", "-n", "shop", "--server", "http://127.0.0.1:1"]) == 2
    assert "it holds 0 objects of kind" in capsys.readouterr().err
