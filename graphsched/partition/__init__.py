"""Splits of a traced network over devices: graphs made out of graphs."""
