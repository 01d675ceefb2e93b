"""Better placements by trying: small changes, evolution, lanes, each judged by a clock or a simulation."""
