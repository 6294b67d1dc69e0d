"""Puts the native renderer into a wheel, which is then one for this platform, with the licences of what is in it.

An editable install carries none: there the program is built into the cache folder, from the source as it is
(`make control-plane`). The program is static, so that any Linux of the architecture will do.
"""

from __future__ import annotations

import platform
import sys
import tempfile
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
        from stellwerk.local.build import renderer

        program = renderer.ensure(self.app.display_info)
        build_data["force_include"][str(program)] = f"stellwerk/render/bin/{program.name}"
        build_data["force_include"][str(self._licences())] = "stellwerk/render/bin/LICENSES"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def _licences(self) -> Path:
        """A file with the licences of the program's modules; it lives as long as this object, which is the build."""
        from stellwerk.local.build import renderer

        self._folder = tempfile.TemporaryDirectory(prefix="stellwerk-licences-")
        file = Path(self._folder.name) / "LICENSES"
        file.write_text(renderer.licence_texts(self.app.display_info))
        return file


def _platform() -> str:
    machine = platform.machine()
    if sys.platform == "darwin":
        return f"macosx_12_0_{machine}"
    return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
