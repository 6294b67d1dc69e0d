"""Typed calls to one API server.

client            the calls, in one class
request_builder   what every request sends, and how every answer is read
reads             get, list, and one watch request
writes            create, apply, update, patch, delete
conditional       writes that depend on what was seen: a conflict is a value
patch             the forms of a patch (pure)
discovery         from kinds to URLs
"""
