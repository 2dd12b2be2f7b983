# The dockers of users: the lines of docker_daemon.sh, and `unread WHY` for a user whose files give no
# answer. They are read as that user, who may stop the reader, or keep its output open: each has a time
# limit, and all of them a section apart from root's. Needs $gn_docker, $gn_owner, $users_files.
eval "$gn_docker"
within=
[ "${gn_timeout-}" != yes ] || within=3
for file in "${root-}"/run/user/*/docker.pid; do
  [ -e "$file" ] || continue
  uid=${file#"${root-}"/run/user/} uid=${uid%%/*}
  # shellcheck disable=SC2154
  eval "$gn_owner"
  IFS=: read -r _ _ _ _ _ home _ <<END
$(owner_account "$uid")
END
  home=$home/.config/docker/daemon.json
  # Its pid, and its daemon.json as above.
  # shellcheck disable=SC2016,SC2034
  theirs=$(owner_seconds=2; as_account "$uid" sh -c "$users_files"'
    pid=
    ! users_files "$1" >/dev/null 2>&1 || read -r pid <"$1"
    printf "pid %s\n" "$pid"
    shift
    '"$config" sh "$file" "${root-}$home" 2>/dev/null | ${within:+timeout -s KILL "$within"} head -c 70000) 2>/dev/null
  case $theirs in
    ("pid "*) ;;
    (*) printf 'unread\t%s\n' "the docker of uid $uid: no answer from $file"; continue ;;
  esac
  theirs=${theirs#pid }
  pid=${theirs%%"$newline"*}
  theirs=${theirs#"$pid"}
  ! runs "$pid" "$uid" || daemon rootless "$home" "${theirs#"$newline"}"
done
