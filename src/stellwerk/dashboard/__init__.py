"""The web view of what the cluster holds."""
