"""Certificates and private keys.

certs                creates, reads and compares certificates (pure)
client_certificates  which client certificates of a header are good (pure)
key_pool             private keys, created ahead of need
store                the certificate of webhooks in a Secret, renewed and shared by replicas
"""
