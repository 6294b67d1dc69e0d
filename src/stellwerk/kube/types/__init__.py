"""Objects of a cluster in memory, and what identifies and describes them (pure).

model           kinds, unstructured objects, and the codec between them and JSON
object_meta     metadata, owner references and conditions
identifiers     kinds, resources, and the keys of objects
errors          what can go wrong between a client and an API server
duration        durations as Kubernetes and Go write them
depth           bounds the nesting of JSON before a recursive parser reads it
sizes           estimates the memory of a JSON text before it is decoded
lenient         reads an object although timestamps in its status are invalid
escapes         escapes in JSON that are no characters
header_values   what an HTTP header may contain
semantic_version  the order of versions
text_forms      forms of texts, and the sentence about a text that has not its form
"""
