"""Rights of the process in its cluster.

permission_check   which rights the process lacks, checked at the start and reported
"""
