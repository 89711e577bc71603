#include "kcc/serve/chat_template.h"

#include <gtest/gtest.h>

#include "kcc/serve/serve_test_data.h"

namespace kcc {
namespace {

std::string Render(std::string_view text, std::vector<ChatMessage> messages = {{"user", "hi"}}) {
  const auto made = ChatTemplate::Parse(text, "t.json");
  if (!made.has_value()) return made.error().Format();
  const auto out = made->Render(messages, {"<s>", "</s>", true});
  return out.has_value() ? *out : "! " + out.error().message();
}

std::string Repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(ChatTemplate, TheModelsOwn) {
  EXPECT_EQ(Render(testing::kTemplate), "<s><user>hi<assistant>");
  EXPECT_EQ(Render(testing::kTemplate, {{"user", "a"}, {"assistant", "b"}, {"user", "c"}}),
            "<s><user>a<assistant>b</s><user>c<assistant>");
}

TEST(ChatTemplate, AModelWithoutOneHasAPlainOne) {
  const auto out = ChatTemplate::Plain().Render(
      std::vector<ChatMessage>{{"system", "be brief"}, {"user", "hi"}}, {"", "", true});
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(*out, "system: be brief\nuser: hi\nassistant:");
}

TEST(ChatTemplate, KnowsThePartOfJinjaThatItsHeaderLists) {
  const std::vector<ChatMessage> two = {{"system", " s "}, {"user", "u"}};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ 'a' + \"b\" ~ 'c' }}", "abc"},
      {"{{ messages[0]['content'] | trim }}{{ messages[-1].content }}", "su"},
      {"{{ messages[0].content.strip() }}", "s"},
      {"{% for m in messages %}{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
       "system, user"},
      {"{% for m in messages %}{% if loop.first %}1{% elif m.role == 'user' %}2{% else %}3{% endif "
       "%}{% endfor %}",
       "12"},
      {"{% set x = 'v' %}{{ x }}{# nothing #}!", "v!"},
      {"{% if tools is defined %}a{% else %}b{% endif %}", "b"},
      {"{% if tools is not defined and true or false %}a{% endif %}", "a"},
      {"{% if 'us' in messages[1].role and messages[1].role != 'system' %}yes{% endif %}", "yes"},
      {"a {%- if true %} b {%- endif -%}  c", "a bc"},
      {"x\n  {% if true %}\ny\n  {% endif %}\nz", "x\ny\nz"},
      {"{{ 'line\\n' }}{{ 3 }}", "line\n3"},
      {"{% set x = 'a' %}{% for m in messages %}{% set x = m.role %}{% endfor %}{{ x }}", "a"},
      {"{{ raise_exception('no ' + messages[1].role) }}", "! no user"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(Render(text, two), expected) << text;
}

TEST(ChatTemplate, WhatItDoesNotKnowIsRefusedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\n{{ x | upper }}", "t.json:2: chat_template: the only filter that is known is `trim`"},
      {"{% macro f() %}{% endmacro %}", "{% macro %} is not known here"},
      {"{% for m in messages %}", "a block does not end"},
      {"{% endfor %}", "{% endfor %} is not known here"},
      {"{{ 'a }}", "a text does not end"},
      {"{{ (1 }}", "expected )"},
      {"{{ }}", "expected a value"},
      {"{# open", "a comment does not end"},
      {"{% if true %}a{% else %}b", "a block does not end"},
      {"{{ a", "expected }}"},
      {"{{ " + std::string(200, '(') + "1", "nested too deeply"},
      {"{{ a" + std::string(300, '+') + "b }}", "expected a value"},
      {"{{ a" + Repeated(" + a", 300) + " }}", "an expression is too long"},
      {"{{ a" + Repeated(".b", 300) + " }}", "an expression is too long"},
      {Repeated("{% if x %}", 100), "nested too deeply"},
      {"{% if x %}" + std::string(100, ' ') + "{% elif y %}", "a block does not end"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(Render(text).find(expected), std::string::npos) << text << "\n" << Render(text);
  }
}

TEST(ChatTemplate, LoopsWithinLoopsEnd) {
  const std::string text = Repeated("{% for m in messages %}", 20) + Repeated("{% endfor %}", 20);
  EXPECT_EQ(Render(text, std::vector<ChatMessage>(10, {"user", "hi"})),
            "! chat_template: its loops take too long");
}

TEST(ChatTemplate, ValuesOfTheWrongKindAreErrors) {
  for (const std::string text :
       {"{{ messages }}", "{{ nothing }}", "{{ 'a' + 1 }}", "{{ bos_token.x }}",
        "{% for x in 'abc' %}{% endfor %}", "{{ loop.first }}",
        "{% for m in messages %}{{ loop.index }}{% endfor %}"}) {
    EXPECT_TRUE(Render(text).starts_with("! ")) << text << "\n" << Render(text);
  }
}

}  // namespace
}  // namespace kcc
