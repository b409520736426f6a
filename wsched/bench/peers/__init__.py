"""The systems that wsched is compared with."""
