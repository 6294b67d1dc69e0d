"""The server that turns subscriptions into tenants.

process         the program that `stellwerk run cap-server` starts; spec, settings, rights, installation: its parts
server          the routes of both protocols; metrics: what is counted of them
payloads        what the registries send: subscriptions and their ends, as one value for both protocols
callers         who calls, and for which application
identity        which application answers, of those that claim an identity
plan            what a subscription becomes: names and objects
subscriptions   writes these; directory: what is seen of the cluster
callbacks       what registries were promised
condition_report     conditions of applications: their identities, and callbacks that were given up
dependencies    the services of an application that a registry subscribes with it
services        reads services from binding Secrets, one at a time
registries      which services of an application are registries, and what their credentials contain
client_credentials   how a binding gets a token
outgoing        calls to token issuers and registries, within bounds
local           the program of a local system, which finds these on this machine
"""
