"""The server that turns subscriptions into tenants."""
