"""Where renderers run: without network, without home, without a way to start anything, reading next to nothing.

`launcher` is the program that shuts itself in and then becomes the renderer; `running` is how the rest of sources uses it.
"""
