#include "kcc/trace/pairing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using testing::MustOpen;
using testing::ScratchDir;
using testing::SyntheticSpec;
using testing::WriteSynthetic;

Result<PairedTraces> Pair(const ScratchDir& scratch, const PairingOptions& options = {}) {
  return PairedTraces::Make(MustOpen(scratch / "train"), MustOpen(scratch / "infer"), options);
}

std::string Problem(const SyntheticSpec& train, const SyntheticSpec& infer,
                    const PairingOptions& options = {}) {
  const ScratchDir scratch;
  WriteSynthetic(scratch / "train", train);
  WriteSynthetic(scratch / "infer", infer);
  const auto pair = Pair(scratch, options);
  return pair.has_value() ? "" : pair.error().Format();
}

// Every counted pair as text, by canonical request.
std::string Walk(const PairedTraces& pair) {
  std::string text;
  PairCursor cursor(pair);
  for (int32_t i = 0; i < static_cast<int32_t>(pair.requests().size()); ++i) {
    text += std::string(pair.requests()[static_cast<size_t>(i)].id) + ":";
    cursor.Seek(i);
    while (cursor.Next().value()) {
      EXPECT_EQ(cursor.train().position, cursor.infer().position);
      EXPECT_EQ(cursor.train().token, cursor.infer().token);
      float train = 0;
      float infer = 0;
      std::memcpy(&train, cursor.train().logits, 4);
      std::memcpy(&infer, cursor.infer().logits, 4);
      text += " " + std::to_string(cursor.train().position) + "/" +
              std::to_string(cursor.train().token) + "/" + std::to_string(train) + "/" +
              std::to_string(infer);
    }
    text += "\n";
  }
  return text;
}

TEST(PairingTest, PairsEveryTokenThatCounts) {
  const ScratchDir scratch;
  SyntheticSpec spec;
  spec.store_prompt = true;
  spec.mask = true;
  testing::WriteSyntheticPair(scratch / "train", scratch / "infer", spec);
  const auto pair = Pair(scratch);
  ASSERT_TRUE(pair.has_value()) << pair.error().Format();
  EXPECT_EQ(pair->evidence(), EvidenceLevel::kLogits);
  int64_t tokens = 0;
  PairCursor cursor(*pair);
  for (int32_t i = 0; i < 5; ++i) {
    cursor.Seek(i);
    while (cursor.Next().value()) {
      ++tokens;
      EXPECT_GE(cursor.train().position, pair->requests()[static_cast<size_t>(i)].prompt_tokens);
      EXPECT_NE(cursor.train().position % 4, 3) << "masked";
    }
  }
  EXPECT_EQ(tokens, pair->token_count());
  EXPECT_GT(tokens, 10);
}

TEST(PairingTest, DoesNotDependOnTheOrderOfRequestsOrRows) {
  const ScratchDir scratch;
  SyntheticSpec spec;
  spec.requests = 12;
  spec.store_prompt = true;
  testing::WriteSyntheticPair(scratch / "train", scratch / "infer", spec);
  const auto straight = Pair(scratch);
  ASSERT_TRUE(straight.has_value()) << straight.error().Format();

  spec.order = {7, 1, 11, 0, 5, 3, 2, 10, 4, 9, 6, 8};
  spec.noise = 0.01;
  WriteSynthetic(scratch / "shuffled", spec);
  const auto shuffled =
      PairedTraces::Make(MustOpen(scratch / "train"), MustOpen(scratch / "shuffled"));
  ASSERT_TRUE(shuffled.has_value()) << shuffled.error().Format();
  EXPECT_EQ(Walk(*straight), Walk(*shuffled));
}

TEST(PairingTest, InterleavedRowsArePairedThroughTheIndex) {
  const ScratchDir scratch;
  // Rows of two requests, position by position from the last to the first, as a server that
  // batches and a collector that reverses might leave them.
  const auto write = [&](const std::string& name, bool interleaved) {
    TraceInfo info;
    info.kernel_fingerprint = "k";
    info.vocab_size = 100;
    info.evidence = EvidenceLevel::kSampledToken;
    auto writer = TraceWriter::Create(scratch / name, info, {}).value();
    for (const char* id : {"a", "b"}) {
      Request request;
      request.id = id;
      ASSERT_TRUE(writer.AddRequest(request).has_value());
    }
    std::vector<std::pair<int, int>> rows;
    for (int r = 0; r < 2; ++r) {
      for (int p = 0; p < 6; ++p) rows.emplace_back(r, p);
    }
    if (interleaved) {
      std::sort(rows.begin(), rows.end(), [](auto a, auto b) {
        return std::pair(-a.second, a.first) < std::pair(-b.second, b.first);
      });
    }
    for (const auto& [r, p] : rows) {
      TokenEvidence token;
      token.request = r;
      token.position = p;
      token.token = 10 * r + p;
      token.logprob = static_cast<float>(-token.token - 1);
      ASSERT_TRUE(writer.AddToken(token).has_value());
    }
    ASSERT_TRUE(writer.Finish().has_value());
  };
  write("train", false);
  write("infer", true);
  const auto pair = Pair(scratch);
  ASSERT_TRUE(pair.has_value()) << pair.error().Format();
  PairCursor cursor(*pair);
  int next = 0;
  for (int32_t i = 0; i < 2; ++i) {
    cursor.Seek(i);
    for (int p = 0; cursor.Next().value(); ++p, ++next) {
      EXPECT_EQ(cursor.infer().position, p);
      EXPECT_EQ(cursor.infer().logprob, static_cast<float>(-(10 * i + p) - 1));
      EXPECT_EQ(cursor.train().logprob, cursor.infer().logprob);
    }
  }
  EXPECT_EQ(next, 12);
}

