"""What one GPU architecture can do: limits, descriptors."""
