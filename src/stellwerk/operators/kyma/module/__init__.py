"""ModuleTemplate and ModuleReleaseMeta: what can be installed."""
