"""Labels and hashes by which objects of the originals are found."""

from __future__ import annotations

import hashlib

import msgspec
from tests.unit.cap import given

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names, preparation
from stellwerk.operators.cap.kinds.application import CAPApplication


def test_an_application_is_identified_by_its_subaccount_and_name() -> None:
    spec = given.application().spec

    assert names.application_labels(spec) == {
        "sme.sap.com/app-identifier-hash": hashlib.sha1(b"subaccountbookshop").hexdigest()
    }
    assert names.application_annotations(spec) == {"sme.sap.com/app-identifier": "subaccount.bookshop"}


def test_an_application_without_a_subaccount_is_identified_by_its_global_account() -> None:
    spec = given.application(providerSubaccountId="", globalAccountId="account").spec

    assert names.application_labels(spec) == {
        "sme.sap.com/btp-app-identifier-hash": hashlib.sha1(b"accountbookshop").hexdigest()
    }
    assert names.application_annotations(spec) == {"sme.sap.com/btp-app-identifier": "account.bookshop"}


def test_an_application_without_any_account_has_no_identity() -> None:
    spec = given.application(providerSubaccountId="").spec

    assert names.application_labels(spec) == {}
    assert names.application_annotations(spec) == {}


def test_what_belongs_to_an_object_has_the_hash_of_its_namespace_and_name() -> None:
    key = ObjectKey("shop", "bookshop-v1")

    assert names.owner_labels(key, 3) == {
        "sme.sap.com/owner-identifier-hash": hashlib.sha1(b"shopbookshop-v1").hexdigest(),
        "sme.sap.com/owner-generation": "3",
    }
    assert names.owner_annotations(key) == {"sme.sap.com/owner-identifier": "shop.bookshop-v1"}


def test_json_is_written_as_go_writes_it() -> None:
    assert names.go_json({"b": "<a>&", "a": [1, True, None]}) == '{"b":"\\u003ca\\u003e\\u0026","a":[1,true,null]}'
    assert names.go_json({"a": "ä\u2028"}) == '{"a":"ä\\u2028"}'


def test_entries_that_are_present_are_never_corrected() -> None:
    assert names.missing({"a": "1", "b": "2"}, {"a": "other"}) == {"b": "2"}


def in_legacy_form(**spec: str) -> CAPApplication:
    """An application with the identity of the first releases, and its finalizer."""
    made = given.application(globalAccountId="account", **spec)
    legacy = given.application(globalAccountId="account", providerSubaccountId="").spec
    metadata = msgspec.structs.replace(
        made.metadata,
        finalizers=(names.APPLICATION_FINALIZER,),
        labels={"team": "books", **names.application_labels(legacy)},
        annotations={**names.application_annotations(legacy)},
    )
    return msgspec.structs.replace(made, metadata=metadata)


def lacking(application: CAPApplication) -> JsonObject | None:
    """What the application lacks."""
    spec = application.spec
    return preparation.absent(
        application,
        names.APPLICATION_FINALIZER,
        names.application_labels(spec),
        names.application_annotations(spec),
        former=names.former_identity(spec),
    )


def test_the_identity_of_the_first_releases_is_replaced_in_one_write_and_nothing_else_changes() -> None:
    spec = given.application().spec

    assert lacking(in_legacy_form()) == {
        "labels": {**names.application_labels(spec), names.LEGACY_APP_HASH_LABEL: None},
        "annotations": {**names.application_annotations(spec), names.LEGACY_APP_ANNOTATION: None},
    }


def test_an_application_with_a_global_account_alone_keeps_the_identity_of_the_first_releases() -> None:
    assert lacking(in_legacy_form(providerSubaccountId="")) is None
