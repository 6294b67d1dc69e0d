"""The mutations of the guards, read from the tables beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One guard that is removed or turned around."""

    area: str
    name: str
    guard: str
    """What the product no longer ensures."""
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    """Files or node ids; at least one test of them must fail."""

    def applied_to(self, text: str) -> str:
        """The text of the file with the mutation. Raises ValueError unless `before` occurs exactly once."""
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: the text occurs {text.count(self.before)} times in {self.file}")
        return text.replace(self.before, self.after)


def mutations(folder: Path = HERE) -> tuple[Mutation, ...]:
    """All mutations, by area and in the order of the tables."""
    return tuple(
        Mutation(file.stem, name, entry["guard"], entry["file"], entry["before"], entry["after"], tuple(entry["tests"]))
        for file in sorted(folder.glob("*.toml"))
        for name, entry in tomllib.loads(file.read_text()).items()
    )


def table(everything: Sequence[Mutation], outcomes: Mapping[str, str]) -> str:
    """The outcomes as a Markdown table."""
    rows = [f"| {each.name} | {each.guard} | `{each.file}` | {outcomes[each.name]} |" for each in everything]
    killed = sum(outcome == "killed" for outcome in outcomes.values())
    return "\n".join(
        [
            "# Mutations of guards",
            "",
            f"`make mutants` breaks each guard in a copy of the sources; tests noticed {killed} of {len(rows)}.",
            "",
            "| mutation | guard | file | outcome |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
