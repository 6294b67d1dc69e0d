"""An operator with two kinds, one of them in remote clusters; a test adds it to the registry of a copy of the product.

operator      its OperatorSpec
api           the kinds Site and Page, and the reasons of their conditions
controllers   what a Site needs next, and its kind as a value
installation  its kinds and rights
server        a further process, which serves requests
"""
