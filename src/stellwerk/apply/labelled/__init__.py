"""A set that is always wanted whole, and is identified by its label. It keeps no inventory.

plan               what to write, and why; can be printed                 pure
order              which kinds are written first                          pure
execute            the writes of one pass; the only writer of this set
prune_by_label     objects of an earlier version of the set               pure
"""
