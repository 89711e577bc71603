#include "kcc/lab/switches.h"

#include <gtest/gtest.h>

#include "kcc/lab/lab_kernel.h"
#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

TEST(Switches, TextsReadBackAndFollowTheTable) {
  for (const LabPreset& kernel : LabPresets()) {
    const LabSwitches switches = testing::Switches(kernel.name);
    const NamedValues texts = SwitchTexts(switches);
    ASSERT_EQ(texts.size(), SwitchTable().size());
    LabSwitches again;
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i].first, SwitchTable()[i].name);
      EXPECT_TRUE(SetSwitch(texts[i].first, texts[i].second, &again).has_value());
    }
    EXPECT_EQ(SwitchTexts(again), texts) << kernel.name;
  }
}

// "tiles:N" -> "tiles:64".
std::string Example(std::string_view pattern) {
  if (!pattern.ends_with('N')) return std::string(pattern);
  return std::string(pattern.substr(0, pattern.size() - 1)) + "64";
}

TEST(Switches, EveryValueOfEveryRowReadsBackAndChangesNothingElse) {
  for (size_t row = 0; row < SwitchTable().size(); ++row) {
    const SwitchInfo& info = SwitchTable()[row];
    EXPECT_EQ(FindSwitch(info.name), &info);
    ASSERT_EQ(info.code.places, info.values.size()) << info.name;
    for (const SwitchValue& value : info.values) {
      const std::string text = Example(value.value);
      LabSwitches switches;
      NamedValues expected = SwitchTexts(switches);
      expected[row].second = text;
      ASSERT_TRUE(SetSwitch(info.name, text, &switches).has_value()) << info.name << text;
      EXPECT_EQ(SwitchTexts(switches), expected) << info.name << "=" << text;
    }
  }
}

// What a word sets in the engine, which reading it back does not show.
TEST(Switches, WordsMeanWhatTheEngineReads) {
  const LabSwitches s = testing::Switches("custom", {{"attention", "split:3"},
                                                     {"rmsnorm", "fused"},
                                                     {"exp", "fast"},
                                                     {"rope", "bf16"},
                                                     {"weights", "int4"},
                                                     {"scale", "group:32"},
                                                     {"activations", "e5m2"},
                                                     {"kv", "e4m3"},
                                                     {"accumulate", "m13"},
                                                     {"promote", "128"},
                                                     {"route", "replica:2"},
                                                     {"path", "decode"},
                                                     {"audit", "all"}});
  EXPECT_EQ(s.attention, (AttentionChoice{AttentionKind::kSplit, 3}));
  EXPECT_TRUE(s.fused_norm && !s.fused_gate);
  EXPECT_EQ(s.exp, ExpKind::kFast);
  EXPECT_EQ(s.rope, AnglePrecision::kBF16);
  EXPECT_EQ(s.weights, DType::kI4);
  EXPECT_EQ(s.scale, ScaleGrain::kGroup);
  EXPECT_EQ(s.group, 32u);
  EXPECT_EQ(s.activations, DType::kF8E5M2);
  EXPECT_EQ(s.kv, DType::kF8E4M3);
  EXPECT_EQ(s.accumulator_bits, 13);
  EXPECT_EQ(s.promote, 128);
  EXPECT_EQ(s.route, (RouteChoice{RouteKind::kReplica, 2}));
  EXPECT_EQ(s.path, TracePath::kDecode);
  EXPECT_EQ(s.audit, AuditLevel::kEverything);
  EXPECT_EQ(s.largest_code, 7);
  EXPECT_EQ(s.casts, CastPlaces::kAll);
  EXPECT_EQ(s.cast_from, DType::kF32);
  const LabSwitches other =
      testing::Switches("fp8", {{"weights", "int3"}, {"casts", "layers"}, {"cast_from", "bf16"}});
  EXPECT_EQ(other.weights, DType::kI4);
  EXPECT_EQ(other.largest_code, 3);
  EXPECT_EQ(other.casts, CastPlaces::kLayers);
  EXPECT_EQ(other.cast_from, DType::kBF16);
  EXPECT_EQ(testing::Switches("int3", {{"weights", "int4"}}).largest_code, 7);
}

TEST(Switches, TheFingerprintHasWhatCanChangeABit) {
  const auto in = [](const char* name) { return FindSwitch(name)->bits; };
  for (const SwitchInfo& info : SwitchTable()) {
    const bool shapes = info.source == ErrorSource::kNone && info.name != "path";
    const bool later = info.name == "casts" || info.name == "cast_from";
    EXPECT_EQ(info.bits == SwitchBits::kAlways, !shapes && !later) << info.name;
    EXPECT_EQ(info.bits == SwitchBits::kUnlessFirst, later) << info.name;
  }
  EXPECT_EQ(in("chunk"), SwitchBits::kDynamicBatch);
  EXPECT_EQ(in("concurrency"), SwitchBits::kDynamicBatch);
  EXPECT_EQ(in("threads"), SwitchBits::kNever);
}

