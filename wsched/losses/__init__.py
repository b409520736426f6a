"""Why a kernel takes as long as it does: the roofline, and what is lost between it and the time."""
