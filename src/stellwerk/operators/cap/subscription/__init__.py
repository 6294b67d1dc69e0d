"""The server that turns subscriptions into tenants.

payloads        what the registries send: subscriptions and their ends, as one value for both protocols
dependencies    the services of an application that a registry subscribes with it
"""
