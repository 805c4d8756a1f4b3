"""The report: one page that shows a run, its outcome first."""
