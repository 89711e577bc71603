// The JSON Schema of a stored request (kcc schema --request).
#include "kcc/replay/stored_request.h"
#include "kcc/report/json_schema.h"

namespace kcc {
namespace {

using namespace json_schema;

constexpr std::array kStored = {StoreRequests::kHashes, StoreRequests::kFull};
constexpr std::array kSides = {SampledBy::kInfer, SampledBy::kTrain, SampledBy::kDataset};

Schema FlagSchema() {
  return Object({{"clause", Text("id of the clause")},
                 {"slice", Text("")},
                 {"quantity", Text("such as kl")},
                 {"value", RefDescribed("number", "of the request, or of one of its tokens")},
                 {"threshold", Ref("number")},
                 {"position", Count("of the token; absent for a quantity of requests"), false},
                 {"token", Count("its id; with full"), false}});
}

Schema SideSchema(std::string_view description) {
  return Object({{"fingerprint", Text("identifies the build")},
                 {"modelDigest", Text("of the weights, where the kernel says it"), false},
                 {"declares", MapOf(Text(""), "what the kernel says of itself")},
                 {"replaySignature", Text("absent: the kernel gave none"), false}},
                description);
}

Schema SamplingSchema() {
  return Object({{"by", OneOf(kSides, "who chose the output tokens")},
                 {"temperature", RefDescribed("number", "0: greedily; absent: not known"), false},
                 {"altered", Bool("not drawn from the whole distribution"), false},
                 {"parameters", MapOf(Ref("number"), "top_p, top_k, repetition_penalty …")},
                 {"seed", Text("decimal"), false}});
}

Schema BatchSchema(const std::string& description) {
  return Object({{"place", Count("of this request in its batch, from 0")},
                 {"shape", ListOf("{\"type\":\"array\",\"items\":{\"type\":\"integer\"},"
                                  "\"minItems\":2,\"maxItems\":2}",
                                  "prompt and output tokens of every request of the batch")}},
                description);
}

}  // namespace

std::string StoredRequestSchema() {
  Definitions definitions = NumberDefinitions();
  definitions.emplace_back("digest", "{\"type\":\"string\",\"pattern\":\"^sha256:[0-9a-f]{64}$\"}");
  definitions.emplace_back(
      "fieldValue",
      "{\"anyOf\":[{\"$ref\":\"#/$defs/number\"},{\"type\":\"boolean\"},{\"type\":\"string\"},"
      "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}]}");
  const Schema ids = ListOf("{\"type\":\"integer\"}", "token ids; with full");
  return Document(
      "kcc stored request", definitions,
      Object({{"kccStoredRequest", "{\"const\":1}"},
              {"request", Text("its id")},
              {"store", OneOf(kStored, "how much is kept")},
              {"sampled", Bool("chosen by the hash of its id")},
              {"flags", ListOf(FlagSchema(), "values beyond a threshold; none: sampled alone")},
              {"model", Text("")},
              {"contract", Ref("digest")},
              {"triple", Ref("digest")},
              {"sampling", SamplingSchema()},
              {"batch", BatchSchema("what it was asked together with; absent: not known"), false},
              {"trainBatch", BatchSchema("of train, where that was another; no shape: not known"),
               false},
              {"promptTokens", Count("")},
              {"outputTokens", Count("")},
              {"promptDigest", RefDescribed("digest", "of the ids in decimal, each with a blank")},
              {"outputDigest", Ref("digest")},
              {"prompt", ids, false},
              {"output", ids, false},
              {"tags", ListOf(Text(""), "with full"), false},
              {"fields", MapOf(Ref("fieldValue"), "of origin request; with full"), false},
              {"leftOut", ListOf(Text(""), "names of fields that hold text; with full"), false},
              {"train", SideSchema("the training kernel")},
              {"infer", SideSchema("the inference kernel")}}));
}

}  // namespace kcc
