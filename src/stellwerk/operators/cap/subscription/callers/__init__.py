"""Who calls the subscription server, and for which application.

tokens                the content of a token, and whether it is good (pure)
keys                  the keys of token issuers, fetched and kept within bounds
verification          signatures are verified off the event loop, in shares
client_certificates   for which application a client certificate is (pure)
authorities           who may issue them: a file
gateway               which peers may send the header with a client certificate
proofs                which bindings have got a token from their issuer
bindings              what callers of each application have to show: read from its binding Secrets
"""
