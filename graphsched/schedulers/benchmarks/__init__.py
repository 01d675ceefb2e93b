"""How fast and how good schedulers are: generated workloads, known optima, another package beside ours."""
