#include "kcc/measure/trace_source.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kcc {
namespace {

int64_t BytesPerToken(const TraceReader& reader) {
  const int64_t tokens = std::max<int64_t>(1, reader.token_count());
  return std::max<int64_t>(1, reader.payload_bytes() / tokens);
}

class TraceRowsOfPair final : public PairRows {
 public:
  explicit TraceRowsOfPair(const PairedTraces& pair) : cursor_(pair) {}

  void Seek(size_t request) override { cursor_.Seek(static_cast<int32_t>(request)); }
  Result<RowPairView> Next() override {
    KCC_TRY(const bool more, cursor_.Next());
    if (!more) return RowPairView();
    return RowPairView{&cursor_.train(), &cursor_.infer()};
  }

 private:
  PairCursor cursor_;
};

}  // namespace

TraceSource::TraceSource(const PairedTraces& pair, const AskedRequests* asked,
                         std::vector<OutputComparison> outputs)
    : pair_(pair),
      asked_(asked),
      outputs_(std::move(outputs)),
      bytes_per_token_(BytesPerToken(pair.train()) + BytesPerToken(pair.infer())) {}

MeterSettings TraceSource::settings() const { return MeterSettings::Of(pair_); }

RequestPair TraceSource::request(size_t i) const {
  const auto at = static_cast<int32_t>(i);
  const PairedRequest& paired = pair_.requests()[i];
  RequestPair request{paired.id, &pair_.train_request(at), &pair_.infer_request(at),
                      pair_.train().info().kernel_fingerprint,
                      pair_.infer().info().kernel_fingerprint};
  if (pair_.mode() == TraceMode::kScored) request.output_rows = paired.output_rows;
  request.rows_missing = paired.rows_missing;
  request.own_rows = paired.own_rows;
  if (!outputs_.empty()) request.outputs = &outputs_[i];
  if (asked_ != nullptr) {
    const auto found = asked_->find(paired.id);
    if (found != asked_->end()) request.asked = found->second;
  }
  return request;
}

std::unique_ptr<PairRows> TraceSource::Rows() const {
  return std::make_unique<TraceRowsOfPair>(pair_);
}

Error TraceSource::At(size_t request, int32_t position, const Error& why) const {
  return Error(why.code(),
               "request '" + std::string(pair_.requests()[request].id) + "', position " +
                   std::to_string(position) + ": " + why.message() + " (train trace " +
                   pair_.train().directory() + ")",
               {pair_.infer().directory()});
}

}  // namespace kcc
