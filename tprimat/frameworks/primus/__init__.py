"""AMD Primus, measured by its log."""
