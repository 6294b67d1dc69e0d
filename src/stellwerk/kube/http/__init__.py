"""HTTP/1.1 to an API server.

transport         requests with credentials, retries that are safe, and the fence of the leader
connection_pool   kept connections, one request at a time on each
call_slots        how many calls are under way, of one tenant and of all
circuit_breaker   leaves a server alone for a while that does not answer
dialer            new connections, through a proxy or not
connection        one connection, and the answer to one request
streamed_body     an answer that is read while it comes
messages          requests as bytes, answers as values (pure)
sockets           sockets and TLS that fit the login
error_mapping     a failed call as an ApiError (pure)
warnings          the API server's `Warning` headers
"""
