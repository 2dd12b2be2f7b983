"""What a cluster file names outside itself: files, sources of copies, package supply."""
