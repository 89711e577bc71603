#include "tests/soundness/forms.h"

#include <algorithm>
#include <numeric>

#include "kcc/trace/requests.h"

namespace kcc::soundness {
namespace {

// Log-probs that stand for logits: raw at 1, else scaled.
void SetLogprobs(EvidenceLevel level, double temperature, TraceInfo* info) {
  info->evidence = level;
  info->temperature = temperature;
  info->semantics =
      temperature == 1 ? LogprobSemantics::kRaw : LogprobSemantics::kTemperatureScaled;
}

}  // namespace

Arrays::Arrays(const Evidence& evidence)
    : requests(evidence.train.requests), info(evidence.train.info) {
  const std::vector<Row>& rows = evidence.train.rows;
  first_rows.resize(requests.size());
  row_counts.resize(requests.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto r = static_cast<size_t>(rows[i].request);
    if (row_counts[r]++ == 0) first_rows[r] = static_cast<int64_t>(i);
    positions.push_back(rows[i].position);
    tokens.push_back(rows[i].token);
    if (evidence.train.mask) mask.push_back(rows[i].masked ? 0 : 1);
    if (evidence.train.advantage) advantages.push_back(rows[i].advantage);
  }
  AddSide(0, evidence.train.rows);
  AddSide(1, evidence.infer.rows);
}

void Arrays::AddSide(size_t side, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    logits[side] = logits[side] || !row.logits.empty();
    top_k[side] = std::max(top_k[side], static_cast<int64_t>(row.top_ids.size()));
  }
  for (const Row& row : rows) {
    if (logits[side]) {
      values[side].insert(values[side].end(), row.logits.begin(), row.logits.end());
    } else {
      values[side].push_back(row.logprob);
    }
    for (size_t i = 0; i < static_cast<size_t>(top_k[side]); ++i) {
      const bool there = i < row.top_ids.size();
      top_ids[side].push_back(there ? row.top_ids[i] : -1);
      top_logprobs[side].push_back(there ? row.top_logprobs[i] : 0);
    }
  }
}

ArrayPair Arrays::Pair() const {
  ArrayPair pair;
  for (size_t i = 0; i < 2; ++i) {
    ArraySide& side = i == 0 ? pair.train : pair.infer;
    (logits[i] ? side.logits : side.logprobs) = values[i].data();
    if (top_k[i] == 0) continue;
    side.top_ids = top_ids[i].data();
    side.top_logprobs = top_logprobs[i].data();
    side.top_k = top_k[i];
  }
  pair.train.fingerprint = "train-kernel";
  pair.infer.fingerprint = "infer-kernel";
  pair.requests = requests;
  pair.first_rows = first_rows;
  pair.row_counts = row_counts;
  pair.positions = positions;
  pair.tokens = tokens;
  pair.mask = mask;
  pair.advantages = advantages;
  pair.vocab_size = info.vocab_size;
  pair.temperature = info.temperature;
  pair.sampling_temperature = info.sampling_temperature;
  pair.sampled_by = info.sampled_by;
  return pair;
}

std::string Arrays::RequestLines() const {
  std::string lines;
  for (const Request& request : requests) lines += RequestJson(request) + "\n";
  return lines;
}

Evidence ScaledForm(const Evidence& evidence) {
  Evidence scaled = evidence;
  for (SideEvidence* side : {&scaled.train, &scaled.infer}) {
    side->info.semantics = LogprobSemantics::kTemperatureScaled;
    const auto temperature = static_cast<float>(side->info.temperature);
    for (Row& row : side->rows) {
      for (float& logit : row.logits) logit /= temperature;
    }
  }
  return scaled;
}

Evidence TopKForm(const Evidence& evidence, int k) {
  Evidence lists = SampledForm(evidence);
  for (size_t i = 0; i < 2; ++i) {
    SideEvidence& side = i == 0 ? lists.train : lists.infer;
    side.info.evidence = EvidenceLevel::kTopK;
    const std::vector<Row>& rows = (i == 0 ? evidence.train : evidence.infer).rows;
    for (size_t at = 0; at < rows.size(); ++at) {
      const std::vector<double> logprobs = LogSoftmax(rows[at].logits, side.info.temperature);
      std::vector<int32_t>& ids = side.rows[at].top_ids;
      ids.resize(logprobs.size());
      std::iota(ids.begin(), ids.end(), 0);
      const auto value = [&](int32_t id) {
        return static_cast<float>(logprobs[static_cast<size_t>(id)]);
      };
      std::stable_sort(ids.begin(), ids.end(),
                       [&](int32_t a, int32_t b) { return value(a) > value(b); });
      ids.resize(static_cast<size_t>(k));
      for (const int32_t id : ids) side.rows[at].top_logprobs.push_back(value(id));
    }
  }
  return lists;
}

Evidence LogitsAgainstLists(const Evidence& logits, const Evidence& lists, bool train_full) {
  Evidence mixed = lists;
  SideEvidence& full = train_full ? mixed.train : mixed.infer;
  full = train_full ? logits.train : logits.infer;
  full.info.sampled_by = lists.train.info.sampled_by;
  full.info.sampling_temperature = lists.train.info.sampling_temperature;
  return mixed;
}

Evidence SampledForm(const Evidence& evidence, SampledBy sampled_by) {
  Evidence sampled = evidence;
  for (SideEvidence* side : {&sampled.train, &sampled.infer}) {
    const double temperature = side->info.temperature;
    SetLogprobs(EvidenceLevel::kSampledToken, temperature, &side->info);
    side->info.sampled_by = sampled_by;
    side->info.sampling_temperature.reset();
    if (sampled_by != SampledBy::kDataset) side->info.sampling_temperature = temperature;
    for (Row& row : side->rows) {
      row.logprob =
          static_cast<float>(LogSoftmax(row.logits, temperature)[static_cast<size_t>(row.token)]);
      row.logits.clear();
    }
  }
  return sampled;
}

SideEvidence Reordered(SideEvidence side, Dice* dice) {
  dice->Shuffle(&side.rows);
  std::vector<int32_t> order(side.requests.size());
  std::iota(order.begin(), order.end(), 0);
  dice->Shuffle(&order);
  std::vector<Request> moved(side.requests.size());
  for (size_t r = 0; r < order.size(); ++r) {
    moved[static_cast<size_t>(order[r])] = std::move(side.requests[r]);
  }
  side.requests = std::move(moved);
  for (Row& row : side.rows) row.request = order[static_cast<size_t>(row.request)];
  side.rows_a_file = dice->From(1, 6);
  return side;
}

}  // namespace kcc::soundness
