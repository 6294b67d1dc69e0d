"""Questions about rights (authorization.k8s.io/v1)."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Kind, to_json_object
from stellwerk.kube.types.object_meta import Record


class ResourceAttributes(Record, frozen=True, kw_only=True):
    """A verb on a resource. An empty namespace is all of them."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class SelfSubjectAccessReviewSpec(Record, frozen=True, kw_only=True):
    """What is asked."""

    resource_attributes: ResourceAttributes | None = None


class SubjectAccessReviewStatus(Record, frozen=True, kw_only=True):
    """The answer. `denied` is stronger than not allowed: no other authorizer is asked."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class SelfSubjectAccessReview(Kind, frozen=True, kw_only=True):
    """May I? Create one, and read the status of the answer."""

    resource: ClassVar[Resource] = Resource(
        "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
    )

    spec: SelfSubjectAccessReviewSpec = SelfSubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


async def may(client: Client, attributes: ResourceAttributes) -> bool:
    """Whether the client may do that. Raises ApiError."""
    review = SelfSubjectAccessReview.resource
    spec: JsonObject = {"resourceAttributes": to_json_object(attributes)}
    body: JsonObject = {"apiVersion": review.api_version, "kind": review.kind, "spec": spec}
    return (await client.create(SelfSubjectAccessReview, body)).status.allowed
