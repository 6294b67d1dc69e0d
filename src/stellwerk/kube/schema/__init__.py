"""CustomResourceDefinitions from the structs that read and write a kind (pure).

crd       the definition: names, versions, printer columns
schema    the structural schema of a struct; kubernetes: those of Kubernetes' own types, from a file
"""
