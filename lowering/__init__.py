"""From a scheduled fusion to a kernel: kernel IR, pass list, CUDA back end and the CPU machine."""
