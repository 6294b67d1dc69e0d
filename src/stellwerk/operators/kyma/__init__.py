"""Kyma lifecycle manager: brings modules by channel to many remote clusters.

api, api_manifest, api_module, api_watcher    the kinds and their definitions; api_status: what their statuses share
collections     what passes may read and write; access: which Secret leads to the cluster of a Kyma
labels          names that others rely on: labels, annotations, finalizers, field managers, places
metrics         the operator's own metrics: states at each scrape, and why objects are looked at again
settings        flags and variables, and which of them contradict each other
kyma, mandatory, manifest, module, watcher    the kinds' controllers
"""
