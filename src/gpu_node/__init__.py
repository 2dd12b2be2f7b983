"""gpu-node: one name for the folders of the repository, which are links here."""
