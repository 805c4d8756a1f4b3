"""The stages of the workflow. Each reads files and writes files; no stage calls another."""
