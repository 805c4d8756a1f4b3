"""The replay stage (section 2, appendix A.1): current problems crossed with saved histories."""
