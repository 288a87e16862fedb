# SPDX-License-Identifier: Apache-2.0
# For scripts that run ranks under $mpiexec: a folder for what they leave, their exit codes, and an end for every one of them.
folder=$(mktemp -d)
launcher='' # number of an mpiexec that runs in the background
rank_script=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/rank.sh

# Sets launcher_leaves_others: options under which the launcher leaves the other ranks alive when one is killed. MPICH's ends
# them with SIGUSR1 even then: but not those of rank.sh.
find_options() {
  case $("$1" --version 2>&1) in
    *open-mpi.org*) launcher_leaves_others=(--enable-recovery) ;;
    *) launcher_leaves_others=(-disable-auto-cleanup) ;;
  esac
}

# Ends what this script has started, by number.
clean_up() {
  local file
  for file in "$folder"/pid.*; do
    [ -f "$file" ] && kill -KILL "$(cat "$file")" 2>/dev/null
  done
  if [ -n "$launcher" ]; then
    kill -TERM "$launcher" 2>/dev/null
    wait "$launcher" 2>/dev/null
  fi
  rm -rf "$folder"
}
trap clean_up EXIT

# Waits until these ranks have left their exit codes, half a minute at most.
await_codes() {
  local rank tries
  for rank in "$@"; do
    for ((tries = 0; tries < 600; ++tries)); do
      [ -s "$folder/code.$rank" ] && continue 2
      sleep 0.05
    done
    return 1
  done
}
continue_rank() { kill -CONT "$(cat "$folder/pid.$1")"; }
# Something to train on.
write_text() {
  local i
  for ((i = 0; i < 2000; ++i)); do echo "the $((i % 7)) cats sat on mat $((i % 13))."; done >"$1"
}
