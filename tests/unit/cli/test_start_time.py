"""Start time is a feature: what help and version may cost."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.cli.verb_tree import VERBS

pytestmark = pytest.mark.heavy

HEAVY = {"aiohttp", "cryptography", "rich", "yaml", "msgspec", "prometheus_client", "asyncio"}
PROBE = """
import json, sys
from stellwerk.cli.main import run
sys.stdout = sys.stderr
code = run(sys.argv[1:])
sys.__stdout__.write(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""

ALL_MODULES = """
import json, sys
from stellwerk.cli.main import run
sys.stdout = sys.stderr
run(sys.argv[1:])
sys.__stdout__.write(json.dumps(sorted(sys.modules)))
"""

COMPLETION = """
import json, sys
from stellwerk.cli.main import run
sys.stdout = sys.stderr
try:
    run([])
except SystemExit:
    pass
assert "click.shell_completion" in sys.modules
sys.__stdout__.write(json.dumps(sorted({*sys.modules})))
"""
KUBECONFIG = {
    "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "users": [{"name": "a", "user": {"token": "t"}}],
    "current-context": "a",
}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["-h"], ["-v", "--version"], ["completion", "bash"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, check=True)
    code, modules = json.loads(done.stdout)
    assert code == 0
    assert set() == HEAVY & set(modules)


@pytest.mark.parametrize("verb", [name for name in VERBS if name != "run"])
def test_help_of_a_verb_imports_nothing_heavy(verb: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROBE, verb, "--help"], capture_output=True, check=True)
    code, modules = json.loads(done.stdout)
    assert code == 0
    assert set() == HEAVY & set(modules)


def test_a_verb_that_asks_an_api_server_pays_for_no_web_server(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    command = [sys.executable, "-c", PROBE, "get", "configmaps"]
    done = subprocess.run(command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, capture_output=True, check=True)
    code, modules = json.loads(done.stdout)
    assert code == 1, "the server does not answer"
    assert {"asyncio", "msgspec"} == HEAVY & {*modules} - {"yaml"}


@pytest.mark.parametrize(("verb", "most"), [("get", 115), ("why", 130)])
def test_a_list_imports_few_modules_of_ours(verb: str, most: int, tmp_path: Path) -> None:
    """Most of the processor time of a short call is imports, about a millisecond each: their number is held here."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    command = [sys.executable, "-c", ALL_MODULES, verb, "-A"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "STELLWERK_STATE": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    modules = json.loads(done.stdout)
    assert f"stellwerk.cli.look.{verb}" in modules
    assert len([name for name in modules if name.startswith("stellwerk.")]) <= most
    others = {
        "kube.watch.watch",
        "runtime.control.controller",
        "local.cluster",
        "releases.release",
        "cli.shell.jsonpath",
    }
    assert set() == {f"stellwerk.{name}" for name in others} & {*modules}


@pytest.mark.parametrize("module", ["act.reconcile", "act.suspension", "act.wait", "look.logs"])
def test_a_verb_that_waits_or_reads_logs_pays_for_no_server(module: str) -> None:
    program = f"import json, sys, stellwerk.cli.{module}; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = {*json.loads(done.stdout)}
    assert f"stellwerk.cli.{module}" in loaded
    assert set() == {"prometheus_client", "http.server", "cryptography", "aiohttp"} & loaded


@pytest.mark.parametrize(
    ("line", "heavy"),
    [
        ("get ", {"msgspec", "yaml", "asyncio", "http"}),
        ("get -o ", {"msgspec", "yaml", "asyncio", "http"}),
        ("down --name ", {"msgspec", "yaml", "asyncio", "http", "cryptography"}),
        ("get -n ", {"aiohttp", "asyncio", "rich", "yarl"}),
        ("get cm ", {"aiohttp", "asyncio", "rich", "yarl"}),
    ],
)
def test_a_completion_imports_only_what_it_needs(line: str, heavy: set[str], tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    words = f"stellwerk {line}"
    shell = {"_STELLWERK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
    environment = {**os.environ, **shell, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run([sys.executable, "-c", COMPLETION], env=environment, capture_output=True, check=True)
    modules = json.loads(done.stdout)
    assert set() == heavy & set(modules)
    assert "stellwerk.cli.objects.health" not in modules


@pytest.mark.parametrize(("argument", "seconds"), [("--version", 0.08), ("--help", 0.15)])
def test_help_and_version_come_at_once(argument: str, seconds: float) -> None:
    """Processor time, the best of three, and three times the promise: other work on the machine is not our cost."""
    assert min(_processor_seconds(argument) for _ in range(3)) < 3 * seconds


def _processor_seconds(argument: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "stellwerk.cli.main", argument], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    "module",
    [
        "btp.controllers",
        "component.controllers",
        "cap.controllers",
        "cap.subscription.process",
        "cap.webhooks.process",
        "cap_manager.controllers",
    ],
)
def test_a_program_that_has_called_nobody_outside_pays_for_no_client(module: str) -> None:
    program = f"import sys, stellwerk.cli.verbs.run, stellwerk.operators.{module}; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


def test_an_operator_pays_for_no_other() -> None:
    """`stellwerk run btp` up to the moment at which it would log in."""
    program = (
        "import sys, stellwerk.cli.verbs.run, stellwerk.assembly, stellwerk.operators.btp.controllers;"
        "print(*sorted(name for name in sys.modules if name.startswith(('stellwerk.operators.', 'stellwerk.render'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    loaded = done.stdout.split()
    assert "stellwerk.operators.btp.controllers" in loaded
    assert "stellwerk.render.sources.downloads" not in loaded, "the module is not fetched"
    assert not [name for name in loaded if name.endswith(("component.assembled", "component.reconcile"))]


def test_a_preview_pays_for_no_controller() -> None:
    """`stellwerk diff` and `stellwerk render` of a Component read and render, and run nothing."""
    program = (
        "import sys, stellwerk.operators.component.insight.preview;"
        "print(*(name for name in sys.modules if name.endswith(('.blueprints', '.controller', '.manager'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.split() == []
