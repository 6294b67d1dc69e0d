"""Kyma lifecycle manager: brings modules by channel to many remote clusters."""
