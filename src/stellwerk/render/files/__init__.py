"""Files of a source, in memory.

files         paths and contents, known by their digest        pure
archive       an archive as files                              pure
tar_reader    a tar archive, entry by entry                    pure
zip_reader    a zip archive, entry by entry                    pure
tree          entries as files, with links resolved            pure
limits        how much an archive may become                   pure
digests       digests as sources write them                    pure
local_files   files of a local folder                          reads them
"""
