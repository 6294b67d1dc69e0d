"""Forms of texts in objects, and the sentence that users see about a text that has not its form.

An API server answers a text that does not match the `pattern` of its schema with the pattern, which users cannot read.
So a field has its form as CEL rules, whose message is the sentence of the form. That is impossible for texts in lists
and maps without a bound, because the API server estimates the cost of a rule for the largest object possible: they keep
their pattern (designs/text-forms.md). Of those, and of texts of other kinds, the answer of the API server is translated
where it is read, so that conditions, Events and the command line show the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """A form of texts."""

    pattern: str
    """A regular expression of RE2, anchored on both sides."""
    sentence: str
    """What follows the name of the field and the value."""
    examples: Sequence[str]
    counter_examples: Sequence[str]
    conditions: Sequence[str] = ()
    """CEL expressions that together are as the pattern, where the pattern costs too much for one."""

    @property
    def expressions(self) -> Sequence[str]:
        """The CEL expressions that a text of this form satisfies."""
        return self.conditions or (f"self.matches(r'{self.pattern}')",)


HOST = TextForm(
    pattern="^[a-z0-9-.]+$",
    sentence="must be a DNS name of lower-case letters, digits, '-' and '.', for example shop.example.com",
    examples=("shop.example.com", "localhost", "xn--bcher-kva.example"),
    counter_examples=("", "Shop.example.com", "*.example.com", "shop example", "bücher.example", "https://shop.com"),
)
HOST_OR_EMPTY = TextForm(
    pattern="^[a-z0-9-.]*$",
    sentence=HOST.sentence,
    examples=("", *HOST.examples),
    counter_examples=HOST.counter_examples[1:],
)
TIME_OF_DAY = TextForm(
    pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$",
    sentence="must be a time from 00:00 to 23:59, for example 22:00",
    examples=("00:00", "09:30", "23:59"),
    counter_examples=("", "9:30", "24:00", "22:60", "22:00:00", "10pm"),
)
SEMANTIC_VERSION = TextForm(
    pattern=(
        r"^(0|[1-9]\d*)(\.(0|[1-9]\d*)(\.(0|[1-9]\d*)"
        r"(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
        r"(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?)?)?$"
    ),
    sentence=(
        "must be a semantic version of one to three numbers without leading zeros, for example 2.1.0, 2.1 or 2.1.0-rc.1"
    ),
    examples=("0", "1", "1.2", "2.1.0", "2.1.0-rc.1", "1.0.0-0a.x-y+build.007", "1.0.0+5"),
    counter_examples=("", "v1.0.0", "01.0.0", "1.0.0.0", "1.0-rc", "1.0.0-01", "1.0.0-rc.01", "1.0.0-", "latest"),
    conditions=(
        r"self.matches(r'^(0|[1-9]\d*)(\.(0|[1-9]\d*)(\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
        r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?)?)?$')",
        r"!self.matches(r'^[^+-]*-([^+]*\.)?0\d+([.+]|$)')",
    ),
)
FULL_SEMANTIC_VERSION = TextForm(
    pattern=(
        r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
        r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
        r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
    ),
    sentence="must be a semantic version of three numbers without leading zeros, for example 2.1.0 or 2.1.0-rc.1",
    examples=("0.0.0", "2.1.0", "2.1.0-rc.1", "1.0.0-0a.x-y+build.007", "1.0.0+5"),
    counter_examples=("", "1", "2.1", "v1.0.0", "01.0.0", "1.0.0.0", "1.0.0-01", "1.0.0-rc.01", "1.0.0-", "latest"),
    conditions=(
        r"self.matches(r'^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
        r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$')",
        r"!self.matches(r'^[.\d]+-([^+]*\.)?0\d+([.+]|$)')",
    ),
)
MODULE_VERSION = TextForm(
    pattern=r"^((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?$",
    sentence=(
        "must be a semantic version of three numbers without leading zeros, and without dots in a suffix that begins "
        "with a letter, for example 2.1.0 or 2.1.0-rc1"
    ),
    examples=("", "0.0.0", "2.1.0", "2.1.0-rc1", "1.0.0-x-y"),
    counter_examples=("1", "2.1", "v1.0.0", "01.0.0", "1.0.0.0", "1.0.0-1", "1.0.0-rc.1", "1.0.0+5", "1.0.0-"),
)
MODULE_NAME = TextForm(
    pattern="^([a-z]{3,}(-[a-z]{3,})*)?$",
    sentence=("must be words of at least three lower-case letters each, joined by '-', for example template-operator"),
    examples=("", "keda", "template-operator"),
    counter_examples=("ab", "Keda", "keda2", "api-gw", "keda-", "kyma-system/keda", "keda.kyma"),
)
OCM_COMPONENT_NAME = TextForm(
    pattern="^[a-z][-a-z0-9]*([.][a-z][-a-z0-9]*)*[.][a-z]{2,}(/[a-z][-a-z0-9_]*([.][a-z][-a-z0-9_]*)*)+$",
    sentence="must be a domain and a path of lower-case letters, for example kyma-project.io/module/template-operator",
    examples=("kyma-project.io/module/keda", "example.com/a_b.c"),
    counter_examples=("", "keda", "kyma-project.io", "kyma-project.io/", "Kyma.io/keda", "kyma.io/1keda"),
)
CHANNEL = TextForm(
    pattern="^[a-z]+$",
    sentence="must be lower-case letters only, for example regular",
    examples=("regular", "fast"),
    counter_examples=("", "Regular", "fast-1", "fast2", "rapid channel"),
)
CHANNEL_OR_EMPTY = TextForm(
    pattern="^$|^[a-z]{3,}$",
    sentence="must be empty or at least three lower-case letters, for example regular",
    examples=("", "fast"),
    counter_examples=("ab", "Regular", "fast2", "fast-1"),
)
PROMETHEUS_DURATION = TextForm(
    pattern=r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
    sentence="must be a duration in y, w, d, h, m, s and ms, in this order, for example 30s or 1h30m",
    examples=("0", "30s", "1h30m", "2w", "500ms"),
    counter_examples=("30", "1.5h", "30 s", "30m1h", "soon"),
)
GO_DURATION = TextForm(
    pattern=r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
    sentence="must be a duration in h, m, s, ms, us and ns, for example 90s or 1h30m",
    examples=("90s", "1h30m", "1.5h", "10µs"),
    counter_examples=("", "90", "1d", "-5m", "1.h", "soon"),
)
QUANTITY = TextForm(
    pattern=(
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    sentence="must be a number with an optional unit such as m, k, M, G, Ki, Mi or Gi, for example 500m or 2Gi",
    examples=("1", "500m", "2Gi", "1.5", "1e3", "-1"),
    counter_examples=("", "2GB", "2 Gi", "500mi", "1,5", "half"),
)
CONDITION_TYPE = TextForm(
    pattern=(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ),
    sentence="must be one word, with an optional domain before a '/', for example Ready or example.com/Ready",
    examples=("Ready", "example.com/Ready"),
    counter_examples=("", "Is Ready", "Example.com/Ready", "Ready-"),
)
CONDITION_REASON = TextForm(
    pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    sentence="must be one word of letters, digits, '_', ',' and ':', for example WaitingForSecrets",
    examples=("WaitingForSecrets", "A", "a:b"),
    counter_examples=("", "waiting for secrets", "1st", "Waiting."),
)

FORMS = (
    HOST,
    HOST_OR_EMPTY,
    TIME_OF_DAY,
    SEMANTIC_VERSION,
    FULL_SEMANTIC_VERSION,
    MODULE_VERSION,
    MODULE_NAME,
    OCM_COMPONENT_NAME,
    CHANNEL,
    CHANNEL_OR_EMPTY,
    PROMETHEUS_DURATION,
    GO_DURATION,
    QUANTITY,
    CONDITION_TYPE,
    CONDITION_REASON,
)
"""All forms of our kinds, and of those of Kubernetes that they embed."""

_BY_PATTERN: Mapping[str, TextForm] = {form.pattern: form for form in FORMS}
_MISMATCH = re.compile(r"(?<!\S)\S+ in body should match '([^']*)'")
_QUANTITY = re.compile(r"quantities must match the regular expression '[^']*'")
_EXPRESSION = re.compile(r"(, | \(|)regex used for validation is '[^']*'(\)?)")


def translated(message: str) -> str:
    """The words of an API server with sentences in the place of regular expressions, as far as they are known."""
    if "should match '" in message:
        message = _MISMATCH.sub(_sentence, message)
    if "regular expression '" in message:
        message = _QUANTITY.sub(f"a quantity {QUANTITY.sentence}", message)
    if "regex used" in message:  # an example or a rule in words precedes it
        message = _EXPRESSION.sub(lambda found: "" if found[1] == " (" else found[2], message)
    return message


def _sentence(found: re.Match[str]) -> str:
    form = _BY_PATTERN.get(found[1])
    return form.sentence if form is not None else found[0]
