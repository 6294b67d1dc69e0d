"""Servers of other projects on loopback, which behave as badly as a test asks.

artifacts       archives, as a source-controller serves them
registries      token issuer, SaaS registry and Subscription Management Service; demo_registry: one for the demo
service_broker  the SAP Service Manager
webhooks        admission webhooks
tls_server      a TLS server with its own authority
"""
