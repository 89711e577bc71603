#include "kcc/trace/request_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "kcc/metric/catalog.h"
#include "kcc/predicate/fields.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

std::string FaultOf(const std::string& members) {
  const auto request = ParseRequest(R"({"id":"r",)" + members + "}");
  EXPECT_TRUE(request.has_value()) << members << ": " << request.error().Format();
  return request.has_value() ? SchemaFault(*request).value_or("") : "not read";
}

const RecordField* Find(std::string_view name) {
  for (const RecordField& row : RecordFields()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

TEST(RequestSchema, RowsAreInOrderAndHaveWords) {
  std::string_view before;
  for (const RecordField& row : RecordFields()) {
    EXPECT_LT(before, row.name);
    EXPECT_FALSE(row.doc.empty()) << row.name;
    before = row.name;
  }
}

// Two tables name the fields of a request; where both know one they say the same of it.
TEST(RequestSchema, AgreesWithWhatPredicatesRead) {
  for (const PredicateField& field : PredicateFields()) {
    if (field.name.starts_with(kTokenFieldPrefix) || field.name == "id") continue;
    SCOPED_TRACE(field.name);
    const RecordField* const row = Find(field.name);
    ASSERT_NE(row, nullptr);
    switch (field.type) {
      case FieldType::kNumber:
        EXPECT_TRUE(row->as == RecordedAs::kNumber || row->as == RecordedAs::kCount ||
                    row->as == RecordedAs::kNumberOrText);
        break;
      case FieldType::kText:
        EXPECT_EQ(row->as, RecordedAs::kText);
        break;
      case FieldType::kBool:
        EXPECT_EQ(row->as, RecordedAs::kFlag);
        break;
      case FieldType::kTextList:
        EXPECT_EQ(row->as, RecordedAs::kTexts);
        break;
    }
  }
}

// A value that the judge calls impossible does not keep to the schema either.
TEST(RequestSchema, AgreesWithTheRangesOfTheCatalog) {
  for (const Quantity& quantity : Catalog()) {
    const RecordField* const row = Find(quantity.id);
    if (row == nullptr || row->as == RecordedAs::kCount) continue;
    EXPECT_EQ(row->as, RecordedAs::kNumber) << quantity.id;
    EXPECT_EQ(row->min == 0, quantity.min == 0) << quantity.id;
  }
}

TEST(RequestSchema, FieldsThatAQuantityReadsAreKnown) {
  for (const Quantity& quantity : Catalog()) {
    std::string_view fields = quantity.fields;
    while (!fields.empty()) {
      const size_t end = std::min(fields.find(' '), fields.size());
      EXPECT_NE(Find(fields.substr(0, end)), nullptr) << quantity.id;
      fields.remove_prefix(std::min(end + 1, fields.size()));
    }
  }
}

struct Case {
  const char* members;
  const char* fault;  // empty: it keeps to the schema
};

TEST(RequestSchema, ARecordThatLosesAValueIsFoundOut) {
  constexpr std::array kCases = {
      Case{R"("latency_ms":12.5,"tags":["a"],"failed":false,"seed":7)", ""},
      Case{R"("seed":18446744073709551615,"sampling_seed":"12")", ""},
      Case{R"("latency_ms":null,"tags":[])", ""},
      Case{R"("team":{"a":1},"queue":[1,2],"tier":"gold")", ""},  // the request's own
      Case{R"("replay_signature":1234567890123456789)", ""},      // kept as a text
      Case{R"("replay_signature":{"layer":3})", ""},
      Case{R"("reward":-1e9)", ""},
      Case{R"("replay_signature":12)", "'replay_signature' must be a text"},
      Case{R"("latency_ms":"12")", "'latency_ms' must be a number from 0 to 2^53"},
      Case{R"("latency_ms":-1)", "'latency_ms' must be a number from 0 to 2^53"},
      Case{R"("latency_ms":9007199254740993)", "'latency_ms' must be a number from 0 to 2^53"},
      Case{R"("reward":1e300)", "'reward' must be a number from -2^53 to 2^53"},
      Case{R"("failed":"no")", "'failed' must be true or false"},
      Case{R"("refused":0)", "'refused' must be true or false"},
      Case{R"("tags":"math")", "'tags' must be a list of texts"},
      Case{R"("asked_batch":1.5)", "'asked_batch' must be a whole number from 0 to 2147483647"},
      Case{R"("seed":true)", "'seed' must be a number or a text"},
      Case{R"("ttft_ms":"x","failed":1)", "'failed' must be true or false"},  // the first by name
  };
  for (const Case& each : kCases) EXPECT_EQ(FaultOf(each.members), each.fault) << each.members;
}

}  // namespace
}  // namespace kcc
