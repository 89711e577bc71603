#include "kcc/kernel/repeat_requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kcc/base/check.h"

namespace kcc {
namespace {

// Whether the id ends in '#' and digits.
bool LooksRepeated(const std::string& id) {
  const size_t mark = id.rfind('#');
  return mark != std::string::npos && mark + 1 < id.size() &&
         id.find_first_not_of("0123456789", mark + 1) == std::string::npos;
}

class RepeatedRequests final : public RequestSource {
 public:
  RepeatedRequests(std::unique_ptr<RequestSource> source, int64_t times)
      : source_(std::move(source)), times_(times) {}

  Result<bool> Next(KernelRequest* request) override {
    KCC_TRY(bool more, source_->Next(request));
    if (!more) {
      if (round_ == times_) return false;
      KCC_TRY_VOID(source_->Rewind());
      ++round_;
      KCC_TRY(more, source_->Next(request));
      if (!more) return false;
    }
    std::string& id = request->request.id;
    if (LooksRepeated(id)) {
      return InvalidError("the id '" + id +
                              "' ends as the ids of repeats do ('a#2' for the second time); give "
                              "the request another to use --repeat",
                          place());
    }
    request->request.fields.try_emplace("replay_group", id);
    if (round_ > 1) id += "#" + std::to_string(round_);
    return true;
  }
  Result<> Rewind() override {
    round_ = 1;
    return source_->Rewind();
  }
  RequestTotals totals() const override {
    const RequestTotals once = source_->totals();
    return {once.requests * times_, once.output_tokens * times_};
  }
  SampledBy sampled_by() const override { return source_->sampled_by(); }
  std::optional<double> sampling_temperature() const override {
    return source_->sampling_temperature();
  }
  bool sampling_altered() const override { return source_->sampling_altered(); }
  Place place() const override { return source_->place(); }

 private:
  std::unique_ptr<RequestSource> source_;
  int64_t times_;
  int64_t round_ = 1;
};

}  // namespace

std::unique_ptr<RequestSource> RepeatRequests(std::unique_ptr<RequestSource> source,
                                              int64_t times) {
  KCC_CHECK(times > 0);
  if (times == 1) return source;
  return std::make_unique<RepeatedRequests>(std::move(source), times);
}

}  // namespace kcc
