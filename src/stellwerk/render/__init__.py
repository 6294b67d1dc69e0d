"""Files into objects: charts, kustomizations, templates, substitution, decryption.

files        paths and contents, known by their digest                             pure
archive      bytes into files (tarball, zipped, tree, limits: its parts)           pure
egress       which addresses may be called                                         pure
downloads    URLs into files                                                       the only one that calls others
values       several values into one (origins: which came from where)              pure
protocol     what is said to the renderer and heard from it                        pure
worker       one native process
renderer     requests into objects: workers (pool), results that are kept (cache)
binary       where the native program lies
errors       what can go wrong
"""
