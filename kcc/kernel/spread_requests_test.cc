#include "kcc/kernel/spread_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace kcc {
namespace {

std::vector<KernelRequest> Numbered(int count) {
  std::vector<KernelRequest> requests(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) requests[static_cast<size_t>(i)].request.id = std::to_string(i);
  return requests;
}

std::vector<std::string> IdsOf(const std::vector<KernelRequest>& requests) {
  std::vector<std::string> ids;
  for (const KernelRequest& request : requests) ids.push_back(request.request.id);
  return ids;
}

class MemorySource final : public RequestSource {
 public:
  explicit MemorySource(std::vector<KernelRequest> requests) : requests_(std::move(requests)) {}
  Result<bool> Next(KernelRequest* request) override {
    if (at_ == requests_.size()) return false;
    *request = requests_[at_++];
    return true;
  }
  Result<> Rewind() override {
    at_ = 0;
    return {};
  }
  RequestTotals totals() const override { return {static_cast<int64_t>(requests_.size()), 0}; }
  SampledBy sampled_by() const override { return SampledBy::kDataset; }
  std::optional<double> sampling_temperature() const override { return std::nullopt; }
  Place place() const override { return {}; }

 private:
  std::vector<KernelRequest> requests_;
  size_t at_ = 0;
};

TEST(SpreadRequests, AreDistinctAndCoverTheWhole) {
  const std::vector<KernelRequest> pool = Numbered(20);
  for (const size_t count : {1u, 3u, 7u, 20u, 50u}) {
    for (const size_t shift : {0u, 1u, 9u}) {
      const std::vector<std::string> ids = IdsOf(SpreadRequests(pool, count, shift));
      EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), std::min<size_t>(count, 20))
          << count << " " << shift;
    }
  }
  EXPECT_EQ(IdsOf(SpreadRequests(pool, 3)), (std::vector<std::string>{"0", "6", "13"}));
  EXPECT_TRUE(SpreadRequests({}, 3).empty());
}

TEST(SpreadRequests, OfASourceAreTheSame) {
  for (const int total : {0, 1, 2, 7, 20, 101}) {
    const std::vector<KernelRequest> pool = Numbered(total);
    for (const int64_t count : {0, 1, 2, 3, 7, 19, 20, 100, 500}) {
      MemorySource source(pool);
      const auto read = ReadSpread(source, count);
      ASSERT_TRUE(read.has_value());
      const size_t wanted = count == 0 ? pool.size() : static_cast<size_t>(count);
      EXPECT_EQ(IdsOf(*read), IdsOf(SpreadRequests(pool, wanted))) << total << " " << count;
    }
  }
}

}  // namespace
}  // namespace kcc
