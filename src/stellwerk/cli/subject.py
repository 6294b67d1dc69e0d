"""The object that a person names on the command line."""

from __future__ import annotations

from dataclasses import dataclass

import click

from stellwerk.kube.names import ObjectKey


@dataclass(frozen=True, slots=True)
class Subject:
    """`btp/btpoperator`, or with its namespace `btp/kyma-system/btpoperator`. `kind` is the person's own word."""

    kind: str
    key: ObjectKey


class SubjectType(click.ParamType[Subject]):
    """Reads KIND/NAME or KIND/NAMESPACE/NAME."""

    name = "subject"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Subject:
        """The value as a Subject."""
        if isinstance(value, Subject):
            return value
        parts = str(value).split("/")
        if len(parts) not in (2, 3) or not all(parts):
            self.fail(
                f"{value!r} does not name an object; the form is KIND/NAME, for example btp/btpoperator.", param, ctx
            )
        return Subject(parts[0], ObjectKey.parse("/".join(parts[1:])))
