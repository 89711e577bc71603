#include "kcc/statement/chain_head.h"

#include "kcc/statement/json_fields.h"
#include "kcc/statement/predicate_json.h"
#include "kcc/statement/timestamp.h"

namespace kcc {

Result<Statement> ChainHeadStatement(const ChainHead& head) {
  KCC_TRY_VOID(CheckTime(head.time_ms));
  KCC_TRY_VOID(CheckDigest(head.digest, "the register's head"));
  if (head.register_id.empty())
    return InvalidError("the head of a register needs the register's id");
  if (head.sequence < 0) return InvalidError("the sequence number of a head is at least 0");
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  json.Field("time", FormatTimestamp(head.time_ms)).Field("register", head.register_id);
  json.Field("sequence", head.sequence);
  json.Key("digest");
  WriteDigestSet(head.digest, &json);
  json.EndObject();
  return Statement{{{"register/" + head.register_id, head.digest}},
                   std::string(kRegisterHeadType),
                   TakePredicate(&json)};
}

Result<ChainHead> ReadChainHead(std::string_view predicate) {
  json::parser parser;
  KCC_TRY(const json::element element, ParseJson(parser, predicate));
  std::string problem;
  const JsonFields root(element, "predicate", &problem);
  ChainHead head;
  head.time_ms = root.At("time").Time();
  head.register_id = root.At("register").Text();
  head.sequence = root.At("sequence").Count();
  head.digest = root.At("digest").Sha256();
  if (!problem.empty()) return InvalidError("not a register's head: " + problem);
  return head;
}

}  // namespace kcc
