"""The bill of materials: all three kinds of parts, and the same text each time."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from deploy.image import sbom
from deploy.image.config import Release
from deploy.image.debian import Package
from deploy.image.sbom import GoModule, PythonPackage
from deploy.image.tree import File

RELEASE = Release("stellwerk", "1.2.3", "Operators", "Apache-2.0", "abc", "", datetime(2026, 1, 2, tzinfo=UTC))
DIGEST = "sha256:" + "a" * 64
SYSTEM = [Package("libstdc++6", "14.2.0-19", "b" * 64), Package("zlib1g", "1:1.3.1", "c" * 64)]
PYTHON = [
    PythonPackage("attrs", "26.1", "MIT"),
    PythonPackage("stellwerk", "1.2.3", "Apache-2.0", frozenset({"attrs", "not-installed"})),
]
LINKED = [GoModule("stdlib", "1.26.8"), GoModule("helm.sh/helm/v4", "v4.2.0")]


def test_the_bill_has_all_parts_by_package_url() -> None:
    bill = json.loads(sbom.bill(RELEASE, DIGEST, SYSTEM, PYTHON, LINKED))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {part["purl"] for part in bill["components"] if "purl" in part} == {
        "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=debian-13",
        "pkg:deb/debian/zlib1g@1:1.3.1?arch=amd64&distro=debian-13",
        "pkg:pypi/attrs@26.1",
        "pkg:pypi/stellwerk@1.2.3",
        "pkg:golang/stdlib@1.26.8",
        "pkg:golang/helm.sh/helm/v4@v4.2.0",
    }
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]


def test_everything_is_reached_from_the_image() -> None:
    bill = json.loads(sbom.bill(RELEASE, DIGEST, SYSTEM, PYTHON, LINKED))
    edges = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    reached, todo = set(), ["image"]
    while todo:
        part = todo.pop()
        if part not in reached:
            reached.add(part)
            todo += edges.get(part, [])
    assert reached == {"image", *(part["bom-ref"] for part in bill["components"])}


def test_the_bill_of_an_image_is_the_same_each_time() -> None:
    assert sbom.bill(RELEASE, DIGEST, SYSTEM, PYTHON, LINKED) == sbom.bill(RELEASE, DIGEST, SYSTEM, PYTHON, LINKED)


def test_distributions_are_read_from_their_metadata() -> None:
    metadata = (
        "Metadata-Version: 2.4\nName: Prometheus_Client\nVersion: 1.0\nLicense-Expression: Apache-2.0\n"
        "Requires-Dist: twisted ; extra == 'twisted'\nRequires-Dist: Typing.Extensions>=4\n\nText\n"
    )
    tree = {"lib/prometheus_client-1.0.dist-info/METADATA": File(metadata.encode()), "lib/other": File(b"")}
    assert sbom.python_packages([tree]) == [
        PythonPackage("prometheus-client", "1.0", "Apache-2.0", frozenset({"twisted", "typing-extensions"}))
    ]


def test_a_replaced_module_is_listed_as_what_replaces_it() -> None:
    printed = (
        "/bin/renderer: go1.26.8\n\tpath\trenderer\n\tmod\trenderer\t(devel)\t\n\tdep\texample.org/a\tv1.0.0\th1:x=\n"
        "\tdep\texample.org/b\tv1.0.0\n\t=>\texample.org/fork\tv1.1.0\th1:y=\n\tbuild\t-trimpath=true\n"
    )
    assert sbom.modules(printed) == [
        GoModule("stdlib", "1.26.8"),
        GoModule("example.org/a", "v1.0.0"),
        GoModule("example.org/fork", "v1.1.0"),
    ]
