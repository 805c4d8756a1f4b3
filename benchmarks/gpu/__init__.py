"""`make gpu`: everything that needs a GPU, in ten minutes, with the Python and torch that are there."""
