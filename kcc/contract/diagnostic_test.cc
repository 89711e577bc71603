#include "kcc/contract/diagnostic.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kcc/contract/keys.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/source_text.h"

namespace kcc {
namespace {

Diagnostic At(int line, int column, int length = 1) {
  return {DiagnosticKind::kError, "code", "message", "hint", {line, column}, length};
}

TEST(FormatDiagnostic, ShowsTheLineACaretAndTheHint) {
  EXPECT_EQ(FormatDiagnostic(At(2, 4, 3), "f.yaml", "one\ntwo xyz\n"),
            "f.yaml:2:4: error: message [code]\n"
            "  two xyz\n"
            "     ^~~ hint\n");
}

TEST(FormatDiagnostic, NamesTheDocumentWhereThereIsNoPlace) {
  EXPECT_EQ(FormatDiagnostic(At(0, 0), "f.yaml", "x"), "f.yaml: error: message [code]\n  hint\n");
}

TEST(FormatDiagnostic, AlignsTheCaretUnderTabsWideAndCombiningCharacters) {
  EXPECT_EQ(FormatDiagnostic(At(1, 2), "f", "\tx"),
            "f:1:2: error: message [code]\n      x\n      ^ hint\n");
  EXPECT_EQ(FormatDiagnostic(At(1, 3), "f", "\xE6\xBC\xA2\xE5\xAD\x97x"),
            "f:1:3: error: message [code]\n  \xE6\xBC\xA2\xE5\xAD\x97x\n      ^ hint\n");
  EXPECT_EQ(FormatDiagnostic(At(1, 3), "f", "e\xCC\x81x"),
            "f:1:3: error: message [code]\n  e\xCC\x81x\n   ^ hint\n");
}

TEST(FormatDiagnostic, ShowsOnlyThePartOfALongLineAroundTheCaret) {
  const std::string text =
      FormatDiagnostic(At(1, 5001), "f", std::string(5000, 'a') + "X" + std::string(5000, 'b'));
  EXPECT_EQ(text, "f:1:5001: error: message [code]\n  ..." + std::string(60, 'a') + "X" +
                      std::string(60, 'b') + "...\n  " + std::string(63, ' ') + "^ hint\n");
}

TEST(FormatDiagnostic, ShowsNothingThatATerminalWouldObey) {
  const std::string text = FormatDiagnostic(At(1, 2), "f", "a\x1B[31m\xFF\xE2\x80\xAE");
  EXPECT_EQ(text.find('\x1B'), std::string::npos);
  EXPECT_EQ(text.find('\xFF'), std::string::npos);
  EXPECT_EQ(text.find("\xE2\x80\xAE"), std::string::npos);
}

TEST(FormatDiagnostic, PointsPastTheEndOfTheLineAndOfTheText) {
  EXPECT_EQ(FormatDiagnostic(At(1, 4), "f", "abc\r\n"),
            "f:1:4: error: message [code]\n  abc\n     ^ hint\n");
  EXPECT_EQ(FormatDiagnostic(At(9, 1), "f", "abc\n"),
            "f:9:1: error: message [code]\n  \n  ^ hint\n");
}

TEST(WriteDiagnostics, GivesTheSameAsData) {
  JsonWriter json(JsonWriter::Style::kCompact);
  WriteDiagnostics({At(2, 4, 3)}, "f.yaml", &json);
  EXPECT_EQ(json.Take(),
            "[{\"file\":\"f.yaml\",\"line\":2,\"column\":4,\"length\":3,\"kind\":\"error\","
            "\"code\":\"code\",\"message\":\"message\",\"hint\":\"hint\"}]\n");
}

TEST(SourceText, CountsCodePointsFromOne) {
  std::string text =
      "\xEF\xBB\xBF"
      "a\n\xC3\xA9x\n";
  for (int i = 0; i < 600; ++i) text += "\xC3\xA9";
  const SourceText source(text);
  EXPECT_EQ(source.MarkAt(0).line, 1);
  EXPECT_EQ(source.MarkAt(4).line, 2);
  EXPECT_EQ(source.MarkAt(4).column, 2);
  EXPECT_EQ(source.MarkAt(6 + 1000).line, 3);
  EXPECT_EQ(source.MarkAt(6 + 1000).column, 501);
  EXPECT_EQ(source.MarkAt(1 << 30).column, 601);
  EXPECT_EQ(source.Line(2), "\xC3\xA9x");
  EXPECT_EQ(source.Line(4), "");
}

// The reader turns a word's position in its row into the enum's value.
template <class Enum>
void ExpectInOrder(std::string_view table, std::string_view key) {
  const KeyRow& row = KeyOf(TableOf(table), key);
  for (size_t i = 0; i < row.words.size(); ++i) {
    EXPECT_EQ(row.words[i], Name(static_cast<Enum>(i))) << table << "." << key;
  }
}

TEST(KeyTables, ListWordsInTheOrderOfTheirEnums) {
  ExpectInOrder<ViolationLevel>("clause", "level");
  ExpectInOrder<Action>("clause", "action");
  ExpectInOrder<Stage>("clause", "stages");
  ExpectInOrder<Population>("decision", "about");
  ExpectInOrder<AdvantageKind>("assumptions", "advantages");
  ExpectInOrder<Family>("override", "family");
  ExpectInOrder<ViolationLevel>("override", "level");
  ExpectInOrder<Action>("override", "action");
  for (const std::string_view key : {"L1", "L2", "L3", "onInconclusive", "onError"}) {
    ExpectInOrder<Action>("escalation", key);
  }
  for (const std::string_view stage : {"offlineStage", "shadowStage", "canaryStage", "fullStage"}) {
    ExpectInOrder<ViolationLevel>(stage, "levels");
    ExpectInOrder<DeadlineOutcome>(stage, "onDeadline");
  }
  ExpectInOrder<Enforce>("enforceRule", "mode");
  ExpectInOrder<HookPoint>("hook", "point");
  ExpectInOrder<DetectorWord>("monitorSpec", "detector");
  ExpectInOrder<PanicRule>("monitorSpec", "panic");
  ExpectInOrder<ReleaseRule>("releaseRule", "rule");
  ExpectInOrder<KernelRole>("monitorKernel", "role");
  ExpectInOrder<StoreRequests>("gatewaySpec", "store");
  ExpectInOrder<Family>("routeOverride", "family");
  ExpectInOrder<ViolationLevel>("routeOverride", "level");
  ExpectInOrder<Action>("routeOverride", "action");
}

TEST(KeyTables, NameTablesThatExistAndDocumentEveryKey) {
  std::vector<MappingTable> tables(MappingTables().begin(), MappingTables().end());
  tables.insert(tables.end(), PolicyTables().begin(), PolicyTables().end());
  tables.insert(tables.end(), MonitorTables().begin(), MonitorTables().end());
  tables.insert(tables.end(), GatewayTables().begin(), GatewayTables().end());
  std::set<std::string_view> names;
  for (const MappingTable& table : tables) {
    EXPECT_TRUE(names.insert(table.name).second) << table.name << " stands twice";
    for (const KeyRow& row : table.keys) {
      EXPECT_FALSE(row.doc.empty()) << table.name << "." << row.name;
      const bool nested = row.type == ValueType::kMapping || row.type == ValueType::kMappingList;
      EXPECT_EQ(nested, !row.child.empty()) << table.name << "." << row.name;
      if (nested) {
        EXPECT_FALSE(TableOf(row.child).keys.empty());
      }
      EXPECT_EQ(row.required && !row.default_text.empty(), false);
    }
  }
}

}  // namespace
}  // namespace kcc
