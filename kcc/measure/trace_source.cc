#include "kcc/measure/trace_source.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

namespace kcc {
namespace {

int64_t BytesPerToken(const TraceReader& reader) {
  const int64_t tokens = std::max<int64_t>(1, reader.token_count());
  return std::max<int64_t>(1, reader.payload_bytes() / tokens);
}

using AskedOfRequest = std::function<const AskedRequest*(size_t request)>;

class TraceRowsOfPair final : public PairRows {
 public:
  TraceRowsOfPair(const PairedTraces& pair, AskedOfRequest asked)
      : cursor_(pair), asked_of_(std::move(asked)) {}

  void Seek(size_t request) override {
    cursor_.Seek(static_cast<int32_t>(request));
    asked_ = asked_of_(request);
    if (asked_ != nullptr && asked_->gold.empty() && asked_->advantage.empty()) asked_ = nullptr;
  }
  Result<RowPairView> Next() override {
    KCC_TRY(const bool more, cursor_.Next());
    if (!more) return RowPairView();
    if (asked_ == nullptr) return RowPairView{&cursor_.train(), &cursor_.infer()};
    Label();
    return RowPairView{&labelled_, &cursor_.infer()};
  }

 private:
  // What was asked fills in what train lacks. It stands on train's side, whose word goes before
  // infer's.
  void Label() {
    labelled_ = cursor_.train();
    const int64_t at = int64_t{labelled_.position} - asked_->first;
    const auto has = [&](const auto& column) {
      return at >= 0 && at < static_cast<int64_t>(column.size());
    };
    const auto i = static_cast<size_t>(std::max<int64_t>(0, at));
    if (labelled_.gold < 0 && has(asked_->gold)) labelled_.gold = asked_->gold[i];
    if (std::isnan(labelled_.advantage) && has(asked_->advantage)) {
      labelled_.advantage = asked_->advantage[i];
    }
  }

  PairCursor cursor_;
  AskedOfRequest asked_of_;
  const AskedRequest* asked_ = nullptr;  // of the current request; null: it has no labels
  TokenEvidence labelled_;
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
  if (const AskedRequest* asked = AskedOf(i)) request.asked = asked->request;
  return request;
}

const AskedRequest* TraceSource::AskedOf(size_t request) const {
  if (asked_ == nullptr) return nullptr;
  const auto found = asked_->find(pair_.requests()[request].id);
  return found == asked_->end() ? nullptr : &found->second;
}

std::unique_ptr<PairRows> TraceSource::Rows() const {
  return std::make_unique<TraceRowsOfPair>(pair_,
                                           [this](size_t request) { return AskedOf(request); });
}

Error TraceSource::At(size_t request, int32_t position, const Error& why) const {
  return Error(why.code(),
               "request '" + std::string(pair_.requests()[request].id) + "', position " +
                   std::to_string(position) + ": " + why.message() + " (train trace " +
                   pair_.train().directory() + ")",
               {pair_.infer().directory()});
}

}  // namespace kcc
