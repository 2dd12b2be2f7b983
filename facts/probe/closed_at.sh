# closed_at PATH: prints what on the way to a program is closed to who runs this: a folder that cannot
# be entered, or the program itself. Links are followed.
closed_at() {
  case $1 in (/*) ;; (*) return 0 ;; esac
  way=$1 at='' links=0
  while way=${way#/} && [ -n "$way" ]; do
    each=${way%%/*} way=${way#"$each"}
    case $each in (.) continue ;; (..) at=${at%/*} ;; (*) at=$at/$each ;; esac
    if [ -L "$at" ]; then
      links=$((links + 1))
      [ "$links" -lt 40 ] && to=$(readlink "$at") || return 0
      case $to in (/*) at= ;; (*) at=${at%/*} ;; esac
      way=$to/$way
    elif [ -e "$at" ] && [ ! -x "$at" ]; then
      printf '%s\n' "$at"
      return 0
    fi
  done
}
