"""Certificates and private keys.

certs      creates, reads and compares certificates (pure)
key_pool   private keys, created ahead of need
store      the certificate of webhooks in a Secret, renewed and shared by replicas
"""
