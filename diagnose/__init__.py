"""What a failed job's logs say: the root cause among its consequences."""
