"""The kernel IR: nodes, their text and its parser, the verifier."""
