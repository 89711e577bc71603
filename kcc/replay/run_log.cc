#include "kcc/replay/run_log.h"

#include <algorithm>
#include <array>

#include "kcc/base/strings.h"
#include "kcc/kernel/audit_points.h"
#include "kcc/kernel/stream.h"
#include "kcc/predicate/fields.h"
#include "kcc/replay/choose_requests.h"

namespace kcc {
namespace {

// Fields by which traces say how tokens were sampled. They are parameters, not facts about a
// request.
constexpr std::array<std::string_view, 8> kSamplingFields = {"frequency_penalty",
                                                             "min_p",
                                                             "output_tokens_max",
                                                             "presence_penalty",
                                                             "repetition_penalty",
                                                             "top_k",
                                                             "top_p",
                                                             "typical_p"};

// Known by other keys of the record, or only of the run that was kept.
constexpr std::array<std::string_view, 5> kElsewhere = {"prompt_tokens", "prompt", "seed", "tags",
                                                        kAskedBatchField};

template <class Names>
bool Among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string SeedText(const Request& request) {
  if (const std::string* text = request.Text("seed")) return *text;
  const auto number = request.Number("seed");
  return number ? ShortestNumber(*number) : std::string();
}

std::string SignatureOf(const Request& request) {
  const std::string* text = request.Text(kReplaySignatureField);
  return text == nullptr ? std::string() : *text;
}

bool HoldsText(const RequestValue& value) {
  return !std::holds_alternative<double>(value) && !std::holds_alternative<bool>(value);
}

StoredSide SideOf(const SourceSide& side, const std::string& signature) {
  return {side.kernel_fingerprint, side.model_digest, side.declares, signature};
}

}  // namespace

void RunLog::AddSigned(const PairedTraces& pair, size_t i, Signed* row) const {
  const Request& train = pair.train_request(static_cast<int32_t>(i));
  const Request& infer = pair.infer_request(static_cast<int32_t>(i));
  row->train = SignatureOf(train);
  row->infer = SignatureOf(infer);
  row->seed = SeedText(infer);
  if (row->seed.empty()) row->seed = SeedText(train);
}

void RunLog::AddBatch(const PairedTraces& pair, std::span<const KernelRequest> batch) {
  for (size_t i = 0; i < pair.requests().size(); ++i) {
    AddSigned(pair, i, &requests_[std::string(pair.requests()[i].id)]);
  }
  auto& shape = batches_.emplace_back();
  for (const KernelRequest& request : batch) {
    Signed& row = requests_[request.request.id];
    row.infer_asked = {static_cast<int64_t>(batches_.size()) - 1, shape.size()};
    row.train_asked = row.infer_asked;
    shape.emplace_back(request.prompt_tokens,
                       static_cast<int32_t>(request.tokens.size()) - request.prompt_tokens);
  }
}

void RunLog::AddTraces(const PairedTraces& pair) {
  for (size_t i = 0; i < pair.requests().size(); ++i) {
    AddSigned(pair, i, &requests_[std::string(pair.requests()[i].id)]);
  }
  // Each side was asked by itself, and maybe in other batches.
  AddBatchesOf(pair.train(), &Signed::train_asked);
  AddBatchesOf(pair.infer(), &Signed::infer_asked);
}

// A trace lists its requests in the order of asking, and says of each in which batch it was.
void RunLog::AddBatchesOf(const TraceReader& side, Asked Signed::*asked) {
  std::map<double, size_t> known;
  for (const Request& request : side.requests()) {
    const auto batch = request.Number(kAskedBatchField);
    const auto prompt = request.Number("prompt_tokens");
    const auto output = request.Number("output_tokens");
    if (!batch || !prompt || !output) continue;
    const auto [at, fresh] = known.emplace(*batch, batches_.size());
    if (fresh) batches_.emplace_back();
    if (const auto row = requests_.find(request.id); row != requests_.end()) {
      row->second.*asked = {static_cast<int64_t>(at->second), batches_[at->second].size()};
    }
    batches_[at->second].emplace_back(static_cast<int32_t>(*prompt), static_cast<int32_t>(*output));
  }
}

BatchShape RunLog::ShapeOf(const Asked& asked) const {
  if (asked.batch < 0) return {};
  return {asked.place, batches_[static_cast<size_t>(asked.batch)]};
}

void SetContent(const KernelRequest& request, const RequestStorage& storage,
                StoredRequest* stored) {
  const auto prompt = static_cast<size_t>(request.prompt_tokens);
  const std::span<const int32_t> tokens(request.tokens);
  stored->prompt_tokens = request.prompt_tokens;
  stored->output_tokens = static_cast<int32_t>(tokens.size() - prompt);
  stored->prompt_digest = TokensDigest(tokens.first(prompt));
  stored->output_digest = TokensDigest(tokens.subspan(prompt));
  const bool full = stored->store == StoreRequests::kFull;
  if (full) {
    stored->tokens = request.tokens;
  } else {  // not even one of them
    for (RequestFlag& flag : stored->flags) flag.token = -1;
  }
  for (const auto& [name, value] : request.request.fields) {
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr && Among(kSamplingFields, name)) {
      stored->sampling[name] = *number;
      continue;
    }
    if (name == "sampling_seed") continue;
    const auto* list = std::get_if<std::vector<std::string>>(&value);
    if (full && name == "tags" && list != nullptr) stored->tags = *list;
    if (!full || Among(kElsewhere, name) || MeasuredByKernel(name) ||
        OriginOf(name) != FieldOrigin::kRequest) {
      continue;
    }
    if (HoldsText(value) && !storage.text) {
      stored->left_out.push_back(name);
    } else {
      stored->fields[name] = value;
    }
  }
}

