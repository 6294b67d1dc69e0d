"""Files from URLs of sources.

downloads             a URL as files, through the caches
http                  one exchange with a server that is not trusted
egress                which addresses may be called
single_flight         the same work for several callers, done once
artifact_disk_cache   artifacts on disk, for the next start
"""
