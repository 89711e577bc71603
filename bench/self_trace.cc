// What each backend says about the likeliest token of the same rows, for contracts/kcc-self.yaml.
//
//   self_trace BACKEND [ROWS] [VOCAB]     BACKEND: reference, or a SIMD target's name
//
// Prints one line a row: request, token, its log-prob on the infer side, tag. Rows are those of the
// backends' tests: synthetic logits of a language model, every fifth row with nearly all mass on
// one token.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"
#include "kcc/drift/simd.h"

int main(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "reference";
  const int rows = argc > 2 ? std::atoi(argv[2]) : 200;
  const auto vocab = static_cast<size_t>(argc > 3 ? std::atoi(argv[3]) : 4000);
  std::optional<kcc::Target> target;
  for (const kcc::Target here : kcc::AvailableTargets()) {
    if (backend == kcc::TargetName(here)) target = here;
  }
  if (backend != "reference" && !target) {
    std::fprintf(stderr, "no backend %s on this CPU\n", backend.c_str());
    return 77;  // the usual word for a test that cannot run here
  }
  kcc::RowScratch scratch;
  const kcc::SlotSet wanted = kcc::AllTokenSlots();
  for (int i = 0; i < rows; ++i) {
    const double sharpen = i % 4 == 3 ? 2 : 1;
    kcc::TestRow row = kcc::ModelRow(vocab, 0.05, 0, sharpen, static_cast<uint64_t>(i) + 1);
    const bool peaked = i % 5 == 4;
    if (peaked) row.train[0] = row.infer[0] = 30;
    kcc::RowPair pair;
    pair.train = row.train.data();
    pair.infer = row.infer.data();
    pair.vocab = vocab;
    kcc::TokenDrift drift;
    kcc::Result<> done;
    if (backend == "reference") {
      done = kcc::MeasureRowReference(pair, wanted, &drift);
    } else {
      done = kcc::MeasureRowSimd(pair, wanted, *target, &scratch, &drift);
    }
    const int32_t token = drift.argmax[kcc::kInfer];
    if (!done || token < 0) {
      std::fprintf(stderr, "row %d: %s\n", i,
                   done ? "no most likely token" : done.error().Format().c_str());
      return 1;
    }
    std::printf("%d %d %.17g %s\n", i, token, std::log(drift.confidence[kcc::kInfer]),
                peaked ? "peaked" : "flat");
  }
  return 0;
}
