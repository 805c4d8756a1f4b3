"""Statistics of a measured replay (section 2; appendices A.2, A.3 and A.6): functions on arrays, and the parts of a run."""
