#!/usr/bin/env bash
# What kcc is for, in one screen: two kernels that agree on average and part on a slice. Then the
# same with engines that run here, which source of error brings it, and three things to try.
set -euo pipefail
cd "$(dirname "$0")/.."
kcc=build/kcc
out=${1:-build/demo}
mkdir -p "$out"
say() { printf '\n$ %s\n' "$*"; "$@"; }

# A verdict other than "satisfied" is the point here; a run that could not judge is not.
violated() {
  local code=0
  say "$@" || code=$?
  [ "$code" = 1 ] || { echo "demo: expected the verdict 'violated' (exit code 1), got exit code $code" >&2; exit 1; }
}

sides=(--train examples/traces/train --infer examples/traces/infer)
sed -e 's/, slices: \[all[^]]*\]//' -e '/name: long-context/d' -e '/name: structured/d' \
  examples/contract.yaml >"$out/average.yaml"
echo "One model, two kernels. Judged on all requests together, they agree:"
say $kcc run "$out/average.yaml" "${sides[@]}"
printf '\nThe same evidence, judged on long prompts too:\n'
violated $kcc run examples/contract.yaml "${sides[@]}" --report "$out"

# The lab: engines with a switch for every source of error, in this one program.
if [ -f models/kcc-lab/model.safetensors ]; then
  requests=models/kcc-lab/eval.jsonl
  printf '\nAn engine that runs here: a model served in FP8 keeps the contract on average, and breaks it on refusals:\n'
  violated $kcc run examples/fp8.yaml --train lab:train --infer lab:fp8 --requests $requests --batch 64 \
    --report "$out/fp8"
  printf '\nWhich source of error brings the drift:\n'
  say $kcc attribute --train lab:train --infer lab:fp8 --requests $requests --max-requests 40 \
    --contract examples/fp8.yaml --quantity logit_linf -o "$out/fp8/attribution.html"
fi

cat <<END

Reports: $out/report.html and $out/fp8/report.html

Three things to try:
  the next build, which is repaired
    $kcc run examples/contract.yaml --train examples/traces/train --infer examples/traces/fixed
  the first operator at which FP8 differs
    $kcc attribute --train lab:train --infer lab:fp8 --max-requests 8 --first-divergence
  trainer against rollout engine, from one step of RL
    $kcc rl diagnose examples/rl/step.safetensors

And with live traffic: 'make gateway-demo' serves three kernels behind a gateway, breaks one on a slice, and shows the guard and the way back.
END
