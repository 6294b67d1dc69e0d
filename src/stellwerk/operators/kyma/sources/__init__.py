"""Sources of modules: OCM components in OCI registries."""
