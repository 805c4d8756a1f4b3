"""`make gpu`: everything that needs a GPU, in fourteen minutes, with any Python that has torch."""
