#include "kcc/kernel/uri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace kcc {
namespace {

using ::testing::HasSubstr;

struct UriCase {
  std::string text, scheme, rest, options;  // options as name=value;
};

TEST(KernelUri, IsSchemeRestAndOptions) {
  const UriCase cases[] = {
      {"traces/train", "trace", "traces/train", ""},
      {"./odd:name?x", "trace", "./odd:name?x", ""},
      {"C:thing", "trace", "C:thing", ""},  // a letter is no scheme
      {"trace:traces/a?b", "trace", "traces/a?b", ""},
      {"exec:python3 -c 'x?y=z' a:b", "exec", "python3 -c 'x?y=z' a:b", ""},
      {"openai+http://h:80/v1?server=vllm&model=a%26b%20c", "openai+http", "//h:80/v1",
       "server=vllm;model=a&b c;"},
      {"lab:small?gemm=bf16&empty=", "lab", "small", "gemm=bf16;empty=;"},
  };
  for (const UriCase& row : cases) {
    const auto uri = ParseKernelUri(row.text);
    ASSERT_TRUE(uri.has_value()) << row.text << ": " << uri.error().Format();
    std::string options;
    for (const auto& option : uri->options) options += option.name + "=" + option.value + ";";
    EXPECT_EQ(uri->scheme, row.scheme);
    EXPECT_EQ(uri->rest, row.rest);
    EXPECT_EQ(options, row.options);
    EXPECT_EQ(uri->text, row.text);
  }
}

TEST(KernelUri, RefusesWhatItCannotRead) {
  const std::array<std::pair<std::string, std::string>, 6> cases = {{
      {"", "empty"},
      {"exec:", "nothing follows"},
      {"lab:x?a", "not name=value"},
      {"lab:x?=1", "not name=value"},
      {"lab:x?a=1&a=2", "stands twice"},
      {"lab:x?a=%4", "hexadecimal"},
  }};
  for (const auto& [text, words] : cases) {
    const auto uri = ParseKernelUri(text);
    ASSERT_FALSE(uri.has_value()) << text;
    EXPECT_EQ(uri.error().code(), ErrorCode::kInvalid);
    EXPECT_THAT(uri.error().message(), HasSubstr(words));
  }
}

TEST(KernelUri, AnUnknownOptionNamesTheNearest) {
  const auto uri = ParseKernelUri("lab:x?gem=bf16");
  ASSERT_TRUE(uri.has_value());
  const std::array<std::string_view, 2> known = {"gemm", "kv"};
  EXPECT_TRUE(ParseKernelUri("lab:x?gemm=bf16")->CheckOptions(known).has_value());
  EXPECT_THAT(uri->CheckOptions(known).error().message(), HasSubstr("did you mean 'gemm'"));
}

TEST(OpenKernel, TakesTheSchemeThatFits) {
  std::string opened;
  const std::array<KernelScheme, 2> schemes = {{
      {"exec", "exec:PROGRAM ARGS",
       [&](const KernelUri& uri, const KernelOpenOptions&) -> Result<std::unique_ptr<Kernel>> {
         opened = uri.rest;
         return InvalidError("seen");
       }},
      {"trace", "trace:DIR",
       [&](const KernelUri&, const KernelOpenOptions&) -> Result<std::unique_ptr<Kernel>> {
         return InvalidError("not this one");
       }},
  }};
  EXPECT_EQ(OpenKernel("exec:a b", {}, schemes).error().message(), "seen");
  EXPECT_EQ(opened, "a b");
  EXPECT_THAT(OpenKernel("exek:a b", {}, schemes).error().message(),
              HasSubstr("did you mean 'exec:'"));
  EXPECT_THAT(OpenKernel("warp:a b", {}, schemes).error().message(),
              HasSubstr("there are exec:PROGRAM ARGS and trace:DIR"));
}

TEST(ServerUriFor, IsWhatAPastedAddressMeans) {
  const std::array<std::pair<std::string, std::string>, 22> cases = {{
      {"http://localhost:8000", "openai+http://localhost:8000?server=NAME"},
      {"http://localhost:8000/", "openai+http://localhost:8000?server=NAME"},
      {"http://localhost:8000/v1", "openai+http://localhost:8000?server=NAME"},
      {"https://gpu-1.example.com/v1/", "openai+https://gpu-1.example.com?server=NAME"},
      {"http://h:1/v1?server=vllm&top=3", "openai+http://h:1?server=vllm&top=3"},
      {"http://h:1?top=3", "openai+http://h:1?server=NAME&top=3"},
      {"localhost:8000", "openai+http://localhost:8000?server=NAME"},
      {"127.0.0.1:8000/v1", "openai+http://127.0.0.1:8000?server=NAME"},
      {"https://gateway/team-a/v1/completions", "openai+https://gateway/team-a?server=NAME"},
      {"openai://localhost:8000", "openai+http://localhost:8000?server=NAME"},
      {"vllm://localhost:8000/v1", "openai+http://localhost:8000?server=vllm"},
      {"http+openai://h:1?server=sglang", "openai+http://h:1?server=sglang"},
      {"vllm+https://h:1", "openai+https://h:1?server=vllm"},
      {"openai+http://h:1/v1?server=vllm", ""},  // a kernel's URI, which is judged as such
      {"http://", ""},
      {"http:///v1", ""},
      {"traces/train", ""},
      {"trace:traces/a:1", ""},
      {"a:b", ""},
      {"host:123456", ""},
      {"ftp://h:1", ""},
      {"http://user:word@h:1", ""},  // a password is not repeated
  }};
  for (const auto& [text, uri] : cases) EXPECT_EQ(ServerUriFor(text), uri) << text;
}

TEST(OpenKernel, SaysWhatAnAddressIsToBeWrittenAs) {
  for (const std::string text : {"http://localhost:8000/v1", "localhost:8000"}) {
    EXPECT_THAT(CheckKernelUri(text, {}).error().message(),
                HasSubstr("write 'openai+http://localhost:8000?server=NAME', where server is vllm, "
                          "sglang, llamacpp or trtllm"));
  }
}

TEST(CheckKernelUri, SaysWhatTheUriAloneTellsAndOpensNothing) {
  const auto never = [](const KernelUri&,
                        const KernelOpenOptions&) -> Result<std::unique_ptr<Kernel>> {
    ADD_FAILURE() << "opened";
    return InvalidError("opened");
  };
  const auto check = [](const KernelUri& uri) -> Result<> {
    return uri.rest == "good" ? Result<>() : InvalidError("no good");
  };
  const std::array<KernelScheme, 2> schemes = {
      {{"exec", "exec:PROGRAM ARGS", never, check}, {"trace", "trace:DIR", never}}};
  EXPECT_TRUE(CheckKernelUri("exec:good", schemes).has_value());
  EXPECT_TRUE(CheckKernelUri("some/directory", schemes).has_value());
  EXPECT_EQ(CheckKernelUri("exec:bad", schemes).error().message(), "no good");
  EXPECT_THAT(CheckKernelUri("exek:good", schemes).error().message(),
              HasSubstr("did you mean 'exec:'"));
}

}  // namespace
}  // namespace kcc
