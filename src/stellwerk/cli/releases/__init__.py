"""Releases as `clm` has them (releasing), and the dry run of any set of objects (dry_run)."""
