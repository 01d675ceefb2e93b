"""Where and when tasks can run, as list schedulers see it: candidates, durations, lanes with gaps, copies."""
