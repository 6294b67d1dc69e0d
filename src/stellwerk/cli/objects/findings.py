"""The findings about an object, as lines and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from stellwerk.cli.objects import object_summary
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.shell.text import Style, escaped
from stellwerk.kube.types.model import JsonObject
from stellwerk.runtime.insight.diagnosis import Finding

_GAP = "   "
_WIDEST = 100
_ROOT = "<- root cause"


def told(seen: ObjectSummary, style: Style, now: datetime | None = None) -> list[str]:
    """The lines for people: the object, the tree below it, and what to do next."""
    tree = drawn(once(seen.diagnosis.findings or _only_message(seen)), style)
    remarks = [f"{style.painted('Remark:', 'strong')} {escaped(remark)}" for remark in seen.diagnosis.remarks]
    lines = [
        object_summary.headline(seen, style, now),
        *tree,
        *remarks,
        *object_summary.left_out(seen.diagnosis.hidden),
    ]
    if seen.diagnosis.next_step:
        lines.append(f"{style.painted('Next:', 'strong')} {escaped(seen.diagnosis.next_step)}")
    return lines


def _only_message(seen: ObjectSummary) -> tuple[Finding, ...]:
    """The message of the object itself, where no operator knows more."""
    if seen.health.is_ready or not seen.health.message:
        return ()
    return (Finding(seen.health.message, seen.health.reason),)


def drawn(findings: Sequence[Finding], style: Style) -> list[str]:
    """The tree. Reasons stand below each other. A line without one is not padded, and a long one pads no other."""
    branches = list(_branches(findings, ""))
    width = max((len(stem) for stem, finding in branches if _remark(finding) and len(stem) <= _WIDEST), default=0)
    return [_line(style.drawn(stem), width, finding, style) for stem, finding in branches]


def once(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The tree in which each message is read once: at the deepest level that has it (pure).

    Objects hand on the message of the one below: what follows a colon and is repeated below is left out, and a level
    without anything else is, but for its reason.
    """
    told: list[Finding] = []
    for finding in findings:
        below = once(finding.because)
        said = [*_texts(below)]
        if below and finding.text.removesuffix(".") in said:
            told += (replace(below[0], reason=below[0].reason or finding.reason), *below[1:])
        else:
            told.append(replace(finding, text=_without_message(finding.text, said), because=below))
    return tuple(told)


def _texts(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield finding.text
        yield from _texts(finding.because)


def _without_message(text: str, said: Sequence[str]) -> str:
    """The text up to the colon before a message that a level below has."""
    for colon in re.finditer(": ", text):
        message = text[colon.end() :].removesuffix(".")
        whole = re.compile(rf"(?<![\w/.-]){re.escape(message)}(?![\w/-])")
        if len(message) >= _LEAST and any(map(whole.search, said)):
            return text[: colon.start()]
    return text


_LEAST = 12
"""Letters of a message: a shorter one may be the same by chance."""


def _branches(findings: Sequence[Finding], indent: str) -> Iterator[tuple[str, Finding]]:
    for position, finding in enumerate(findings):
        is_last = position == len(findings) - 1
        yield f"{indent}{'└─' if is_last else '├─'} {escaped(finding.text)}", finding
        yield from _branches(finding.because, indent + (_GAP if is_last else "│  "))


def _line(stem: str, width: int, finding: Finding, style: Style) -> str:
    remark = _remark(finding)
    if not remark:
        return stem
    return f"{stem:<{width}}{_GAP}{remark.replace(_ROOT, style.painted(_ROOT, 'bad'))}"


def _remark(finding: Finding) -> str:
    parts = [escaped(finding.reason), _ROOT if finding.is_root_cause else ""]
    return _GAP.join(part for part in parts if part)


def as_json(seen: ObjectSummary) -> JsonObject:
    """The same for programs."""
    return {
        "object": object_summary.ref_json(seen.ref),
        "ready": seen.health.ready,
        "state": seen.health.state,
        "reason": seen.health.reason,
        "findings": [_finding_json(finding) for finding in seen.diagnosis.findings or _only_message(seen)],
        "nextStep": seen.diagnosis.next_step,
        "remarks": list(seen.diagnosis.remarks),
        "hidden": list(seen.diagnosis.hidden),
    }


def _finding_json(finding: Finding) -> JsonObject:
    return {
        "text": finding.text,
        "reason": finding.reason,
        "rootCause": finding.is_root_cause,
        "because": [_finding_json(cause) for cause in finding.because],
    }
