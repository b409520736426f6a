"""Import from text: what nvFuser prints for a definition, or a script that has one."""
