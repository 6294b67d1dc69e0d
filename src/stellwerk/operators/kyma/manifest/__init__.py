"""Manifest: one module on one cluster."""
