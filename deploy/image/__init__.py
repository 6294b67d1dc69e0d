"""The container image, made without a container engine and without a base image.

`python -m deploy.image` is the command (`make image`). The lists that it reads are the whole input besides the source:
`debian.txt` and `debian.lock`, `requirements.lock` of the project, and `native/renderer/go.sum`.

tree       files as a layer stores them: owners, modes, links                     pure
layer      a tree as a tar archive that has the same bytes each time
debian     the locked Debian packages: fetched by apt, compared with their hashes, read
python     the wheel and its locked dependencies, and their bytecode
elf        programs without their debugging information                           pure
contents   what the layers of the image are, and what is left out
config     how the image is started, and its labels                               pure
layout     layers and configuration as an OCI layout and as an archive; unpacked again
sbom       what is in the image, as CycloneDX

The packages of Debian are read and not installed: no script of a package runs, so the build needs neither root nor
namespaces. What the scripts of these packages would do is done by `contents` (users, the bundle of CA certificates).
"""
