// DeviceSource: a source whose full logits lie in the host's memory, measured on a device. Rows are
// read ahead in pieces, copied there, and come back as quantities beside the rows themselves, which
// are read a second time for what slices, masks and statistics ask of them.
#pragma once

#include <cstdint>
#include <memory>

#include "kcc/measure/pair_source.h"
#include "kcc/measure/row_device.h"

namespace kcc {

class DeviceSource final : public PairSource {
 public:
  // Both outlive the source. Precondition: the source's evidence is full logits.
  DeviceSource(const PairSource& source, const RowDevice& device, const SlotSet& wanted);

  MeterSettings settings() const override { return source_.settings(); }
  size_t requests() const override { return source_.requests(); }
  RequestPair request(size_t i) const override { return source_.request(i); }
  int64_t tokens(size_t i) const override { return source_.tokens(i); }
  int64_t bytes_per_token() const override { return source_.bytes_per_token(); }
  std::unique_ptr<PairRows> Rows() const override;
  Error At(size_t request, int32_t position, const Error& why) const override {
    return source_.At(request, position, why);
  }

 private:
  const PairSource& source_;
  const RowDevice& device_;
  const SlotSet wanted_;
};

}  // namespace kcc
