"""``wsched bench gate``: is wsched as fast as it was, beside cuBLAS on the same GPU?"""
