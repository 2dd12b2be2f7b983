printf '%s job %s\n' '@mark@' "${SLURM_JOB_ID:--}"
