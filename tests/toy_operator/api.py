"""The kinds: a Site names a remote cluster, and its Pages are objects of that cluster."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from stellwerk.delivery.ready_steps import ReadyStatus
from stellwerk.kube.schema.crd import Definition, Version, documented
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record


class SiteSpec(Record, frozen=True, kw_only=True):
    title: Annotated[str, documented("The title of the index.")] = ""
    secret_name: Annotated[str, documented("The Secret with the kubeconfig of the remote cluster.")] = ""


class SiteStatus(ReadyStatus, frozen=True, kw_only=True):
    pages: Annotated[int, documented("The number of published pages.")] = 0


class Site(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("toy.example.com", "v1", "Site", "sites", True)
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


class PageSpec(Record, frozen=True, kw_only=True):
    text: Annotated[str, documented("The text of the page.")] = ""


class Page(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("toy.example.com", "v1", "Page", "pages", True)
    spec: PageSpec = PageSpec()


DEFINITIONS = tuple(Definition(versions=[Version(kind=kind)]) for kind in (Site, Page))


class Reason(StrEnum):
    Published = "Published"
    SecretMissing = "SecretMissing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    greeting: str = "Hello"
