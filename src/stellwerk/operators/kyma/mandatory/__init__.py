"""Modules that every cluster gets, whatever its user chooses."""
