"""The work of the verbs for releases, as `clm` has them; `verbs/releases` declares them.

apply, delete, list, template    one verb each
revision                         the objects of a revision, and the runner that applies and deletes them
set_values                       values on the command line, as Helm reads them
releasing                        the release that the user names, its failures, and how it is printed
dry_run                          what applying a set of objects would change; `diff` prints it too
"""
