"""What a local cluster uses of this machine.

processes      child processes that outlive their parent, and are found again
ports          free ports; locks: locks on files
names          what a cluster may be called, and where it is
private_files  files that only their owner can read
"""
