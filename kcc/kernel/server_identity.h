// Who answers: model, version and vocabulary, from the server's own endpoints.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/format/json.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/server_dialect.h"
#include "kcc/kernel/server_options.h"

namespace kcc {

// One GET that must give an object.
struct ServerDocument {
  std::string body;
  json::parser parser;
  json::object object;  // lives in the parser
};
Result<> GetDocument(HttpPool& pool, const std::string& path, ServerDocument* document);

// The listed members, where they are there, as part of the server's identity.
void KeepIdentity(const ServerDocument& document, std::span<const std::string_view> names,
                  ServerFacts* facts);

// ServerDialect::identify of servers that say {"version": …} at /version and nothing else.
Result<> IdentifyByVersion(HttpPool& pool, ServerFacts* facts);

// Asks which models there are, and sets the one that the options mean.
Result<> FindModel(HttpPool& pool, const ServerOptions& options, ServerFacts* facts);

// The servers that this one may be, by what it says of itself: several where their pages are alike,
// none where it is of no kind that kcc knows. Fails where nobody answers.
Result<std::vector<const ServerDialect*>> GuessServer(HttpPool& pool);

// Fails where the server is of another kind than was said, has several models and none was named,
// or does not tell its vocabulary and nobody else does (logits tell it with their first row).
Result<ServerFacts> DiscoverServer(HttpPool& pool, const ServerOptions& options);

// The answer of /v1/models: sets the model, the one that is `wanted` if that is not empty, and the
// vocabulary where the server tells it there.
Result<> ReadModelList(const std::string& body, const std::string& wanted, ServerFacts* facts);

// Names the build, the model and the options that change numbers; not the host, not the key.
std::string ServerFingerprint(const ServerFacts& facts, const ServerOptions& options);

}  // namespace kcc
