"""Services of every job: leases, progress, signals, GPUs, and logs that outlive the job."""
