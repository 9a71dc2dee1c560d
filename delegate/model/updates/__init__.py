"""What a git-update writes, decided without touching anything: the request, the places in files, the message."""
