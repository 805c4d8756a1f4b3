"""Services of every job: claims, progress, signals, GPUs, and logs that outlive the job."""
