"""CAPApplication: an application and its BTP services."""
