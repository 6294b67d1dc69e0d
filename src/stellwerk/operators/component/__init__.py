"""component-operator: keeps the manifests of a source applied, in this cluster or another one.

operator          its OperatorSpec
controllers       what runs: controllers, caches and servers, added to a manager
installation      what a cluster needs before it starts: kinds, rights
watches           the caches, and which keys a change wakes
api               the kinds Component and Blueprint, with api_spec and api_status
settings          what an administrator sets
reasons           the conditions' reasons; help: their texts, and topics, as Markdown
errors            failures as reason and message
rights            what the operator may do
intervals         durations of a spec
component         the reconciler of Component
references        what a Component refers to: Secrets, ConfigMaps, digests, values
sources           Flux sources, Blueprints and other sources, and their artifacts
targets           the cluster and the identity that a Component is applied with
dependencies      the dependencies between Components
observers         Events, metrics and notifications
insight           what verbs of the command line ask
"""
