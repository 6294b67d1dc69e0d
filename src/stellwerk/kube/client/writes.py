"""The writing half of a client: create, apply, update, patch, delete.

Each write passes `before_write` first, unless it is a dry run: there a leader without a lease is stopped. Each write
states for the transport whether it may be sent again after a lost answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias, cast
from urllib.parse import quote

import msgspec

from stellwerk.kube.client.patch import Patch
from stellwerk.kube.client.request_builder import (
    ACCEPT_METADATA,
    CONTENT_TYPE,
    JSON,
    Calls,
    T,
    Target,
    decoded,
    query_of,
    view_of,
)
from stellwerk.kube.http.transport import Headers
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import (
    UNREADABLE,
    HasMetadata,
    JsonObject,
    Kind,
    View,
    dig,
    encode_json,
    to_json_object,
)

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]

_APPLY = "application/apply-patch+yaml"
_JSON_BODY: Headers = ((CONTENT_TYPE, JSON),)


class Deletion(Enum):
    """What came of asking for an object's end. False is: there was none."""

    ABSENT = "absent"
    TERMINATING = "terminating"
    """The object is still there: finalizers, dependants or a grace period hold it."""
    GONE = "gone"

    def __bool__(self) -> bool:
        return self is not Deletion.ABSENT


@dataclass(frozen=True, slots=True)
class _WriteQuery:
    text: str
    dry_run: bool


