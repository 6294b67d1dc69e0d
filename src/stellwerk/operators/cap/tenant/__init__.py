"""CAPTenant: one subscriber of an application."""
