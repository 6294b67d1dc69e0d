"""Kyma: which modules a cluster shall have."""
