"""Kinds owned by others, one file per owner."""
