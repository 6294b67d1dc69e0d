"""What `stellwerk install` passes to the chart: an image is one word for users, and four values there."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from stellwerk.cli.local import chart
from stellwerk.cli.main import run


@pytest.mark.parametrize(
    ("image", "repository", "tag", "digest"),
    [
        ("stellwerk", "stellwerk", "", ""),
        ("registry.example.com/team/stellwerk:0.1.0", "registry.example.com/team/stellwerk", "0.1.0", ""),
        ("registry.example.com:5000/stellwerk", "registry.example.com:5000/stellwerk", "", ""),
        ("registry.example.com:5000/s:1@sha256:ab", "registry.example.com:5000/s", "1", "sha256:ab"),
        ("s@sha256:ab", "s", "", "sha256:ab"),
    ],
)
def test_an_image_has_repository_tag_and_digest(image: str, repository: str, tag: str, digest: str) -> None:
    assert chart.image_values(image) == {"registry": "", "repository": repository, "tag": tag, "digest": digest}


@pytest.mark.parametrize(
    ("values", "variables"),
    [
        ("{}", {}),
        (
            "capOperator: {controller: {certManager: cert-manager.io, dnsManager: kubernetes}}",
            {"CERT_MANAGER": "cert-manager.io", "DNS_MANAGER": "kubernetes"},
        ),
    ],
)
def test_without_a_cluster_the_controllers_keep_their_defaults_of_certificates_and_dns(
    values: str, variables: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values)
    assert run(["install", "cap", "--image", "example.com/s:1", "--values", str(file), "--print"]) == 0
    deployments = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"] == "Deployment"]
    (container,) = [
        each["spec"]["template"]["spec"]["containers"][0]
        for each in deployments
        if each["metadata"]["name"] == "cap-operator-controller"
    ]
    assert not [each for each in container["args"] if each.startswith(("--cert-manager", "--dns-manager"))]
    given = {each["name"]: each["value"] for each in container["env"] if each["name"].endswith("_MANAGER")}
    assert given == variables
