// The lab as a Kernel: `lab:NAME?option=value&…`, in process, no server and no other program.
//
// Options are the switches of switches.h, and `model`, the checkpoint's directory.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/uri.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/lab/engine.h"
#include "kcc/lab/switches.h"

namespace kcc {

// The shipped model, in the checkout and wherever else the program's data lies.
inline constexpr std::string_view kLabModelDirectory = "models/kcc-lab";

// Says where the shipped model lies, for a URI that names none. Where that is depends on the
// process, so whoever opens kernels hands it in; it is called only when a URI needs it. Empty: in
// the working directory.
using ShippedModel = std::function<Result<std::string>()>;

// Where a kernel is opened: the words after `lab:`.
struct LabUri {
  std::string kernel;  // "fp8"
  std::string model;   // directory; empty: the shipped model
  NamedValues options;

  Result<std::string> ModelDirectory(const ShippedModel& shipped) const;
};
// "lab:fp8?kv=bf16&model=DIR".
Result<LabUri> ParseLabUri(std::string_view uri);

// What the engine says of itself when it runs the model with these switches: for who drives the
// engine without a kernel, and writes no trace.
KernelInfo LabKernelInfo(const LabModel& model, const LabSwitches& switches);

class LabKernel final : public Kernel {
 public:
  // The clock outlives the kernel; null: the system's. `audit_points`: traces hold the audit points
  // of every operator, unless the switch `audit` is off; signatures stay those of the switch.
  static Result<std::unique_ptr<LabKernel>> Open(const LabUri& uri,
                                                 const ShippedModel& shipped = nullptr,
                                                 const Clock* clock = nullptr,
                                                 bool audit_points = false);
  static Result<std::unique_ptr<LabKernel>> Make(const Checkpoint& checkpoint,
                                                 const LabSwitches& switches,
                                                 const Clock* clock = nullptr,
                                                 bool audit_points = false);

  const KernelInfo& info() const override { return info_; }
  Result<> Score(std::span<const KernelRequest> batch, const std::string& directory) override;
  Result<> Generate(std::span<const KernelRequest> batch, const Sampling& sampling,
                    const std::string& directory) override;

  const LabSwitches& switches() const { return switches_; }
  const LabModel& model() const { return model_; }
  Engine& engine() { return engine_; }

 private:
  LabKernel(LabModel model, const LabSwitches& switches, const Clock* clock, bool audit_points);
  Result<> WriteTrace(std::span<const KernelRequest> batch, const std::string& directory,
                      const Sampling* sampling);
  Request Describe(const KernelRequest& asked, const RequestOutcome& outcome, size_t output_tokens,
                   const Sampling* sampling, int64_t started_at_ms) const;

  LabModel model_;
  LabSwitches switches_;
  bool audit_points_;
  const Clock& clock_;
  Engine engine_;
  KernelInfo info_;
};

// For the table of OpenKernel (kernel/uri.h): `lab:NAME?option=value`.
KernelScheme LabScheme(ShippedModel shipped);

}  // namespace kcc
