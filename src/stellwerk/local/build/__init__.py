"""What a local cluster runs, found in the cache or built from Go modules.

control_plane          the binaries of the control plane
renderer               the native renderer of charts and kustomizations
published_definitions  definitions of kinds of other projects
toolchain              how Go builds: modules, sums, cache folders
licences               the licences of what is built in
"""