class Writes(Calls):
    """What can be changed through an API server."""

    async def create(
        self,
        target: Target[T],
        body: T | JsonObject,
        namespace: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        field_manager: str | None = None,
        repeatable: bool = False,
    ) -> T:
        """Make a new object. Raises AlreadyExists; Unreachable when it is unknown whether it was made.

        With a subresource (`eviction`, `token`) it is made of the object that has the body's name. `repeatable`: it may
        be sent again after a lost answer, because the caller looks whether the AlreadyExists is about its own object.
        """
        view, document = view_of(target), document_of(body)
        # A review (SelfSubjectAccessReview) has no name and needs no metadata.
        key = key_of(document) if "metadata" in document else ObjectKey("", "")
        query = self._write_query(dry_run, field_validation, field_manager)
        return await self._write(
            view,
            "POST",
            "create",
            namespace or key.namespace,
            key.name,
            document,
            query,
            subresource,
            repeatable=repeatable,
            named=bool(subresource),
        )

    async def apply(
        self,
        target: Target[T],
        body: JsonObject | Kind,
        *,
        force: bool = True,
        field_manager: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Server-side apply (KEP-555): make the object have these fields, and own them.

        With `force` fields are taken from other managers; without it a Conflict names them.
        """
        view = view_of(target)
        document = _stamped(document_of(body), view)
        key = key_of(document)
        query = self._write_query(dry_run, field_validation, field_manager)
        query = _WriteQuery(f"{query.text}&force=true", dry_run) if force else query
        return await self._write(
            view, "PATCH", "apply", key.namespace, key.name, document, query, subresource, content_type=_APPLY
        )

    async def update(
        self,
        target: Target[T],
        body: JsonObject,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        field_manager: str | None = None,
    ) -> T:
        """Replace the object. With `metadata.resourceVersion`, a change by another client is a Conflict."""
        key = key_of(body)
        return await self._write(
            view_of(target),
            "PUT",
            "update",
            key.namespace,
            key.name,
            body,
            self._write_query(dry_run, field_validation, field_manager),
            subresource,
            # Without a version it could undo what another client did between the two times.
            repeatable=bool(dig(body, "metadata", "resourceVersion")),
        )

    async def patch(
        self,
        target: Target[T],
        name: str,
        namespace: str,
        patch: Patch,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        field_manager: str | None = None,
        repeatable: bool | None = None,
    ) -> T:
        """Change a part of the object.

        `repeatable`: whether the same patch may be sent again after a lost answer; by default the patch decides.
        """
        return await self._write(
            view_of(target),
            "PATCH",
            "patch",
            namespace,
            name,
            patch.body,
            self._write_query(dry_run, field_validation, field_manager),
            subresource,
            content_type=patch.content_type,
            repeatable=patch.repeatable if repeatable is None else repeatable,
        )

    async def delete(
        self,
        target: Target[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Deletion:
        """Ask for the object's end. The answer is false when there was no object.

        With `uid` only that very object is meant: a new one under the same name is a Conflict.
        """
        view = view_of(target)
        conditions: JsonObject = {}
        if uid:
            conditions["uid"] = uid
        if resource_version:
            conditions["resourceVersion"] = resource_version
        options = _options(propagation, grace_period_seconds, dry_run, conditions)
        request = self._request(
            view,
            "DELETE",
            "delete",
            namespace,
            name,
            body=encode_json(options),
            headers=_JSON_BODY,
            repeatable=bool(uid),
        )
        try:
            answer = await self._send(view, request, writes=not dry_run, name=name)
        except NotFound:
            return Deletion.ABSENT
        return Deletion.GONE if _is_status(answer) else Deletion.TERMINATING

    async def delete_collection(
        self,
        target: Target[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for the end of all objects that match."""
        query = query_of(labelSelector=labels, fieldSelector=fields)
        body = encode_json(_options(propagation, None, dry_run, {}))
        view = view_of(target)
        request = self._request(
            view, "DELETE", "deletecollection", namespace, query=query, body=body, headers=_JSON_BODY, repeatable=False
        )
        await self._send(view, request, writes=not dry_run)

    async def _write(
        self,
        view: View[T],
        method: str,
        verb: str,
        namespace: str,
        name: str,
        body: object,
        query: _WriteQuery,
        subresource: str = "",
        *,
        content_type: str = JSON,
        repeatable: bool = True,
        named: bool = True,
    ) -> T:
        request = self._request(
            view,
            method,
            verb,
            namespace,
            name,
            subresource,
            query=query.text,
            body=encode_json(body),
            headers=((CONTENT_TYPE, content_type), *(ACCEPT_METADATA if view.metadata_only else ())),
            named=named,
            repeatable=repeatable,
        )
        return await decoded(view, await self._send(view, request, writes=not query.dry_run), request)

    def _write_query(
        self, dry_run: bool, field_validation: FieldValidation | None, field_manager: str | None
    ) -> _WriteQuery:
        text = f"fieldManager={quote(field_manager or self._field_manager, safe='')}"
        if field_validation:
            text += f"&fieldValidation={field_validation}"
        return _WriteQuery(f"{text}&dryRun=All" if dry_run else text, dry_run)


def _options(
    propagation: Propagation | None, grace_period_seconds: int | None, dry_run: bool, conditions: JsonObject
) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation:
        options["propagationPolicy"] = propagation
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    if conditions:
        options["preconditions"] = conditions
    return options


class _Named(msgspec.Struct):
    kind: str = ""


def _is_status(answer: bytes) -> bool:
    """Whether a deletion was answered with a Status: the object is gone. One that stays is sent as it is."""
    try:
        return _named.decode(answer).kind == "Status"
    except UNREADABLE:
        return False


_named = msgspec.json.Decoder(_Named)


def document_of(body: HasMetadata | JsonObject) -> JsonObject:
    """What is sent for an object."""
    return to_json_object(body) if isinstance(body, Kind) else cast(JsonObject, body)


def key_of(document: JsonObject) -> ObjectKey:
    """Namespace and name of a document. Raises ValueError if it has no metadata."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise ValueError("an object without metadata cannot be written")
    return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _stamped(document: JsonObject, view: View[T]) -> JsonObject:
    """With the apiVersion and kind that an apply must name."""
    if "apiVersion" in document and "kind" in document:
        return document
    return {"apiVersion": view.resource.api_version, "kind": view.resource.kind, **document}
