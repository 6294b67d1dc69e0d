"""Prints the avoided words in the project's texts; ends with 1 where there are any.

usage: python -m tests.language [PATH]    with PATH, all findings below it, pending ones too
"""

from __future__ import annotations

import sys

from tests.language.check import bounds, exceptions, findings, over, words


def main() -> int:
    """Check, and print."""
    found = findings(words(), exceptions())
    if len(sys.argv) > 1:
        print(*(finding for finding in found if finding.path.startswith(sys.argv[1])), sep="\n")
        return 0
    wrong = over(found, bounds())
    print(*wrong, sep="\n", file=sys.stderr)
    print(f"{len(found)} avoided words are left to rewrite")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
