"""The store finds objects by key and by index, whatever happened to them before."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.cache.store import Store

Thing = PartialObjectMetadata


def thing(name: str, **labels: str) -> Thing:
    return Thing(metadata=ObjectMeta(namespace="here", name=name, labels=labels))


def colours(obj: Thing) -> Iterable[str]:
    return obj.metadata.labels.get("colours", "").split()


def named(objects: Iterable[Thing]) -> list[str]:
    return sorted(obj.metadata.name for obj in objects)


def coloured(*objects: Thing) -> Store[Thing]:
    store: Store[Thing] = Store()
    store.add_index("colour", colours)
    store.replace(objects)
    return store


def test_an_object_is_found_under_each_value_of_an_index() -> None:
    store = coloured(thing("a", colours="red blue"), thing("b", colours="blue"))
    assert named(store.by("colour", "red")) == ["a"]
    assert named(store.by("colour", "blue")) == ["a", "b"]
    assert store.by("colour", "green") == ()


def test_an_index_added_late_knows_the_objects_that_are_here() -> None:
    store: Store[Thing] = Store()
    store.put(thing("a", colours="red"))
    store.add_index("colour", colours)
    assert named(store.by("colour", "red")) == ["a"]


def test_a_changed_object_is_no_longer_found_under_its_old_value() -> None:
    store = coloured(thing("a", colours="red"))
    old = store.put(thing("a", colours="blue"))
    assert old is not None
    assert old.metadata.labels == {"colours": "red"}
    assert store.by("colour", "red") == ()
    assert named(store.by("colour", "blue")) == ["a"]


def test_a_removed_object_is_found_nowhere() -> None:
    store = coloured(thing("a", colours="red"))
    assert store.remove(ObjectKey("here", "a")) is not None
    assert store.remove(ObjectKey("here", "a")) is None
    assert (len(store), store.by("colour", "red"), store.get(ObjectKey("here", "a"))) == (0, (), None)


def test_what_was_asked_for_does_not_change_under_the_callers_steps() -> None:
    store = coloured(thing("a", colours="red"))
    for held in (store.all(), store.by("colour", "red")):
        for obj in held:
            store.put(thing("b", colours="red"))
            store.remove(obj.key)
        assert named(held) == ["a"]
        store.replace([thing("a", colours="red")])


def test_the_name_of_an_index_stands_for_one_function() -> None:
    store = coloured()
    store.add_index("colour", colours)
    with pytest.raises(ValueError, match="colour"):
        store.add_index("colour", lambda obj: obj.metadata.labels)


def test_an_object_that_an_index_cannot_read_is_still_held(caplog: pytest.LogCaptureFixture) -> None:
    store: Store[Thing] = Store()
    store.add_index("size", lambda obj: [obj.metadata.labels["size"]])
    store.put(thing("odd"))
    store.put(thing("even", size="2"))
    assert len(store) == 2
    assert named(store.by("size", "2")) == ["even"]
    assert "size" in caplog.text


def test_a_reader_never_holds_a_list_that_changes() -> None:
    store = coloured(thing("a", colours="red"))
    found = store.by("colour", "red")
    store.remove(ObjectKey("here", "a"))
    assert named(found) == ["a"]


_words = st.lists(st.sampled_from(["red", "blue", "green"]), max_size=3).map(" ".join)
_steps = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "replace"]), st.sampled_from("abcd"), _words), max_size=40
)


@given(_steps)
def test_after_any_history_indices_agree_with_the_objects(steps: list[tuple[str, str, str]]) -> None:
    store = coloured()
    for verb, name, words in steps:
        if verb == "put":
            store.put(thing(name, colours=words))
        elif verb == "remove":
            store.remove(ObjectKey("here", name))
        else:
            store.replace([thing(name, colours=words)])
    for colour in ("red", "blue", "green"):
        assert named(store.by("colour", colour)) == named(obj for obj in store.all() if colour in colours(obj))
