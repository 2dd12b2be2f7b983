"""Trust in a new server: its host key, a login without a password, keys for the cluster."""
