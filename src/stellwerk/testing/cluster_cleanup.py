"""Takes a test session's clusters down when the session's owner is gone, however it went.

python -m stellwerk.testing.cluster_cleanup PID FOLDER
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from pathlib import Path

from stellwerk.testing.cluster import end_all


def main() -> None:
    """Wait for the end of a process, then end the clusters in a folder."""
    owner, folder = int(sys.argv[1]), Path(sys.argv[2])
    with contextlib.suppress(ProcessLookupError):  # The owner may be gone before we look.
        select.select([os.pidfd_open(owner)], [], [])
    end_all(folder)


if __name__ == "__main__":
    main()
