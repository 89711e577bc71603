// What two generated traces wrote is the same, differs at a token, or is not known; never the same
// because rows are missing.
#include "kcc/trace/outputs.h"

#include <gtest/gtest.h>

#include <string>

#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using testing::MustOpen;
using testing::ScratchDir;
using testing::SyntheticSpec;

// Five requests; request 0 has a prompt of 2 tokens and an output of 4, at positions 2 to 5.
SyntheticSpec Generated() {
  SyntheticSpec spec;
  spec.evidence = EvidenceLevel::kSampledToken;
  spec.info.mode = TraceMode::kGenerated;
  spec.info.sampled_by = SampledBy::kInfer;
  return spec;
}

// One character a request: '=' the same, '?' not known, else the number of tokens in common.
std::string Compared(const SyntheticSpec& train, const SyntheticSpec& infer) {
  const ScratchDir scratch;
  testing::WriteSynthetic(scratch / "train", train);
  testing::WriteSynthetic(scratch / "infer", infer);
  const auto pair = PairedTraces::Make(MustOpen(scratch / "train"), MustOpen(scratch / "infer"));
  if (!pair.has_value()) return pair.error().Format();
  const auto outputs = CompareOutputs(*pair);
  if (!outputs.has_value()) return outputs.error().Format();
  std::string text;
  for (const OutputComparison& one : *outputs) {
    text += !one.known ? "?" : one.same ? "=" : std::to_string(one.common);
  }
  return text;
}

using RowEdit = std::function<bool(TokenEvidence*)>;

// A spec in which rows of request 0 are edited; false drops the row.
SyntheticSpec WithRows(RowEdit edit, SyntheticSpec spec = Generated()) {
  spec.edit = [edit](TokenEvidence* token) { return token->request != 0 || edit(token); };
  return spec;
}

SyntheticSpec WithRequest(const std::function<void(Request*)>& edit,
                          SyntheticSpec spec = Generated()) {
  spec.edit_request = [edit](Request* request) {
    if (request->id == "req-0") edit(request);
  };
  return spec;
}

RowEdit DropFrom(int32_t position) {
  return [position](TokenEvidence* token) { return token->position < position; };
}

TEST(CompareOutputs, FindsTheFirstTokenThatDiffers) {
  EXPECT_EQ(Compared(Generated(), Generated()), "=====");
  for (int32_t position = 2; position <= 5; ++position) {
    const SyntheticSpec infer = WithRows([position](TokenEvidence* token) {
      if (token->position == position) token->token = (token->token + 1) % 50;
      return true;
    });
    EXPECT_EQ(Compared(Generated(), infer), std::to_string(position - 2) + "====");
  }
}

TEST(CompareOutputs, AShorterOutputDiffersWhereItEnds) {
  const auto shorter = [](double claimed) {
    return WithRequest([claimed](Request* r) { r->fields["output_tokens"] = claimed; },
                       WithRows(DropFrom(5)));
  };
  EXPECT_EQ(Compared(Generated(), shorter(3)), "3====");
  EXPECT_EQ(Compared(shorter(3), Generated()), "3====");
  EXPECT_EQ(Compared(shorter(3), shorter(3)), "=====");
}

TEST(CompareOutputs, MissingRowsLeaveItOpen) {
  const SyntheticSpec cut = WithRows(DropFrom(5));  // output_tokens still says 4
  EXPECT_EQ(Compared(Generated(), cut), "?====");
  EXPECT_EQ(Compared(cut, Generated()), "?====");
  EXPECT_EQ(Compared(cut, cut), "?====");
  const SyntheticSpec gap = WithRows([](TokenEvidence* token) { return token->position != 3; });
  EXPECT_EQ(Compared(gap, gap), "?====");
  const SyntheticSpec none = WithRows(DropFrom(0));
  EXPECT_EQ(Compared(none, none), "?====");
  EXPECT_EQ(Compared(Generated(), none), "?====");
  // What is there and differs is known all the same.
  const SyntheticSpec other = WithRows([](TokenEvidence* token) {
    if (token->position == 2) token->token = (token->token + 1) % 50;
    return token->position < 5;
  });
  EXPECT_EQ(Compared(Generated(), other), "0====");
}

TEST(CompareOutputs, NoRowsAreAnOutputOnlyWhereBothSaySo) {
  const auto empty = [](bool says) {
    return WithRequest(
        [says](Request* r) {
          r->fields.erase("output_tokens");
          if (says) r->fields["output_tokens"] = 0.0;
        },
        WithRows(DropFrom(0)));
  };
  EXPECT_EQ(Compared(empty(true), empty(true)), "=====");
  EXPECT_EQ(Compared(empty(false), empty(true)), "?====");
  EXPECT_EQ(Compared(empty(false), empty(false)), "?====");
  EXPECT_EQ(Compared(Generated(), empty(true)), "0====");
}

// A request that was given up ended nowhere: two that stop after the same tokens are not alike, and
// one that stops first shows nothing. Tokens that differ do.
TEST(CompareOutputs, WhatBrokeOffHasNoEnd) {
  for (const char* flag : {"timed_out", "failed"}) {
    const auto given_up = [&](SyntheticSpec spec) {
      return WithRequest(
          [flag](Request* r) {
            r->fields[flag] = true;
            r->fields.erase("output_tokens");
          },
          std::move(spec));
    };
    const SyntheticSpec whole = given_up(Generated());
    EXPECT_EQ(Compared(whole, whole), "?====");
    EXPECT_EQ(Compared(Generated(), whole), "?====");
    EXPECT_EQ(Compared(whole, Generated()), "?====");
    const SyntheticSpec cut = given_up(WithRows(DropFrom(5)));
    EXPECT_EQ(Compared(Generated(), cut), "?====");
    EXPECT_EQ(Compared(cut, Generated()), "?====");
    const SyntheticSpec other = given_up(WithRows([](TokenEvidence* token) {
      if (token->position == 3) token->token = (token->token + 1) % 50;
      return true;
    }));
    EXPECT_EQ(Compared(Generated(), other), "1====");
  }
}

TEST(CompareOutputs, TrainSaysWhereTheOutputBegins) {
  const auto prompt = [](double length) {
    return WithRequest([length](Request* r) {
      r->fields.erase("prompt_tokens");
      if (length >= 0) r->fields["prompt_tokens"] = length;
    });
  };
  EXPECT_EQ(Compared(Generated(), prompt(-1)), "=====") << "infer need not repeat it";
  EXPECT_EQ(Compared(prompt(-1), Generated()), "?====") << "infer's word alone";
  EXPECT_EQ(Compared(Generated(), prompt(5)), "?====") << "infer says otherwise";
  SyntheticSpec with_prompt = Generated();
  with_prompt.store_prompt = true;
  EXPECT_EQ(Compared(with_prompt, Generated()), "=====") << "rows of the prompt do not count";
}

TEST(CompareOutputs, TheOrderOfTheFilesDoesNotMatter) {
  SyntheticSpec infer = Generated();
  infer.order = {3, 0, 4, 2, 1};
  EXPECT_EQ(Compared(Generated(), infer), "=====");
}

}  // namespace
}  // namespace kcc
