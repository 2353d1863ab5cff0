"""What the readers of all log formats share."""
