// Two paired traces as a source of pairs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kcc/measure/pair_source.h"
#include "kcc/trace/outputs.h"
#include "kcc/trace/pairing.h"

namespace kcc {

// What both sides were asked about one request. Labels and advantages are by token of the output:
// a kernel that scores given tokens does not know them, and whoever asked does.
struct AskedRequest {
  const Request* request = nullptr;
  int32_t first = 0;                 // position of the output's first token
  std::span<const int32_t> gold;     // -1: none; empty: no labels
  std::span<const float> advantage;  // NaN: none; empty: no advantages
};

// The requests that both sides were asked, by id: what they say of themselves counts.
using AskedRequests = std::map<std::string, AskedRequest, std::less<>>;

// Reads the pair where it lies; it and what was asked (may be null) must outlive the source.
// `outputs`: what CompareOutputs found, or nothing.
class TraceSource final : public PairSource {
 public:
  explicit TraceSource(const PairedTraces& pair, const AskedRequests* asked = nullptr,
                       std::vector<OutputComparison> outputs = {});

  MeterSettings settings() const override;
  size_t requests() const override { return pair_.requests().size(); }
  RequestPair request(size_t i) const override;
  int64_t tokens(size_t i) const override { return pair_.requests()[i].tokens; }
  int64_t bytes_per_token() const override { return bytes_per_token_; }
  std::unique_ptr<PairRows> Rows() const override;
  Error At(size_t request, int32_t position, const Error& why) const override;

 private:
  const AskedRequest* AskedOf(size_t request) const;  // null: not known

  const PairedTraces& pair_;
  const AskedRequests* asked_;
  std::vector<OutputComparison> outputs_;  // by request; empty: not compared
  int64_t bytes_per_token_ = 1;
};

}  // namespace kcc