TEST(PairingTest, ShardsAreDisjointAndComplete) {
  const ScratchDir scratch;
  SyntheticSpec spec;
  spec.requests = 23;
  testing::WriteSyntheticPair(scratch / "train", scratch / "infer", spec);
  const PairedTraces pair = Pair(scratch).value();
  for (const int32_t count : {1, 3, 7, 50}) {
    std::multiset<int32_t> seen;
    for (int32_t index = 1; index <= count; ++index) {
      for (const int32_t request : pair.Order({index, count})) seen.insert(request);
    }
    EXPECT_EQ(seen.size(), 23u) << count;
    EXPECT_EQ(std::set<int32_t>(seen.begin(), seen.end()).size(), 23u) << count;
  }
  EXPECT_EQ(ParseShard("2/7")->index, 2);
  for (const char* wrong : {"0/3", "4/3", "1", "1/", "/2", "1/2/3", "a/b", "-1/2", "1/0"}) {
    EXPECT_FALSE(ParseShard(wrong).has_value()) << wrong;
  }
}

// Train left some tokens without a label and an advantage: infer cannot give them one.
TEST(PairingTest, LabelsAndAdvantagesAreTrainsWhereItHasAny) {
  for (const bool train_has : {true, false}) {
    const ScratchDir scratch;
    SyntheticSpec spec;
    spec.gold = spec.advantage = true;
    WriteSynthetic(scratch / "infer", spec);
    spec.gold = spec.advantage = train_has;
    spec.edit = [](TokenEvidence* token) {
      token->gold = -1;
      token->advantage = std::numeric_limits<float>::quiet_NaN();
      return true;
    };
    WriteSynthetic(scratch / "train", spec);
    const auto pair = Pair(scratch);
    ASSERT_TRUE(pair.has_value()) << pair.error().Format();
    PairCursor cursor(*pair);
    cursor.Seek(0);
    ASSERT_TRUE(cursor.Next().value());
    EXPECT_EQ(cursor.infer().gold >= 0, !train_has);
    EXPECT_EQ(std::isnan(cursor.infer().advantage), train_has);
  }
}

TEST(PairingTest, GeneratedTracesPairByRequestAlone) {
  SyntheticSpec train;
  train.info.mode = TraceMode::kGenerated;
  SyntheticSpec infer = train;
  infer.seed = 9;
  const ScratchDir scratch;
  WriteSynthetic(scratch / "train", train);
  WriteSynthetic(scratch / "infer", infer);
  const auto pair = Pair(scratch);
  ASSERT_TRUE(pair.has_value()) << pair.error().Format();
  EXPECT_EQ(pair->requests().size(), 5u);
  EXPECT_EQ(pair->token_count(), 0);
  EXPECT_EQ(pair->Order({1, 2}).size() + pair->Order({2, 2}).size(), 5u);
}

TEST(PairingDiagnosisTest, MetadataThatCannotBeCompared) {
  const SyntheticSpec plain;
  SyntheticSpec other = plain;
  other.info.semantics = LogprobSemantics::kProcessed;
  EXPECT_THAT(Problem(plain, other), HasSubstr("mixed semantics"));
  other = plain;
  other.info.temperature = 0.7;
  EXPECT_THAT(Problem(plain, other), HasSubstr("temperature 1, the infer trace at 0.7"));
  PairingOptions at_one;
  at_one.temperature = 1.0;
  EXPECT_EQ(Problem(plain, other, at_one), "");
  other = plain;
  other.info.mode = TraceMode::kGenerated;
  EXPECT_THAT(Problem(plain, other), HasSubstr("both must score the same tokens"));
  other = plain;
  other.vocab_size = 48;
  EXPECT_THAT(Problem(plain, other), HasSubstr("50 and 48 entries"));
  other = plain;
  other.info.sampled_by = SampledBy::kInfer;
  EXPECT_THAT(Problem(plain, other), HasSubstr("sampledBy must be"));
  SyntheticSpec first = plain;
  first.info.model_digest = "sha256:1";
  other = plain;
  other.info.model_digest = "sha256:2";
  EXPECT_THAT(Problem(first, other), HasSubstr("different weights"));
  PairingOptions ignoring;
  ignoring.ignore_model_digest = true;
  EXPECT_EQ(Problem(first, other, ignoring), "");
}

