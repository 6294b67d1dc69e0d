"""Tests; `unit` needs no cluster, `cluster` starts the control plane, `image` runs the container image."""
