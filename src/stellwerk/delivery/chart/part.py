"""The place of a process in the chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stellwerk.delivery.chart.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPart:
    """What the chart knows of a process, besides its installation and settings."""

    key: str = ""
    """Under which key of the operator the process has its values; empty: an operator's own, a server's title."""
    suffix: str = ""
    """What follows the operator's name in the names of objects; empty: they have the name of the account."""
    values: tuple[Value, ...] = ()
    """Values of the process, besides those of every pod, with paths below `key`. One with a field sets that setting;
    the other settings are values below `options`."""
    by_variable: bool = False
    """Whether values with a field set environment variables, as in an original's chart: one that cannot be read counts
    as the default there, while a bad flag stops the program."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels of its objects and pods. In a value, `{name}` is the name of its objects, and `{release}` that of
    the release."""
    config_maps: Mapping[str, str] = field(default_factory=dict)
    """ConfigMaps of the user that its pods see if they exist: the path of the value with the name of each, and the
    folder."""
    local_settings: tuple[str, ...] = ()
    """Settings that only make sense on one machine: no value sets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorChart:
    """What the chart knows of an operator as a whole."""

    name: str = ""
    """The beginning of the names of its objects; empty: the account of its controllers."""
    values: tuple[Value, ...] = ()
    """Values of the operator, with paths below its key."""
    ignored_images: tuple[str, ...] = ()
    """The beginnings of image repositories whose image has no effect, tag and digest included: those of the original's
    programs."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Further templates of the chart: name of the file, and text."""
