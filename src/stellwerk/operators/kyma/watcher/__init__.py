"""Watcher: what remote clusters report back."""
