"""The runtime stage: what reading a bank costs at prefill, in memory and in transfer (section 4.5, appendix C.4)."""
