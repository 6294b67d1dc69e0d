"""Releases: sets of objects that a user applies without a controller, as `clm` does.

release            a release, its objects and the ConfigMap of both; release_store: reads and writes it
release_runner     applies and deletes a release; retry_policy: when it tries again
removal            what becomes of its objects when it is deleted
sources            the charts, kustomizations and manifests of a release
fleeting_jobs      Jobs that Kubernetes removes after their success
takeover           adoption of releases of the original `clm`
why                findings about a release; related_objects: the release of an object
errors             failures with cause and next step
"""
