"""Pure functions on the replay's arrays, one layer at a time (section 2; appendices A.2, A.3 and A.6). Reads no files."""
