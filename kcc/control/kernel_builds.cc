#include "kcc/control/kernel_builds.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr auto kAskAgain = std::chrono::seconds(5);
constexpr size_t kBuildBytesMax = size_t{1} << 20;
constexpr size_t kWordsMax = 70;  // of each of the two that a reason compares
constexpr size_t kReasonMax = 250;
constexpr double kAskSeconds = 5;
constexpr size_t kOthersTold = 8;  // of one kernel, that are events

std::string PlaceOf(const GatewayKernel& kernel) {
  return UrlText(kernel.url) + " (" + kernel.server +
         (kernel.model.empty() ? "" : ", model " + kernel.model) + ")";
}

std::string SetOf(const GatewayKernel& kernel) {
  std::string text;
  for (const auto& [member, json] : kernel.set) {
    text += (text.empty() ? "" : ", ") + member + " " + json;
  }
  return text;
}

ServerBuildAsk AskOf(const GatewayDocuments& documents, const GatewayKernel& kernel) {
  ServerBuildAsk ask;
  ask.server = kernel.server;
  ask.model = kernel.model.empty() ? documents.config.model : kernel.model;
  ask.http.base_url = UrlText(kernel.url);
  const auto key = documents.kernel_keys.find(kernel.name);
  if (key != documents.kernel_keys.end()) ask.http.api_key = key->second;
  if (!kernel.ca_file.empty()) ask.http.ca_file = documents.PathOf(kernel.ca_file);
  ask.http.retries_max = 0;
  ask.http.connect_timeout_s = ask.http.timeout_s = ask.http.batch_timeout_s = kAskSeconds;
  return ask;
}

// What others wrote, as a part of a sentence.
std::string Words(const std::string& text) {
  if (text.empty()) return "nothing";
  std::string words;
  for (const char c : text) words += c >= ' ' && c < '\x7f' ? c : '?';
  if (words.size() > kWordsMax) words = words.substr(0, kWordsMax - 3) + "...";
  return "'" + words + "'";
}

// The first parts of two lists that differ.
std::pair<std::string, std::string> FirstParts(const std::string& a, const std::string& b) {
  size_t begin = 0;
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common && a[i] == b[i]; ++i) {
    if (a[i] == ',') begin = i + 2;
  }
  const auto part = [&](const std::string& text) {
    return begin >= text.size() ? std::string() : text.substr(begin, text.find(',', begin) - begin);
  };
  return {part(a), part(b)};
}

std::string MemberOf(json::object object, std::string_view key) {
  return std::string(JsonText(JsonMember(object, key)));
}

// None: it cannot be read.
std::optional<std::map<std::string, KernelBuild>> ReadBuilds(const std::string& path) {
  const auto text = ReadRegularFile(path, kBuildBytesMax);
  if (!text.has_value()) return std::nullopt;
  json::parser parser;
  const auto root = ParseJson(parser, *text);
  json::object object;
  json::object kernels;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) return std::nullopt;
  const auto member = JsonMember(object, "kernels");
  if (!member || member->get(kernels) != simdjson::SUCCESS) return std::nullopt;
  std::map<std::string, KernelBuild> builds;
  for (const auto field : kernels) {
    json::object row;
    if (field.value.get(row) != simdjson::SUCCESS) return std::nullopt;
    builds[std::string(field.key)] = {MemberOf(row, "place"), MemberOf(row, "set"),
                                      MemberOf(row, "told"), MemberOf(row, "fingerprint")};
  }
  return builds;
}

}  // namespace

KernelBuilds::KernelBuilds(std::string path, Hooks hooks)
    : path_(std::move(path)), hooks_(std::move(hooks)) {
  std::error_code error;
  if (std::filesystem::exists(path_, error)) {
    auto builds = ReadBuilds(path_);
    unreadable_ = !builds;
    for (auto& [name, build] : builds.value_or(std::map<std::string, KernelBuild>())) {
      kernels_[name].recorded = std::move(build);
      kernels_[name].known = true;
    }
  }
  thread_ = std::thread([this] { Run(); });
}

KernelBuilds::~KernelBuilds() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<> KernelBuilds::Take(const GatewayDocuments& documents) {
  const std::lock_guard work(work_);
  Kernels next;
  for (const GatewayKernel& row : documents.config.kernels) {
    const MonitorKernel* const monitored = documents.policy.FindKernel(row.name);
    Kernel& kernel = next[row.name];
    {
      const std::lock_guard lock(mutex_);
      const auto found = kernels_.find(row.name);
      if (found != kernels_.end()) kernel = found->second;
    }
    kernel.audit = monitored != nullptr && monitored->role == KernelRole::kAudit;
    kernel.named = monitored != nullptr && !monitored->fingerprint.empty();
    kernel.asks = kernel.answers = !kernel.named;
    kernel.saw.clear();
    kernel.other.clear();
    kernel.others = 0;
    kernel.ask = AskOf(documents, row);
  }
  for (const GatewayKernel& row : documents.config.kernels) {
    Kernel& kernel = next[row.name];
    const KernelBuild before = kernel.recorded;
    kernel.recorded.place = PlaceOf(row);
    kernel.recorded.set = SetOf(row);
    std::string reason;
    if (unreadable_) {
      reason = "which build its evidence was measured from cannot be read";
    } else if (kernel.known && before.set != kernel.recorded.set) {
      reason =
          "its requests get " + Words(kernel.recorded.set) + " now, and got " + Words(before.set);
    } else if (kernel.known && !kernel.named && before.place != kernel.recorded.place) {
      reason = "it is " + Words(kernel.recorded.place) + " now, and was " + Words(before.place);
    }
    if (!reason.empty()) KCC_TRY_VOID(Renew(next, row.name, reason));
  }
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, kernel] : next) kernel.known = true;
    kernels_ = std::move(next);
    unreadable_ = false;
    Keep();
    woken_ = true;
  }
  wake_.notify_all();
  return {};
}