Result<std::vector<StoredRequest>> RunLog::Keep(const Judged& run, const RequestStorage& storage) {
  std::vector<StoredRequest> kept;
  if (storage.store == StoreRequests::kNone) return kept;
  const auto flagged = storage.flagged ? FlaggedRequests(run.contract, run.judgement, run.summary)
                                       : std::map<std::string, std::vector<RequestFlag>>();
  const auto wanted = [&](const std::string& id) {
    return flagged.contains(id) || InSample(id, storage.sample);
  };
  const bool any = std::any_of(requests_.begin(), requests_.end(),
                               [&](const auto& row) { return wanted(row.first); });
  if (!any) return kept;
  if (source_ == nullptr) {
    return no_source_ ? *no_source_ : InvalidError("the token ids of the requests are not known");
  }
  KCC_TRY_VOID(source_->Rewind());
  const Source& pair = run.summary.sources.front();
  KernelRequest request;
  while (true) {
    KCC_TRY(const bool more, source_->Next(&request));
    if (!more) return kept;
    const std::string& id = request.request.id;
    const auto row = requests_.find(id);
    if (row == requests_.end() || !wanted(id)) continue;
    StoredRequest& stored = kept.emplace_back();
    stored.id = id;
    stored.store = storage.store;
    stored.sampled = InSample(id, storage.sample);
    if (const auto flags = flagged.find(id); flags != flagged.end()) stored.flags = flags->second;
    stored.model = run.model;
    stored.contract = run.contract_digest;
    stored.triple = run.triple;
    stored.sampled_by = source_->sampled_by();
    stored.sampling_temperature = source_->sampling_temperature();
    stored.sampling_altered = source_->sampling_altered();
    stored.seed = row->second.seed;
    stored.batch = ShapeOf(row->second.infer_asked);
    BatchShape of_train = ShapeOf(row->second.train_asked);
    if (of_train != stored.batch) stored.train_batch = std::move(of_train);
    SetContent(request, storage, &stored);
    stored.train = SideOf(pair.train, row->second.train);
    stored.infer = SideOf(pair.infer, row->second.infer);
  }
}

}  // namespace kcc
