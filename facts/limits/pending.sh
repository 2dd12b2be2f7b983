file=$(readlink -f @own_file@ || echo @own_file@)
[ ! -d "${file%/*}" ] || [ -r "${file%/*}" ] || { echo "${file%/*} is closed"; exit 1; }
for mark in "${file%/*}/.${file##*/}.gpu-node-"*; do
  [ ! -e "$mark" ] || printf '%s
' "$mark"
done
