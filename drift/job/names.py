"""Names that the rules about a job share with what reads its line: every report loads the rules."""

# In a word in place of what only the shell knows.
UNKNOWN = "\0"
# Launchers that rules name, and what begins the name of an environment of conda.
DEEPSPEED, MPIRUN = "deepspeed", "mpirun"
CONDA = "conda:"
# How ranks meet: at the store of rank 0, or of the node that has the address.
STATIC, C10D = "static", "c10d"
# The rules that report what is wrong with the job's own files.
CONFIG, NODES, MASTER = "job.config", "job.nodes", "job.master"
