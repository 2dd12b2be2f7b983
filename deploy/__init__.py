"""Make it so: pyinfra deploys and operations that repair what the rules find."""
