"""Manifests as wanted objects.

manifests          text into documents; the only place that reads a folder of manifests    pure
desired            documents into wanted objects                                           pure
name_validation    what may be a name, a label or a key                                    pure
json_edit          small changes of an object                                              pure
discover           which of the named kinds the cluster serves                             asks the API server
"""
