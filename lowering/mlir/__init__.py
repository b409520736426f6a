"""The final kernel IR as an MLIR module: a second back end beside ``lowering.cuda``."""
