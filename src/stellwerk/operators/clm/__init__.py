"""Releases: sets of objects that a person brings into a cluster without a controller, as `clm` does."""
