"""Publish results, the user's own and those in published/, as a static site with their evidence."""
