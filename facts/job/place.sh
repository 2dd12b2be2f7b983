# place PATH: sets $at to where a path of the job leads: below the home (~/), or below $folder.
home=$(cd && pwd) || home=
place() {
  case $1 in ([~]) at=$home ;; ([~]/*) at=$home/${1#??} ;; (/*) at=$1 ;; (*) at=$folder/$1 ;; esac
}
case $folder in (/* | [~] | [~]/*) ;; (*) folder=$home/$folder ;; esac
place "$folder"
folder=$at
