"""What others read: figures as text, traces for Perfetto, graphs for Graphviz."""
