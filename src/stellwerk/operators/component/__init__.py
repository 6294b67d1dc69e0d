"""component-operator: keeps the manifests of a source applied, here or on another cluster."""
