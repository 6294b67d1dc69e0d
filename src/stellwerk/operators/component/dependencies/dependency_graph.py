"""Which Components depend on which, kept up to date with the cache.

A pass asks whether its Component is in a dependency cycle. Reading that from the specs costs 0.4 s where a thousand
Components depend on each other, in each pass. Here the edges are arrays of numbers, changed with each change of a
Component, and a set of Components is one large integer with a bit for each: sets of a thousand are joined in a
microsecond. The answer is kept until an edge changes.

Only edges between Components that exist are held. Which Components name one that has just appeared is known to an index
of the cache.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import Component

Dependants: TypeAlias = Callable[[ObjectKey], Iterable[Component]]
"""The Components that list one, as an index of the cache holds them."""


_DENSE = 32
"""From how many edges on the set of them is kept as well; of a few it is made when needed, and takes less memory."""


@dataclass(slots=True)
class _Edges:
    """The edges in one direction, by the number of the node that they begin at."""

    _ends: list[array[int]] = field(default_factory=list)
    _sets: list[int | None] = field(default_factory=list)

    def grow(self) -> None:
        """Make room for one more node."""
        self._ends.append(array("I"))
        self._sets.append(None)

    def add(self, node: int, end: int) -> None:
        self._ends[node].append(end)
        known = self._sets[node]
        if known is not None:
            self._sets[node] = known | 1 << end
        elif len(self._ends[node]) >= _DENSE:
            self._sets[node] = _set_of(self._ends[node])

    def remove(self, node: int, end: int) -> None:
        self._ends[node].remove(end)
        known = self._sets[node]
        if known is not None:
            self._sets[node] = known & ~(1 << end)

    def take(self, node: int) -> array[int]:
        """Remove all edges of a node, and return their ends."""
        ends, self._ends[node], self._sets[node] = self._ends[node], array("I"), None
        return ends

    def of(self, node: int) -> array[int]:
        return self._ends[node]

    def set_of(self, node: int) -> int:
        """The ends as a set."""
        known = self._sets[node]
        return _set_of(self._ends[node]) if known is None else known

    def from_all(self, nodes: int) -> int:
        """The set of nodes that edges lead to from any of a set."""
        found = 0
        for node in _members(nodes):
            found |= self.set_of(node)
        return found

    def reached(self, start: int, within: int = -1) -> int:
        """The set of nodes that can be reached, `start` only where it can be reached again."""
        found, waiting = 0, 1 << start
        while waiting:
            waiting = self.from_all(waiting) & within & ~found
            found |= waiting
        return found


def _set_of(members: Iterable[int]) -> int:
    found = 0
    for member in members:
        found |= 1 << member
    return found


def _members(nodes: int) -> Iterator[int]:
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


@dataclass(slots=True)
class DependencyGraph:
    """The dependencies of all Components. `dependants` finds the Components that list a key."""

    dependants: Dependants
    _numbers: dict[ObjectKey, int] = field(default_factory=dict)
    _keys: list[ObjectKey] = field(default_factory=list)
    _below: _Edges = field(default_factory=_Edges)
    _above: _Edges = field(default_factory=_Edges)
    _free: list[int] = field(default_factory=list)
    _terminating: int = 0
    _cycles: dict[ObjectKey, tuple[ObjectKey, ...]] = field(default_factory=dict)

    def change(self, old: Component | None, new: Component | None) -> frozenset[ObjectKey]:
        """Take over a change of one Component.

        Returns the other Components that are in a cycle with it no longer, or only now.
        """
        if old is not None and new is not None and old.spec.dependencies == new.spec.dependencies:
            self._mark(new)
            return frozenset()
        before = self._companions(old.key) if old is not None else frozenset[ObjectKey]()
        if old is not None and new is None:
            self._remove(old.key)
            return before
        assert new is not None  # a change has a side
        if old is None:
            self._add(new)
        else:
            self._unlink_below(self._numbers[new.key])
        self._link_below(new)
        self._mark(new)
        self._cycles.clear()
        return before ^ self._companions(new.key)

    def cycle_through(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """A shortest dependency cycle that the Component is in, beginning with it; empty where there is none."""
        known = self._cycles.get(key)
        if known is None:
            number = self._numbers.get(key)
            known = self._cycles[key] = () if number is None else self._shortest(number)
        return known

    def deleted_together(self, key: ObjectKey) -> frozenset[ObjectKey]:
        """The Component and those that are to be deleted and are in a cycle with it."""
        number = self._numbers.get(key)
        if number is None:
            return frozenset({key})
        going = self._terminating | 1 << number
        found = self._below.reached(number, going) & self._above.reached(number, going)
        return self._named(found | 1 << number)

    def listing(self, key: ObjectKey) -> frozenset[ObjectKey]:
        """The Components that list one."""
        number = self._numbers.get(key)
        return frozenset(self._keys[one] for one in self._above.of(number)) if number is not None else frozenset()

    # ---- questions

    def _shortest(self, start: int) -> tuple[ObjectKey, ...]:
        """Level by level, and back from the level whose Components list the first one."""
        first = 1 << start
        levels, known = [first], first
        while levels[-1]:
            reached = self._below.from_all(levels[-1])
            if reached & first:
                return tuple(self._keys[one] for one in self._way_back(start, levels))
            levels.append(reached & ~known)
            known |= reached
        return ()

    def _way_back(self, start: int, levels: Sequence[int]) -> list[int]:
        way = [start]
        for level in reversed(levels):
            way.append(next(_members(self._above.set_of(way[-1]) & level)))
        return way[:0:-1]

    def _companions(self, key: ObjectKey) -> frozenset[ObjectKey]:
        """The other Components that are in a cycle with one."""
        number = self._numbers[key]
        below = self._below.reached(number)
        if not below >> number & 1:
            return frozenset()
        return self._named(below & self._above.reached(number) & ~(1 << number))

    def _named(self, nodes: int) -> frozenset[ObjectKey]:
        return frozenset(self._keys[member] for member in _members(nodes))

    # ---- changes

    def _add(self, component: Component) -> None:
        if self._free:
            number = self._free.pop()
            self._keys[number] = component.key
        else:
            number = len(self._keys)
            self._keys.append(component.key)
            self._below.grow()
            self._above.grow()
        self._numbers[component.key] = number
        for dependant in self.dependants(component.key):
            above = self._numbers.get(dependant.key)
            if above is not None and above != number:
                self._link(above, number)

    def _link_below(self, component: Component) -> None:
        number = self._numbers[component.key]
        for key in component.dependencies:
            below = self._numbers.get(key)
            if below is not None:
                self._link(number, below)

    def _link(self, above: int, below: int) -> None:
        self._below.add(above, below)
        self._above.add(below, above)

    def _unlink_below(self, number: int) -> None:
        for below in self._below.take(number):
            self._above.remove(below, number)

    def _remove(self, key: ObjectKey) -> None:
        number = self._numbers.pop(key)
        self._unlink_below(number)
        for above in self._above.take(number):
            self._below.remove(above, number)
        self._terminating &= ~(1 << number)
        self._free.append(number)
        self._cycles.clear()

    def _mark(self, component: Component) -> None:
        bit = 1 << self._numbers[component.key]
        self._terminating = self._terminating | bit if component.metadata.is_terminating else self._terminating & ~bit
