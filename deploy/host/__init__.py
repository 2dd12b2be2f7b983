"""The host: the step that sets what the inventory names of the kernel and of systemd."""
