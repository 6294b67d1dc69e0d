"""The BTP Manager."""
