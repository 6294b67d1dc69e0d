"""BTP Manager: installs, updates and safely removes the SAP BTP service operator."""
