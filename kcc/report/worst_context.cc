#include "kcc/report/worst_context.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

namespace kcc {
namespace {

constexpr int kNeighbours = 6;  // on either side
constexpr std::string_view kOpen = "⟦";
constexpr std::string_view kClose = "⟧";

struct RowToken {
  int32_t position;
  int32_t token;
};

// A list field of the infer side, else of the train side; null if neither has one.
const std::vector<std::string>* ListField(const PairedTraces& pair, int32_t request,
                                          std::string_view field) {
  for (const Request* side : {&pair.infer_request(request), &pair.train_request(request)}) {
    const auto found = side->fields.find(field);
    if (found == side->fields.end()) continue;
    if (const auto* list = std::get_if<std::vector<std::string>>(&found->second)) return list;
  }
  return nullptr;
}

Result<std::vector<RowToken>> TokensOf(int32_t request, PairCursor* cursor) {
  std::vector<RowToken> tokens;
  cursor->Seek(request);
  while (true) {
    KCC_TRY(const bool more, cursor->Next());
    if (!more) break;
    tokens.push_back({cursor->infer().position, cursor->infer().token});
  }
  return tokens;
}

// "… 71 12 ⟦239⟧ 4 …", or the texts put together.
std::string ContextOf(const std::vector<RowToken>& tokens, size_t at, int32_t prompt_tokens,
                      const std::vector<std::string>* texts) {
  const size_t first = at > kNeighbours ? at - kNeighbours : 0;
  const size_t last = std::min(tokens.size(), at + kNeighbours + 1);
  const auto text_of = [&](const RowToken& place) -> const std::string* {
    const int32_t index = place.position - prompt_tokens;
    if (texts == nullptr || index < 0 || static_cast<size_t>(index) >= texts->size()) {
      return nullptr;
    }
    return &(*texts)[static_cast<size_t>(index)];
  };
  bool words = true;
  for (size_t i = first; i < last; ++i) words = words && text_of(tokens[i]) != nullptr;
  std::string context = first > 0 ? (words ? "…" : "… ") : "";
  for (size_t i = first; i < last; ++i) {
    // Positions need not be adjacent: masked tokens have no row here.
    const bool gap = i > first && tokens[i].position != tokens[i - 1].position + 1;
    if (!words && i > first) context += ' ';
    if (gap) context += words ? "…" : "… ";
    const std::string shown = words ? *text_of(tokens[i]) : std::to_string(tokens[i].token);
    if (i == at) {
      context.append(kOpen).append(shown).append(kClose);
    } else {
      context += shown;
    }
  }
  if (last < tokens.size()) context += words ? "…" : " …";
  return context;
}

}  // namespace

Result<> AddWorstContext(const PairedTraces& pair, ReportData* report) {
  std::map<std::string_view, std::vector<WorstToken*>> by_request;
  for (WorstToken& row : report->worst) by_request[row.request].push_back(&row);
  PairCursor cursor(pair);
  const std::vector<PairedRequest>& requests = pair.requests();
  for (auto& [id, rows] : by_request) {
    // Requests are in order of their ids.
    const auto found = std::lower_bound(
        requests.begin(), requests.end(), id,
        [](const PairedRequest& request, std::string_view name) { return request.id < name; });
    if (found == requests.end() || found->id != id) continue;
    const auto request = static_cast<int32_t>(found - requests.begin());
    if (const auto* tags = ListField(pair, request, "tags")) {
      for (WorstToken* row : rows) row->tags = *tags;
    }
    KCC_TRY(const std::vector<RowToken> tokens, TokensOf(request, &cursor));
    const auto* texts = ListField(pair, request, "token_texts");
    for (WorstToken* row : rows) {
      const auto at = std::find_if(tokens.begin(), tokens.end(), [&](const RowToken& place) {
        return place.position == row->position;
      });
      if (at == tokens.end()) continue;
      row->context =
          ContextOf(tokens, static_cast<size_t>(at - tokens.begin()), found->prompt_tokens, texts);
    }
  }
  return {};
}

}  // namespace kcc
