"""Publish results, one's own and published/, as a static site with their evidence."""
