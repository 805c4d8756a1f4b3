"""`make gpu`: everything that needs a GPU, in ten minutes, with any Python that has torch."""
