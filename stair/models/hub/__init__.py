"""Models and data sets from the hub: download, resume, recorded revisions."""