// A switch that is added says nothing of the kernels that were there: their fingerprints, which
// contracts hold, and what their traces declare are what they were.
TEST(Switches, AKernelIsDeclaredAsByTheVersionWithoutTheSwitch) {
  const auto info = [](std::string_view kernel, const NamedValues& options) {
    const LabSwitches switches = testing::Switches(kernel, options);
    return testing::MustMake(testing::RandomCheckpoint(testing::SmallConfig()), switches)->info();
  };
  const auto fingerprint = [&](std::string_view kernel, const NamedValues& options) {
    return info(kernel, options).fingerprint;
  };
  EXPECT_EQ(info("fp8", {}).options.size() + 2, SwitchTable().size());
  EXPECT_EQ(info("fp8", {{"casts", "mlp"}, {"cast_from", "bf16"}}).options.size(),
            SwitchTable().size());
  const std::string before = fingerprint("fp8", {{"batch", "invariant"}});
  EXPECT_EQ(before.substr(before.find(" attention")),
            " attention=tiles:64 rmsnorm=fused swiglu=fused exp=accurate rope=f32 weights=e4m3 "
            "scale=channel lm_head=f32 activations=e4m3 kv=e4m3 accumulate=f32 promote=never "
            "logits=bf16 batch=invariant route=fixed path=prefill");
  EXPECT_EQ(fingerprint("fp8", {{"batch", "invariant"}, {"casts", "all"}, {"cast_from", "f32"}}),
            before);
  const std::string after = fingerprint("fp8", {{"casts", "mlp"}, {"cast_from", "bf16"}});
  EXPECT_NE(after.find(" activations=e4m3 casts=mlp cast_from=bf16 kv=e4m3"), std::string::npos)
      << after;
  EXPECT_NE(fingerprint("int3", {}).find("weights=int3 scale=group:32"), std::string::npos);
}

TEST(Switches, ASourceCarriesItsOwnSwitchesOnly) {
  const LabSwitches base = testing::Switches("train");
  const LabSwitches other = testing::Switches("fp8", {{"route", "replica:2"}});
  const NamedValues before = SwitchTexts(base);
  const NamedValues target = SwitchTexts(other);
  for (const ErrorSource source : kErrorSources) {
    const NamedValues made = SwitchTexts(WithSource(base, other, source));
    for (size_t i = 0; i < made.size(); ++i) {
      const bool own = SwitchTable()[i].source == source;
      EXPECT_EQ(made[i].second, (own ? target : before)[i].second) << made[i].first;
    }
  }
}

TEST(Switches, MistakesAreNamed) {
  struct Case {
    NamedValues options;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{{"atention", "reference"}}, "did you mean 'attention'?"},
      {{{"attention", "tiles"}}, "takes reference, tiles:N or split:N, not 'tiles'"},
      {{{"attention", "tiles:0"}}, "at least 1 key"},
      {{{"weights", "fp4"}}, "not 'fp4'"},
      {{{"scale", "group:48"}, {"weights", "int4"}}, "multiple of 32"},
      {{{"scale", "tensor"}, {"weights", "int4"}}, "need scale=group:N"},
      {{{"scale", "tensor"}, {"weights", "int3"}}, "int3 weights need scale=group:N"},
      {{{"scale", "tensor"}}, "have no scale"},
      {{{"casts", "mlp"}}, "casts=mlp is for activations of 8 bits"},
      {{{"cast_from", "bf16"}, {"activations", "fp16"}}, "but activations=fp16 are not cast"},
      {{{"casts", "head"}}, "takes all, layers, attention or mlp, not 'head'"},
      {{{"promote", "128"}}, "needs a narrow accumulator"},
      {{{"lm_head", "weights"}}, "changes nothing"},
      {{{"route", "replica:1"}}, "at least 2 replicas"},
      {{{"page", "0"}}, "at least 1"},
      {{{"threads", "-1"}}, "takes N"},
  };
  for (const Case& c : cases) {
    const auto switches = ResolveSwitches("custom", c.options);
    ASSERT_FALSE(switches.has_value()) << c.options[0].first;
    EXPECT_NE(switches.error().message().find(c.message), std::string::npos)
        << switches.error().message();
  }
  EXPECT_FALSE(ResolveSwitches("fp9", {}).has_value());
  EXPECT_FALSE(ParseLabUri("lab:fp8?kv").has_value());
  EXPECT_FALSE(ParseLabUri("lab:fp8?model=").has_value());
  const auto uri = ParseLabUri("lab:fp8?kv=bf16&model=x/y");
  ASSERT_TRUE(uri.has_value());
  EXPECT_EQ(uri->kernel, "fp8");
  EXPECT_EQ(uri->model, "x/y");
  EXPECT_EQ(uri->options, (NamedValues{{"kv", "bf16"}}));
}

TEST(LabUriModel, IsTheOneNamedBeforeTheShippedOne) {
  int asked = 0;
  const ShippedModel shipped = [&asked]() -> Result<std::string> {
    ++asked;
    return std::string("share/model");
  };
  const auto named = ParseLabUri("lab:fp8?model=x/y");
  const auto unnamed = ParseLabUri("lab:fp8");
  ASSERT_TRUE(named.has_value() && unnamed.has_value());
  EXPECT_EQ(*named->ModelDirectory(shipped), "x/y");
  EXPECT_EQ(asked, 0);  // where none is installed, a named model still opens
  EXPECT_EQ(*unnamed->ModelDirectory(shipped), "share/model");
  EXPECT_EQ(*unnamed->ModelDirectory(nullptr), kLabModelDirectory);
  const ShippedModel none = []() -> Result<std::string> { return IoError("looked in a and b"); };
  EXPECT_EQ(unnamed->ModelDirectory(none).error().message(), "looked in a and b");
}

}  // namespace
}  // namespace kcc
