"""MLPerf result logs."""
