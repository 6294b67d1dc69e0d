"""What a Deployment or a pod runs: an operator of ours is found by its command, its settings by flags and variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.kube.types.model import JsonValue, Unstructured, dig


@dataclass(frozen=True, slots=True)
class DeployedProcess:
    """The process of a container."""

    words: Sequence[str]
    """Command and arguments."""
    variables: Mapping[str, str]
    """Without those that a Secret or a ConfigMap holds."""
    container: str = ""
    """The name of its container."""

    def runs(self, operator: str = "") -> bool:
        """Whether it is this operator of ours; without a name, any."""
        is_ours = self.words[:1] and self.words[0].rpartition("/")[2] == "stellwerk"
        return bool(is_ours) and (not operator or [*self.words[1:3]] == ["run", operator])


def of_deployment(deployment: Unstructured) -> Iterator[DeployedProcess]:
    """The processes of its containers. What is no list or no text in it is passed over."""
    return _of_containers(deployment.at("spec", "template", "spec", "containers"))


def of_pod(pod: Unstructured) -> Iterator[DeployedProcess]:
    """The processes of its containers, as those of a Deployment."""
    return _of_containers(pod.at("spec", "containers"))


def _of_containers(containers: JsonValue) -> Iterator[DeployedProcess]:
    for container in containers if isinstance(containers, list) else ():
        words = [str(word) for part in ("command", "args") for word in _listed(dig(container, part))]
        variables = {
            name: value
            for each in _listed(dig(container, "env"))
            if isinstance(name := dig(each, "name"), str) and isinstance(value := dig(each, "value"), str)
        }
        yield DeployedProcess(words, variables, str(dig(container, "name") or ""))


def mounted_secret(deployment: Unstructured, container: str, file: str) -> tuple[str, str]:
    """The name of the Secret that a container sees as a file, and the key; empty where the file is of no Secret."""
    spec = deployment.at("spec", "template", "spec")
    folder, _, name = file.rpartition("/")
    volumes = [
        dig(mount, "name")
        for each in _listed(dig(spec, "containers"))
        for mount in _listed(dig(each, "volumeMounts"))
        if dig(each, "name") == container and str(dig(mount, "mountPath") or "").rstrip("/") == folder
    ]
    for volume in _listed(dig(spec, "volumes")):
        secret = dig(volume, "secret", "secretName")
        if dig(volume, "name") in volumes and isinstance(secret, str):
            items = _listed(dig(volume, "secret", "items"))
            keys = [dig(item, "key") for item in items if dig(item, "path") == name] if items else [name]
            return (secret, str(keys[0])) if keys else ("", "")
    return "", ""


def is_original(deployment: Unstructured, name: str) -> bool:
    """Whether it runs the original of an operator: none of ours, and of this name, in front of which Helm may put the
    name of a release. An empty name is that of none."""
    is_named = bool(name) and f"-{deployment.key.name}".endswith(f"-{name}")
    return is_named and not any(process.runs() for process in of_deployment(deployment))


def _listed(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else ()
