#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2 --device cuda on the tokens of a file of llm.c's, with the vocabulary of bytes and at the sizes that GPT-2 was published in:
# losses are finite and fall, the device's peak is the plan, and a token beyond the vocabulary is refused.
# Usage: sizes_and_tokens.sh PROGRAM
set -uo pipefail
program=$1
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || { echo 'skipped: there is no GPU'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# number BYTES N: N in little-endian
number() {
  local i text=
  for ((i = 0; i < $1; ++i)); do text+=$(printf '\\x%02x' $(($2 >> 8 * i & 255))); done
  printf '%b' "$text"
}
# tokens FILE TOKEN...: these, 2^13 times
tokens() {
  local file=$1 i token
  shift
  for token in "$@"; do number 2 "$token"; done >"$folder/part"
  for ((i = 0; i < 13; ++i)); do
    cat "$folder/part" "$folder/part" >"$folder/twice"
    mv "$folder/twice" "$folder/part"
  done
  {
    number 4 20240520
    number 4 1
    number 4 $(($# << 13))
    head -c $((253 * 4)) /dev/zero
    cat "$folder/part"
  } >"$file"
}
tokens "$folder/bytes.bin" 84 104 101 32 115 97 109 101 32 119 111 114 100 115 32 97 103 97 105 110
tokens "$folder/words.bin" 464 50256 3290 318 257 1310 30000 13 198 1212 42 23456 9999 11 290 11111 40000 3 65 50000

# value KEY: of $line
value() { sed -n "s/.*\"$1\":\"\{0,1\}\([0-9a-fx.+e-]*\).*/\1/p" <<<"$line"; }
# check NAME SHARE FLAG...: the last loss is below SHARE of the first
check() {
  local name=$1 share=$2 begun=$SECONDS
  shift 2
  "$program" --device cuda --json "$@" >"$folder/output" 2>"$folder/error" ||
    { echo "$name ended with $?"; tail -n 40 "$folder/output" "$folder/error"; exit 1; }
  line=$(tail -n 1 "$folder/output")
  echo "$name, $((SECONDS - begun)) s: $line"
  [ -n "$(value parameters_hash)" ] || { echo "$name printed no hash"; exit 1; }
  [ "$(value planned_bytes)" = "$(value measured_bytes)" ] || { echo "$name: the peak on the device is not the plan"; exit 1; }
  [ "$(value skipped_steps)" = 0 ] || { echo "$name: steps were skipped"; exit 1; }
  awk "BEGIN { exit !($(value last_loss) > 0 && $(value last_loss) < $share * $(value first_loss)) }" ||
    { echo "$name does not learn: $(value first_loss) to $(value last_loss)"; exit 1; }
}
check "tokens below 256" 0.5 --tokens "$folder/bytes.bin" --ranks 2 --stage 3 --steps 40 --batch 4 \
  --layers 2 --width 64 --heads 2 --context 64
bits=$(value parameters_hash)
check "the same at stage 0" 0.5 --tokens "$folder/bytes.bin" --ranks 2 --stage 0 --steps 40 --batch 4 --reduce micro-batch \
  --layers 2 --width 64 --heads 2 --context 64
[ "$(value parameters_hash)" = "$bits" ] || { echo "stages 0 and 3 end with other bits"; exit 1; }
check "124m" 0.9 --tokens "$folder/words.bin" --size 124m --ranks 2 --stage 3 --steps 10 --batch 2 --lr 3e-4
check "774m" 0.9 --tokens "$folder/words.bin" --size 774m --ranks 1 --stage 0 --steps 10 --batch 4 --lr 3e-4
check "774m on two ranks at stage 3" 0.9 --tokens "$folder/words.bin" --size 774m --ranks 2 --stage 3 --steps 10 --batch 2 --lr 3e-4

"$program" --device cuda --ranks 1 --steps 1 --tokens "$folder/words.bin" --context 64 >"$folder/output" 2>"$folder/error"
[ $? -eq 2 ] && grep -q 'holds token .*, and the vocabulary has 256' "$folder/error" ||
  { echo 'a token beyond the vocabulary is not refused'; cat "$folder/error"; exit 1; }
