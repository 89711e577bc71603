// Dumps of RL steps through the C interface: read once, then looked at as a batch.
#include <memory>
#include <string>
#include <vector>

#include "kcc/api/guard.h"
#include "kcc/api/handles.h"
#include "kcc/api/sized.h"

namespace kcc::api {
namespace {

kcc_array ArrayOf(const RlArray& from) {
  static_assert(sizeof(double) == 8);
  return {from.data, KCC_F64, from.row_stride};  // a dump holds doubles alone
}

}  // namespace
}  // namespace kcc::api

using kcc::Result;
using namespace kcc::api;

extern "C" {

kcc_status kcc_rl_dump_read(const char* const* paths, size_t count, const char* slice_by,
                            kcc_rl_dump** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(paths, "paths"));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    std::vector<std::string> all;
    for (size_t i = 0; i < count; ++i) {
      KCC_TRY_VOID(RequirePointer(paths[i], "paths[i]"));
      all.emplace_back(paths[i]);
    }
    auto made = std::make_unique<kcc_rl_dump>();
    KCC_TRY(made->dump, kcc::ReadRlDump(all, {.slice_by = slice_by == nullptr ? "" : slice_by}));
    KCC_TRY(made->batch, made->dump.Batch());
    for (const std::string& name : made->dump.slice_names) {
      made->slice_names.push_back(name.c_str());
    }
    *out = made.release();
    return {};
  });
}

kcc_status kcc_rl_dump_batch(const kcc_rl_dump* dump, kcc_rl_batch* batch) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(dump, "dump"));
    KCC_TRY_VOID(RequirePointer(batch, "batch"));
    const kcc::RlBatch& from = dump->batch;
    kcc_rl_batch to{};
    to.rows = from.rows;
    to.columns = from.columns;
    to.offsets = from.packed() ? from.offsets.data() : nullptr;
    to.train = ArrayOf(from.train);
    to.rollout = ArrayOf(from.rollout);
    to.old_logprobs = ArrayOf(from.old);
    to.mask = ArrayOf(from.mask);
    to.advantages = ArrayOf(from.advantages);
    to.advantage_per_row = from.advantage_per_row ? 1 : 0;
    if (!from.slice_of_row.empty()) {
      to.slice_of_row = from.slice_of_row.data();
      to.slice_names = dump->slice_names.data();
      to.slice_count = static_cast<int32_t>(dump->slice_names.size());
    }
    return GiveSized(to, kRlBatchFirstSize, "kcc_rl_batch", batch);
  });
}

void kcc_rl_dump_free(kcc_rl_dump* dump) { delete dump; }

}  // extern "C"
