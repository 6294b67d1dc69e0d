"""Kyma lifecycle manager: brings modules by channel to many remote clusters.

api, api_manifest, api_module, api_watcher    the kinds and their definitions; api_status: what their statuses share
labels          names that others rely on: labels, annotations, finalizers, field managers, places
kyma, manifest, module, watcher               the kinds' controllers
"""
