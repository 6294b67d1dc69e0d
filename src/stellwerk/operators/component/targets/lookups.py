"""Answers what templates ask the cluster, with the rights of the rendered Component.

The words of Secrets that templates read are masked in log lines for as long as templates ask for them: a template can
put them into a name, which then appears in lines outside of the pass as well. So are those of Secrets that were
decrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stellwerk.delivery.template_lookup import answer, secret_words_of
from stellwerk.kube import threads
from stellwerk.kube.types.model import JsonValue, dig
from stellwerk.operators.component.references.referenced_data import to_hide
from stellwerk.operators.component.targets.targets import Target, Targets
from stellwerk.operators.component.targets.tenancy import ActingAccount
from stellwerk.render.bounded_cache import Kept
from stellwerk.render.request.request import Missing, TemplateQuery
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.telemetry import logs

_MOST_SOURCES, _MOST_SOURCES_OF_TENANT = 10_000, 1_000
LIFE_SECONDS = 24 * 3600.0
"""For how long words are masked after they were used last."""

_Source = tuple[str, str]
"""Tenant, and what was asked or decrypted."""


@dataclass(slots=True)
class HiddenWords:
    """Registers words of Secrets for log lines, and forgets what was not used for a day."""

    clock: Clock
    hide: Callable[..., None] = logs.hide
    forget: Callable[[str, str], None] = logs.forget
    _known: Kept[_Source, object] = field(init=False)
    """By source, the versions of the Secrets whose words are registered."""

    def __post_init__(self) -> None:
        self._known = Kept(
            _MOST_SOURCES,
            now=self.clock.monotonic,
            life_seconds=LIFE_SECONDS,
            tenant_capacity=_MOST_SOURCES_OF_TENANT,
            on_drop=lambda source: self.forget(*source),
        )

    async def add(self, tenant: str, source: str, words: Callable[[], Iterable[str]], version: object) -> None:
        """Register these words; nothing to do where `version` is the known one. `words` is called in a thread."""
        if self._known.get((tenant, source)) == version:
            return
        self.hide(*await threads.run(lambda: to_hide(words)), tenant=tenant, source=source)
        self._known.put((tenant, source), version, 1, tenant)


@dataclass(frozen=True, slots=True)
class Lookups:
    """The questions of one Component's templates."""

    target: Target
    targets: Targets
    account: ActingAccount | None
    """The account that the Component acts as in the operator's own cluster; None: the operator itself."""
    tenant: str
    """The namespace of the Component."""
    hidden: HiddenWords

    async def __call__(self, query: TemplateQuery) -> JsonValue | Missing:
        """The object, the list of objects, or why there is none. Raises ApiError."""
        found = await self._answer(query)
        if query.kind == "Secret" and not isinstance(found, Missing):
            secrets = [body for body in (found if isinstance(found, list) else [found]) if isinstance(body, dict)]
            source = f"look-up {query.where} {query.namespace}/{query.name}{query.label_selector}"
            version = tuple(
                (dig(body, "metadata", "uid"), dig(body, "metadata", "resourceVersion")) for body in secrets
            )
            await self.hidden.add(self.tenant, source, lambda: secret_words_of(secrets), version)
        return found

    async def _answer(self, query: TemplateQuery) -> JsonValue | Missing:
        match query.where:
            case "target":
                return await answer(self.target.client, query)
            case "local":
                return await answer(self.targets.local(self.account).client, query)
            case "kubeconfig":
                async with self.targets.passing(query.kubeconfig) as client:
                    return await answer(client, query)