TEST(PairingDiagnosisTest, SemanticsThatAreTheSameInEffectArePaired) {
  SyntheticSpec train;
  SyntheticSpec infer;
  infer.evidence = EvidenceLevel::kSampledToken;
  infer.info.semantics = LogprobSemantics::kTemperatureScaled;
  EXPECT_EQ(Problem(train, infer), "") << "scaling by 1 is no scaling";

  train.info.temperature = infer.info.temperature = 0.5;
  const ScratchDir scratch;
  WriteSynthetic(scratch / "train", train);
  WriteSynthetic(scratch / "infer", infer);
  const PairedTraces pair = Pair(scratch).value();
  EXPECT_EQ(pair.temperature(), 0.5) << "raw logits are scaled to meet the log-probs";
  PairCursor cursor(pair);
  cursor.Seek(0);
  ASSERT_TRUE(cursor.Next().value());
  EXPECT_TRUE(std::isnan(cursor.train().logprob)) << "raw, so not comparable";
  EXPECT_FALSE(std::isnan(cursor.infer().logprob));

  train.evidence = EvidenceLevel::kSampledToken;
  train.info.temperature = 1;
  infer.info.temperature = 0.5;
  EXPECT_THAT(Problem(train, infer), HasSubstr("mixed semantics"));
}

TEST(PairingDiagnosisTest, NamesTheFirstPlaceAndTheLikelyCause) {
  SyntheticSpec plain;
  plain.output_tokens = 8;
  const auto edited = [&](auto edit) {
    SyntheticSpec other = plain;
    other.edit = edit;
    return Problem(plain, other);
  };
  EXPECT_THAT(edited([](TokenEvidence* t) {
                t->position += 1;
                return true;
              }),
              HasSubstr("positions are shifted by one (one later)"));
  EXPECT_THAT(edited([](TokenEvidence* t) {
                t->position -= 1;
                return true;
              }),
              HasSubstr("positions are shifted by one (one earlier)"));
  // The token of the next position at this one.
  EXPECT_THAT(edited([](TokenEvidence* t) {
                t->token = static_cast<int32_t>((t->token + 17) % 50);
                return true;
              }),
              HasSubstr("the tokens are shifted by one: a log-prob stands at the token before"));
  EXPECT_THAT(edited([](TokenEvidence* t) {
                t->token = (t->token * 7 + 3) % 50;
                return true;
              }),
              HasSubstr("another tokeniser"));
  EXPECT_THAT(edited([](TokenEvidence* t) {
                if (t->position >= 5) t->token = (t->token * 7 + 4) % 50;
                return true;
              }),
              HasSubstr("each side wrote its own"));
  EXPECT_THAT(edited([](TokenEvidence* t) {
                if (t->position == 5) t->token = (t->token + 1) % 50;
                return true;
              }),
              HasSubstr("request 'req-0': the train trace has token 36 at position 5, the infer "
                        "trace has token 37 at position 5. Likely cause: single tokens differ"));
  EXPECT_THAT(edited([](TokenEvidence* t) { return t->position != 6; }),
              HasSubstr("a row is missing on the infer side"));
  EXPECT_THAT(edited([](TokenEvidence* t) { return t->position < 8; }),
              HasSubstr("one side is shorter: the infer trace has 6 tokens of 8"));
  EXPECT_THAT(edited([](TokenEvidence* t) {
                if (t->position == 6) t->position = 5;
                return true;
              }),
              HasSubstr("position 5 stands twice in the infer trace"));
}

TEST(PairingDiagnosisTest, RequestsThatDoNotPair) {
  const SyntheticSpec plain;
  SyntheticSpec other = plain;
  other.requests = 4;
  EXPECT_THAT(Problem(plain, other), HasSubstr("request 'req-4' is in the train trace only (1 only "
                                               "in train, 0 only in infer)"));
  EXPECT_THAT(Problem(other, plain), HasSubstr("'req-4' is in the infer trace only"));
  other = plain;
  other.edit_request = [](Request* request) { request->id = "x" + request->id; };
  EXPECT_THAT(Problem(plain, other), HasSubstr("no request id is in both traces"));
  other = plain;
  other.edit_request = [](Request* request) { request->fields["prompt_tokens"] = 1.0; };
  EXPECT_THAT(Problem(plain, other), HasSubstr("another prompt template"));
  SyntheticSpec with_prompt = plain;
  with_prompt.store_prompt = true;
  with_prompt.prompt_tokens = 6;
  other = with_prompt;
  other.edit = [](TokenEvidence* t) {
    if (t->position == 3) t->token = (t->token + 1) % 50;
    return true;
  };
  EXPECT_THAT(Problem(with_prompt, other),
              HasSubstr("the prompts differ: another prompt template"));
}

TEST(PairingDiagnosisTest, MasksThatDisagree) {
  SyntheticSpec train;
  train.mask = true;
  SyntheticSpec infer = train;
  infer.edit = [](TokenEvidence* t) {
    if (t->position == 3) t->masked = !t->masked;
    return true;
  };
  EXPECT_THAT(Problem(train, infer), HasSubstr("the mask is 0 in the train and 1 in the infer"));
  infer.mask = false;
  infer.edit = nullptr;
  EXPECT_EQ(Problem(train, infer), "") << "one mask speaks for both";
}

}  // namespace
}  // namespace kcc
