"""What is asked of the API server before anything is written.

adoption               live objects of new entries, with any owner
permission_precheck    may the identity write cluster-wide objects
crd_usage              do others use a kind that the set would delete
resource_lookup        where the cluster serves a kind, in whichever version
"""