void KernelBuilds::Saw(const std::string& name, const std::string& fingerprint) {
  if (fingerprint.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(name);
  if (found == kernels_.end() || found->second.named) return;
  Kernel& kernel = found->second;
  const std::string& last = kernel.other.empty() ? kernel.recorded.fingerprint : kernel.other;
  if (!kernel.saw.empty() || (!kernel.answers && fingerprint == last)) return;
  kernel.saw = fingerprint;
  woken_ = true;
  wake_.notify_all();
}

void KernelBuilds::Run() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    wake_.wait_for(lock, kAskAgain, [&] { return end_ || woken_; });
    if (end_) return;
    woken_ = false;
    lock.unlock();
    LookOnce();
    lock.lock();
  }
}

void KernelBuilds::LookOnce() {
  std::map<std::string, Kernel> seen;
  {
    const std::lock_guard lock(mutex_);
    seen = kernels_;
  }
  for (const auto& [name, kernel] : seen) {
    if (kernel.asks) {
      const auto told = hooks_.ask(kernel.ask);
      if (told.has_value()) Compare(name, &KernelBuild::told, *told, "its server says");
    }
    if (!kernel.saw.empty()) {
      Compare(name, &KernelBuild::fingerprint, kernel.saw, "its answers say");
    }
    const std::lock_guard lock(mutex_);
    if (end_) return;
  }
}

// The first since the documents were taken; where nothing was recorded it is recorded, and where
// another was, the evidence begins anew before it is.
void KernelBuilds::Compare(const std::string& name, std::string KernelBuild::*member,
                           const std::string& now, const char* what) {
  const std::lock_guard work(work_);
  Kernels kernels;
  {
    const std::lock_guard lock(mutex_);
    kernels = kernels_;
  }
  if (!kernels.contains(name)) return;
  const Kernel& kernel = kernels[name];
  const bool answers = member == &KernelBuild::fingerprint;
  const std::string before = kernel.recorded.*member;
  const bool differs = !before.empty() && before != now;
  const auto [was, is] = FirstParts(before, now);
  const bool first = answers ? kernel.answers : kernel.asks;
  if (first && differs) {
    const Result<> renewed =
        Renew(kernels, name, std::string(what) + " " + Words(is) + " now, and said " + Words(was));
    if (!renewed.has_value()) return;  // it is looked at again
  } else if (differs && kernel.others < kOthersTold) {
    hooks_.tell(name,
                name + ": " + what + " " + Words(is) + " now, and " + Words(was) +
                    " before; its evidence is of both, and begins anew at a restart or reload");
  }
  const std::lock_guard lock(mutex_);
  Kernel& kept = kernels_[name];
  if (first) kept.recorded.*member = now;
  if (answers) {
    kept.answers = false;
    kept.saw.clear();
    if (!first) {
      kept.other = now == kept.recorded.fingerprint ? "" : now;
      ++kept.others;
    }
  } else {
    kept.asks = false;
  }
  if (first) Keep();
}

Result<> KernelBuilds::Renew(const Kernels& kernels, const std::string& name,
                             const std::string& reason) const {
  const bool audit = kernels.at(name).audit;
  const std::string why =
      ((audit ? "the audit kernel " + name + " is another: " : "") + reason).substr(0, kReasonMax);
  for (const auto& [other, kernel] : kernels) {
    const bool meant = audit ? !kernel.audit : other == name;
    if (meant) KCC_TRY_VOID(hooks_.renew(other, why + "; evidence of before is none of it"));
  }
  return {};
}

// What cannot be kept is compared with what was kept before, which begins anew once more.
void KernelBuilds::Keep() const {
  JsonWriter json;
  json.BeginObject().Field("kccKernelBuilds", 1).Key("kernels").BeginObject();
  for (const auto& [name, kernel] : kernels_) {
    const KernelBuild& build = kernel.recorded;
    json.Key(name).BeginObject().Field("place", build.place).Field("set", build.set);
    json.Field("told", build.told).Field("fingerprint", build.fingerprint).EndObject();
  }
  (void)WriteFileAtomically(path_, json.EndObject().EndObject().Take());
}

std::map<std::string, std::string> KernelBuilds::Shown() const {
  std::map<std::string, std::string> shown;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, kernel] : kernels_) {
    std::string text = kernel.recorded.told;
    if (!kernel.recorded.fingerprint.empty()) {
      text += (text.empty() ? "" : "; ") + kernel.recorded.fingerprint;
    }
    if (!kernel.other.empty()) text += "; its answers say " + kernel.other + " now";
    shown[name] = text;
  }
  return shown;
}

}  // namespace kcc
