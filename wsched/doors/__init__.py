"""Ways in for programs that call nvFuser, and ways out where wsched has no kernel."""
