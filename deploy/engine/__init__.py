"""What all steps share: the plan of a run, its scope, its proof, what a failure ends."""
