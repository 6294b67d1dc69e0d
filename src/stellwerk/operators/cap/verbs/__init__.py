"""What the CAP Operator adds to the command line: `stellwerk cap subscribe|unsubscribe|upgrade|retry`.

declared     the words of the verbs
subscribe    a tenant for a subscriber
unsubscribe  tenants that go, with their data
upgrade      tenants that follow to a version, and waves that go on
retry        what failed runs again
ends         when objects have come to an end
"""
