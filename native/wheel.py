"""Puts the native renderer into a wheel, which is then one for this platform.

An editable install carries none: there the program is built into the cache folder, from the source as it is
(`make control-plane`). The program is static, so that any Linux of the architecture will do.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Renderer(BuildHookInterface):  # type: ignore[type-arg] # its parameter is hatchling's own configuration
    """Builds the renderer and adds it to the files of the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects the files."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from stellwerk.local import renderer

        program = renderer.ensure(lambda text: self.app.display_info(text))
        build_data["force_include"][str(program)] = f"stellwerk/render/bin/{program.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"


def _platform() -> str:
    machine = platform.machine()
    if sys.platform == "darwin":
        return f"macosx_12_0_{machine}"
    return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
