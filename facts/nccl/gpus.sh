# Prints the models that the driver reports; nvidia-smi would wake each GPU, which takes seconds.
for f in /proc/driver/nvidia/gpus/*/information; do
  [ ! -r "$f" ] || sed -n 's/^Model:[[:space:]]*//p' "$f"
done
