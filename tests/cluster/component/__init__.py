"""The component-operator and its releases."""
