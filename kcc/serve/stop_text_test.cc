#include "kcc/serve/stop_text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace kcc {
namespace {

std::string Given(StopText stop, std::string_view text, size_t piece) {
  std::string out;
  for (size_t at = 0; at < text.size() && !stop.found(); at += piece) {
    out += stop.Push(text.substr(at, piece));
  }
  return out + stop.Finish();
}

TEST(StopText, TheTextEndsBeforeTheFirstStopOrBehindIt) {
  EXPECT_EQ(Given(StopText({"END", "\n\n"}, false), "one\n\ntwo END", 1), "one");
  EXPECT_EQ(Given(StopText({"END", "\n\n"}, true), "one\n\ntwo END", 2), "one\n\n");
  EXPECT_EQ(Given(StopText({"END"}, false), "EN E ENE", 1), "EN E ENE");
  EXPECT_EQ(Given(StopText({}, false), "all of it", 3), "all of it");
}

TEST(StopText, WhatMayBeTheBeginningOfAStopIsHeldBack) {
  StopText stop({"abc"}, false);
  EXPECT_EQ(stop.Push("xab"), "x");
  EXPECT_EQ(stop.Push("ab"), "ab");
  EXPECT_EQ(stop.Push("c"), "");
  EXPECT_EQ(stop.found(), "abc");
  EXPECT_EQ(stop.Push("more"), "");
  EXPECT_EQ(stop.Finish(), "");
}

TEST(StopText, PiecesDoNotMatter) {
  rc::check([] {
    const auto letters = [](size_t most) {
      return *rc::gen::resize(static_cast<int>(most),
                              rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c')));
    };
    std::vector<std::string> stops;
    for (int i = 0; i < 2; ++i) {
      std::string stop = letters(3);
      if (!stop.empty()) stops.push_back(stop);
    }
    const std::string text = letters(30);
    const std::string given = Given(StopText(stops, false), text, *rc::gen::inRange<size_t>(1, 5));
    // The stop that ends first; of two, the longer.
    size_t expected = text.size();
    for (size_t end = 1; end <= text.size() && expected == text.size(); ++end) {
      for (const std::string& stop : stops) {
        if (text.substr(0, end).ends_with(stop)) expected = std::min(expected, end - stop.size());
      }
    }
    RC_ASSERT(given == text.substr(0, expected));
  });
}

}  // namespace
}  // namespace kcc
