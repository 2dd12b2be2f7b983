"""What differs: pure functions from found and wanted states to findings, and their reports."""
