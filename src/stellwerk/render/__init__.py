"""Files into objects: charts, kustomizations, templates, substitution, decryption.

    files        paths and contents, known by their digest                                     pure
    archive      bytes into files (tarball, zipped, tree, limits: its parts)                   pure
    egress       which addresses may be called                                                 pure
    downloads    URLs into files (http, digests, flights, kept, shelf, threads: its parts)     calls the outside
    folder       files of a person's own machine                                               reads them
    values       several values into one, and which came from where                            pure
    chart_values the defaults of a chart and of its subcharts                                  pure
    request      what is asked of the renderer, and what it answers                            pure
    served       what a cluster serves, as templates see it                                    asks the server
    assumed      what they see of a cluster that nobody asks                                    pure
    renderer     requests into objects (protocol, worker, pool, results: its parts)            starts processes
    binary       where the native program lies
    errors       what can go wrong

An operator holds one `Downloads` and one `Renderer`, and closes both.
"""
