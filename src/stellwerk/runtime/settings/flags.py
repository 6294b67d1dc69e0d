"""A table of settings as a command line: what click is told of each, and what is made of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")


class Parsed(click.ParamType[object]):
    """Reads a flag's text. `read` raises `ValueError` saying what is expected."""

    name = "value"

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The flag's value. Fails with what is expected."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def option(flag: str, read: Callable[[str], object], *, help: str, default: str) -> click.Option:
    """A flag with a value. It is None where nobody says it; `default` is what holds then, for people."""
    text = f"{help} [default: {default or 'none'}]"
    return click.Option([f"--{flag}"], type=Parsed(read), default=None, metavar="TEXT", help=text)


def chosen(settings: type[S], values: Mapping[str, object]) -> S:
    """The settings that click's parameters ask for; a parameter that is None or belongs to others is left out."""
    ours = {field.name for field in fields(settings)}
    given = {name: value for name, value in values.items() if name in ours and value is not None}
    return settings(**given)


def code(text: str) -> str:
    """A value on a reference page, as Markdown."""
    return f"`{text}`" if text else "none"
