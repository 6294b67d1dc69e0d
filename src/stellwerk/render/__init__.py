"""Files into objects: charts, kustomizations, templates."""
