"""Imports that run when a module is first used, for parts that only some calls of the program need.

    with lazy_imports(__name__):
        from stellwerk.operators.btp import controllers, settings

The block binds `controllers` and `settings` and imports neither; `settings.TABLE` does. For type checkers, editors and
import-linter these are imports like any other. Python 3.15 has them as `lazy import` (PEP 810).

Rejected: an import inside a function around each part, which costs five lines and a name for every one.
Rejected: strings such as `"stellwerk.operators.btp.settings:TABLE"`, whose targets no type checker compares with what
is expected. Rejected: `importlib.util.LazyLoader`, which puts modules that are not loaded into `sys.modules`, where a
second import, or a search through all modules, loads them.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from types import ModuleType

_one_block = Lock()
"""Held while `builtins.__import__` is replaced."""


class LazyModule(ModuleType):
    """The placeholder of a module, which it imports when an attribute is read."""

    def __getattr__(self, name: str) -> object:
        """The attribute of the module. Raises ImportError, AttributeError."""
        return getattr(import_module(self.__name__), name)


@contextmanager
def lazy_imports(importer: str) -> Iterator[None]:
    """Make the imports inside lazy: `from package import module` and `import module`, without a dot.

    `importer` is the `__name__` of the module with the block; other threads import as usual meanwhile.
    """

    def lazy(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if globals is None or globals.get("__name__") != importer:
            return eager(name, globals, locals, fromlist, level)
        package = LazyModule(name)
        vars(package).update({module: LazyModule(f"{name}.{module}") for module in fromlist or ()})
        return package

    with _one_block:
        eager, builtins.__import__ = builtins.__import__, lazy
        try:
            yield
        finally:
            builtins.__import__ = eager
