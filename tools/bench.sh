#!/usr/bin/env bash
# Runs every benchmark of bench/; each verifies its answer before it reports a time. Tables go to the
# terminal, the same figures as JSON to build/bench/.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=build/release/bench
out=build/bench
mkdir -p "$out"

echo "== drift against a plain read of the same bytes, V = 128256"
"$programs/drift_bench" --json "$out/drift.json"
for vocab in 32000 151936; do
  echo "== drift, V = $vocab"
  "$programs/drift_bench" --vocab "$vocab" --runs 3 --mib 600 --json "$out/drift-$vocab.json"
done
for threads in 1 2; do
  echo "== drift against NumPy and PyTorch, $threads threads"
  .venv/bin/python bench/compare_numpy_torch.py "$out/drift.json" --threads "$threads" \
    --json "$out/compare-$threads.json"
done
echo "== slices, clauses, summary files, merging"
"$programs/summary_bench" 32000 64 128 7 "$out/summary.json"
echo "== import"
.venv/bin/python bench/import_bench.py build/release/apps/kcc/kcc --json "$out/import.json"
for program in "$programs"/*_bench; do
  case "$(basename "$program")" in drift_bench | summary_bench) continue ;; esac
  [ -x "$program" ] || continue
  echo "== $(basename "$program")"
  "$program"
done

# The lab beside llama.cpp on the same model, where its npm package is installed.
if [ -f models/kcc-lab/model.safetensors ]; then
  echo "== lab and llama.cpp"
  .venv/bin/python tools/bench_lab.py
fi
echo "JSON: $out"
