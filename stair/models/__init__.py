"""Models: the facts of each architecture, frozen loading, and downloads from the hub."""
