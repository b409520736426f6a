"""How anything is measured: rounds, statistics, clocks, worker processes."""
