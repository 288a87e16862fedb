#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# failing.sh MPIEXEC RANKS_PROGRAM SCENARIO [ARGUMENT]
# Runs three ranks, of which rank 1 goes wrong in step 3, and checks what each says, its exit code and the time. Twice:
# - as a user does: what the ranks have printed when mpirun has ended them, and mpirun's own exit code
# - each rank in a session of its own, out of the launcher's reach: so every rank ends as it would by itself
set -uo pipefail
mpiexec=$1 program=$2 scenario=$3
shift 3
arguments=("$@")
source "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
find_options "$mpiexec"

waits="waits in .*\(.*, step 3\), number [0-9]+ on channel [0-9],? for"
late='did not come within 2000 ms'
codes=(1 1 1)   # of the ranks
plain=fails     # what mpirun does at last
at_most=10      # seconds: 2 timeout, 1 grace, and the start of MPI on a busy machine
others=''       # what ranks 0 and 2 print, one of them or both
rank_1=''       # what rank 1 prints
options=()
case "$scenario ${arguments[*]}" in
  model-throws*) others='rank 1 failed: the model fails at layer 4' rank_1='the model fails at layer 4' ;;
  loop-throws-a-number*) others='rank 1 failed: an exception that is no std::exception' ;;
  loop-throws*) others='rank 1 failed: the data is gone' rank_1='the data is gone' ;;
  another-visit*)
    others="ranks issued different collectives: rank 0 is in .*unit '.*' \(.*step 3\).*, rank 1 is in .*unit 'large' \(gather, step 3\)"
    rank_1=$others ;;
  no-step*) others="$waits rank 1 \(.*\), which $late" rank_1='rank [02] waits in' at_most=15 codes=(1 x 1) ;;
  joins-late*) others='not all ranks have joined within 2000 ms' codes=(1 x 1) ;;
  late*) codes=(0 0 0) plain=passes ;;
  stops*) others="$waits rank 1 \(does not answer\), which $late" codes=(1 x 1) ;;
  is-killed*) others="$waits rank 1 \(does not answer\), which $late" codes=(1 137 1) options=("${launcher_leaves_others[@]}") ;;
  exits*) others='rank 1 has exited in the middle of a run' ;; # it asks for 0, and gets 1
  returns*) others="$waits rank 1 \(has ended\), which will not come" rank_1=$others ;;
  runs-out*)
    others="($waits rank 1 \(is in .*unit 'parameters hash'|unit 'parameters hash'.*,? for rank 0 \(is in .*step 3).*, which $late"
    rank_1=$others ;;
  differs*layout) others="ranks were built differently: rank 1 differs from rank 0 in the model's layout" rank_1=$others ;;
  differs*schedule) others="rank 1 differs from rank 0 in the model's schedule" rank_1=$others ;;
  differs*policy) others='rank 1 differs from rank 0 in the policy' rank_1=$others ;;
  differs*clip) others='rank 1 differs from rank 0 in Options::clip' rank_1=$others ;;
  differs*seed) others='rank 1 differs from rank 0 in Options::seed' rank_1=$others ;;
  differs*prefetch) others='rank 1 differs from rank 0 in Options::prefetch' rank_1=$others ;;
  *) echo "failing.sh does not know $scenario"; exit 1 ;;
esac

faults=0
fault() { echo "FAULT: $1"; faults=$((faults + 1)); }
matches() { tr '\n' ' ' <"$1" | grep -qE -- "$2"; }

# As a user does.
timeout -k 5 60 "$mpiexec" -n 3 "$program" "$scenario" "${arguments[@]}" >"$folder/plain" 2>&1
code=$?
case $plain in
  passes) [ $code -eq 0 ] || fault "mpirun exits with $code" ;;
  fails) [ $code -ne 0 ] && [ $code -ne 124 ] || fault "mpirun exits with $code" ;;
esac
if [ "$scenario" = is-killed ]; then # the launcher ends the others, and says why
  matches "$folder/plain" '([Ss]ignal|KILLED BY|EXIT STRING).*([Kk]illed|9)' || fault "mpirun does not say that a rank was killed"
elif [ -n "$others" ]; then
  matches "$folder/plain" "$others" || fault "under plain mpirun nobody says: $others"
fi

# Each rank by itself.
begin=$(date +%s%N)
"$mpiexec" "${options[@]}" -n 3 bash "$rank_script" "$folder" "$program" "$scenario" "${arguments[@]}" >"$folder/all" 2>&1 &
launcher=$!
# What the launcher ends is the rank's wrapper; the ranks go on until they end by themselves.
await_codes 0 2 || fault "ranks 0 and 2 do not end"
seconds=$((($(date +%s%N) - begin) / 1000000))
[ $seconds -le $((at_most * 1000)) ] || fault "ranks 0 and 2 took $seconds ms"
case $scenario in stops) continue_rank 1 ;; esac
await_codes 0 1 2 || fault "rank 1 does not end"
for rank in 0 1 2; do
  code=$(cat "$folder/code.$rank" 2>/dev/null)
  case ${codes[$rank]} in
    x) [ "${code:-0}" -ne 0 ] || fault "rank $rank exits with '$code'" ;;
    *) [ "$code" = "${codes[$rank]}" ] || fault "rank $rank exits with '$code', not ${codes[$rank]}" ;;
  esac
done
if [ -n "$others" ]; then
  for rank in 0 2; do
    matches "$folder/out.$rank" "$others" || fault "rank $rank does not say: $others"
  done
fi
[ -z "$rank_1" ] || [ "${codes[1]}" = x ] || matches "$folder/out.1" "$rank_1" || fault "rank 1 does not say: $rank_1"

if [ $faults -gt 0 ]; then
  tail -n +1 "$folder"/* | cut -c1-500
  exit 1
fi
