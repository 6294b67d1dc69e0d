"""Kyma: the modules of a cluster."""
