"""The fields of an object, as wanted and as live. Pure.

compare             which fields differ
defaulted_unions    members of a union that the API server has set, and the manifest leaves
hindering_fields    fields of other managers that make the API server refuse ours
managed_fields      which other clients manage fields, and how their entries are taken over
takeover_preview    the fields that a take-over removes
"""
