// What a run knows of its requests beyond its summary: what both kernels signed, what was asked
// together, and where the token ids are. Collected while it is measured, since batches are removed.
//
// Memory: a few hundred bytes a request; token ids stay where they came from until a request is
// chosen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/policy.h"
#include "kcc/judge/verdict.h"
#include "kcc/kernel/request_source.h"
#include "kcc/replay/stored_request.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/pairing.h"

namespace kcc {

class RunLog {
 public:
  // A batch of a streamed run.
  void AddBatch(const PairedTraces& pair, std::span<const KernelRequest> batch);
  // Two traces as they are. What was asked together is known where the trace says it.
  void AddTraces(const PairedTraces& pair);
  // Whose token ids the run was about. It is read again from its beginning.
  void SetSource(std::unique_ptr<RequestSource> source) { source_ = std::move(source); }
  // Why there is no source, for messages.
  void SetNoSource(Error why) { no_source_ = std::move(why); }

  struct Judged {
    const Contract& contract;
    const Summary& summary;
    const Judgement& judgement;
    std::string model, contract_digest, triple;
  };
  // The records of the requests that `storage` keeps, in the order of asking. Fails where the token
  // ids are not known.
  Result<std::vector<StoredRequest>> Keep(const Judged& run, const RequestStorage& storage);

 private:
  // Where a request stood among those that were asked together.
  struct Asked {
    int64_t batch = -1;  // place in batches_; -1: not known
    size_t place = 0;
  };
  struct Signed {
    std::string train, infer, seed;
    Asked train_asked, infer_asked;
  };
  void AddSigned(const PairedTraces& pair, size_t i, Signed* row) const;
  void AddBatchesOf(const TraceReader& side, Asked Signed::*asked);
  BatchShape ShapeOf(const Asked& asked) const;

  std::map<std::string, Signed, std::less<>> requests_;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> batches_;
  std::unique_ptr<RequestSource> source_;
  std::optional<Error> no_source_;
};

// Adds what is known of one request to `stored`: token ids or their digests, fields, sampling.
void SetContent(const KernelRequest& request, const RequestStorage& storage, StoredRequest* stored);

}  // namespace kcc
