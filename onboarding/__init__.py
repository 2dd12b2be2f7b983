"""Onboarding: from an address and a password to a proved member of the cluster, and back."""
