"""Many random launches, each judged: ``wsched stress``."""
