"""The CAP Operator Manager."""
