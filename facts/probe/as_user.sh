# as_user SCRIPT: runs sh as the training user, $user (empty: the user who runs this). It keeps the
# working directory and stdin. These differ: owner.sh runs a program as the account that can change
# it, with a clean environment and a time limit; verify/nodes.py starts bash as a launcher's SSH
# login does, which reads ~/.bashrc; deploy/workspace/copier.sh collects the output of a user who
# may leave a process behind.
me=${gn_me:-$(id -un)} || exit 1
user=${user:-$me}
as_user() {
  if [ "$user" = "$me" ]; then
    sh -c "$1"
  elif [ "${gn_uid:-$(id -u)}" = 0 ]; then
    su -s /bin/sh "$user" -c "$1"
  else
    sudo -n -u "$user" /bin/sh -c "$1"
  fi
}
