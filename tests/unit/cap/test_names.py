"""Labels and hashes by which objects of the originals are found."""

from __future__ import annotations

import hashlib

from tests.unit.cap import given

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import names


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
