"""CAP Operator: runs multi-tenant CAP applications."""
