// Which build each kernel's evidence was measured from, kept over restarts (docs/gateway.md
// "Another build under one name").
//
// Evidence is kept by a kernel's name. At the start and at each reload it is looked whether the
// name stands for another build than it did: by the configuration (address, server, model, `set`),
// by what its server's own pages say, and by the fingerprint of its first answer since then. If so
// its evidence begins anew (Monitor::Renew); of the audit kernel, that of all others. What changes
// while the gateway runs is told, and begins nothing anew: else a kernel could shake off what
// speaks against it by telling another name of its own.
//
// Of a kernel whose fingerprint the policy names `set` alone is compared: another build is seen in
// its answers.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/control/gateway_files.h"
#include "kcc/kernel/server_build.h"

namespace kcc {

struct KernelBuild {
  std::string place;        // by the configuration: where it is asked, as what
  std::string set;          // members put into its requests
  std::string told;         // by its server's pages; empty: not known
  std::string fingerprint;  // of its answers; empty: not known

  bool operator==(const KernelBuild&) const = default;
};

class KernelBuilds {
 public:
  struct Hooks {
    // Begins the evidence of a kernel anew; may fail, and is then tried again.
    std::function<Result<>(const std::string& kernel, const std::string& reason)> renew;
    std::function<void(const std::string& kernel, const std::string& reason)> tell;
    // What a server says of itself; called by a thread of its own.
    std::function<Result<std::string>(const ServerBuildAsk&)> ask = AskServerBuild;
  };
  // `path`: where they are kept.
  KernelBuilds(std::string path, Hooks hooks);
  ~KernelBuilds();
  KernelBuilds(const KernelBuilds&) = delete;
  KernelBuilds& operator=(const KernelBuilds&) = delete;

  // The documents of the start, or of a reload: compares what they say, and looks for the rest
  // again. Fails where evidence that has to begin anew could not; nothing has changed then.
  Result<> Take(const GatewayDocuments& documents);
  // An answer's fingerprint; any thread, returns at once.
  void Saw(const std::string& kernel, const std::string& fingerprint);
  // What is known of each kernel now, for people.
  std::map<std::string, std::string> Shown() const;

 private:
  struct Kernel {
    KernelBuild recorded;  // that the evidence was measured from
    bool known = false;    // it was recorded
    bool audit = false;
    bool named = false;    // the policy names its fingerprint
    bool asks = false;     // its pages were not read since the documents were taken
    bool answers = false;  // no answer was seen since then
    std::string saw;       // fingerprint of an answer that is not compared yet
    std::string other;     // fingerprint that is told beside the recorded one
    size_t others = 0;     // how many were
    ServerBuildAsk ask = {};
  };
  using Kernels = std::map<std::string, Kernel>;
  void Run();
  void LookOnce();
  void Compare(const std::string& name, std::string KernelBuild::*member, const std::string& now,
               const char* what);
  Result<> Renew(const Kernels& kernels, const std::string& name, const std::string& reason) const;
  void Keep() const;  // holding the lock

  const std::string path_;
  const Hooks hooks_;
  std::mutex work_;  // one comparison at a time; before `mutex_`
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Kernels kernels_;
  bool unreadable_ = false;  // what was kept cannot be read: any build may have been meant
  bool woken_ = false;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace kcc
