"""The command lines of operators written in Go, as click understands them (pure).

Go's flag package takes `-chart-path x` for `--chart-path x`, and `--leader-elect=false` for a switch. Deployments of
the original operators are full of both, and ours must start with their arguments unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def normalised(arguments: Sequence[str], *, names: Collection[str], switches: Collection[str] = ()) -> list[str]:
    """The arguments with each known flag spelled `--name`, and each switch `--name` or its negation.

    `names` are the flags that take a value, `switches` those that do not; both without dashes. What is not known is
    passed on as it is, and so is everything after `--`.
    """
    result: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            return [*result, argument, *remaining]
        name, equals, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-") or argument.startswith("---"):
            result.append(argument)
        elif name in switches:
            result.append(_switch(name, equals, value))
        elif name in names:
            result.append(f"--{name}{equals}{value}")
            if not equals and (following := next(remaining, None)) is not None:
                result.append(following)  # a value, even if it looks like a flag: `-expiration-boundary -168h`
        else:
            result.append(argument)
    return result


def negation(switch: str) -> str:
    """The flag that unsets a switch; both without dashes: `leader-elect` and `no-leader-elect`, either way."""
    return switch.removeprefix("no-") if switch.startswith("no-") else f"no-{switch}"


def _switch(name: str, equals: str, value: str) -> str:
    if not equals or value in _TRUE:
        return f"--{name}"
    if value in _FALSE:
        return f"--{negation(name)}"
    return f"--{name}={value}"  # click reports the problem
