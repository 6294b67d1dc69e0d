"""What all tests of this folder have in common."""

from __future__ import annotations

from hypothesis import settings

# The deadline of an example is one of the clock on the wall, where a busy machine may stand still for seconds. So it
# only notices what hangs; who promises to be quick is measured by the processor's time (see `promptly`). The limit of
# what drawing examples may take grows with it.
settings.register_profile("busy", deadline=30_000)
settings.load_profile("busy")
