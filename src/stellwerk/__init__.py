"""The Kubernetes operators of the SAP BTP and Kyma world on one engine."""

__version__ = "0.1.0"
