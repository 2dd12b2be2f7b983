# as_user SCRIPT: runs sh as the training user, $user (empty: the user who runs this). It keeps the
# working directory and stdin. These differ: owner.sh runs a program as the account that can change
# it, with a clean environment and a time limit; deploy/workspace/copier.sh collects the output of a
# user who may leave a process behind.
# The variables of who runs this stay behind, before the user changes: they may be passwords. PATH,
# the locale and $home are handed over; SCRIPT sets all others that it needs. So do descriptors: one
# of a lock would keep it for as long as a process of that user lives.
me=${gn_me:-$(id -un)} || exit 1
user=${user:-$me}
case $user in (-*) echo "$user is not the name of a user" >&2; exit 1 ;; esac # an option of su
as_user() {
  if [ "$user" = "$me" ]; then
    sh -c "$1"
  elif [ "${gn_uid:-$(id -u)}" = 0 ]; then
    as_user_env su -s /bin/sh "$user" -c "$1"
  else
    # With this terminal that user could type commands into it: su gives none to a command, and sudo
    # does before 1.9.14.
    as_user_apart=
    ! command -v setsid >/dev/null 2>&1 || as_user_apart=yes
    as_user_env ${as_user_apart:+setsid} sudo -n -u "$user" /bin/sh -c "$1"
    return $? # were it the last one, a shell could become it; setsid would not wait for its program
  fi
}
as_user_env() {
  env -i PATH="$PATH" LANG="${LANG-}" LC_ALL="${LC_ALL-}" ${home:+home="$home"} "$@" \
    3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
}
# as_launcher SCRIPT: runs it in bash as a launcher's SSH login of $user does: with SSH_CLIENT and
# SHLVL=0 it reads ~/.bashrc, as under sshd. For the user who runs this, this shell is such a login.
# Another user's output and errors come together, and end after 256 KiB.
as_launcher() {
  if [ "$user" = "$me" ]; then
    eval "$1"
  elif [ "${gn_uid:-$(id -u)}" = 0 ]; then
    { launcher_code=$({
      { cd / && env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 \
        su -s /bin/bash "$user" -c "$1" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
        echo $? >&3; } 2>&1 | head -c 262144 >&4
    } 3>&1); } 4>&1
    return "$launcher_code"
  else
    echo "only root and $user can tell what a shell of $user has"
    return 1
  fi
}
