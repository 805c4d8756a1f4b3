"""`make gpu`: everything that needs a GPU, in eleven minutes, with any Python that has torch."""
