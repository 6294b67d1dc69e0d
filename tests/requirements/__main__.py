"""Prints what is proved, what is open, and what is wrong; ends with 1 where something is."""

from __future__ import annotations

import sys

from tests.requirements.catalogue import REQUIREMENTS
from tests.requirements.check import findings, marked, open_ones


def main() -> int:
    """Check, and print."""
    marks, unbuilt = marked(), open_ones()
    wrong = findings(REQUIREMENTS, marks, unbuilt)
    if "--list" in sys.argv[1:]:
        for name, text in REQUIREMENTS.items():
            places = f"in {', '.join(marks[name])}" if name in marks else ""
            proof = "; ".join(part for part in (places, unbuilt.get(name, "")) if part)
            print(f"{name}  {text}\n       {proof}")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(marks)} of {len(REQUIREMENTS)} requirements are named by tests, {len(unbuilt)} are open with a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
