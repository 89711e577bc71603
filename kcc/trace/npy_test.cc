#include "kcc/format/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/format/torch_file.h"
#include "kcc/trace/kld.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using testing::ScratchDir;

std::string Sample(const std::string& name) {
  return ReadFile("tests/data/import/" + name, size_t{1} << 24).value();
}

std::string Npy(const std::string& dict, size_t data_bytes, char version = 1) {
  std::string header = dict + "\n";
  std::string bytes("\x93NUMPY", 6);
  bytes += std::string({version, '\0'});
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + std::string(data_bytes, '\0');
}

std::string Problem(const std::string& bytes) {
  const auto header = ParseNpyHeader(bytes, static_cast<int64_t>(bytes.size()));
  return header.has_value() ? "" : header.error().message();
}

TEST(NpyTest, ReadsHeadersOfEveryVersion) {
  for (const char version : {char{1}, char{2}, char{3}}) {
    const std::string bytes =
        Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, version);
    const auto header = ParseNpyHeader(bytes, static_cast<int64_t>(bytes.size()));
    ASSERT_TRUE(header.has_value()) << header.error().message();
    EXPECT_EQ(header->shape, (std::vector<int64_t>{2, 3}));
  }
  EXPECT_EQ(Problem(Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", 1)), "");
}

TEST(NpyTest, HostileHeadersAreErrors) {
  const auto with = [](const std::string& descr, const std::string& order, const std::string& shape,
                       size_t bytes) {
    return Problem(
        Npy("{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }",
            bytes));
  };
  EXPECT_THAT(with(">f4", "False", "(2,)", 8), HasSubstr("big-endian"));
  EXPECT_THAT(with("|O", "False", "(2,)", 8), HasSubstr("pickled"));
  EXPECT_THAT(with("<c8", "False", "(1,)", 8), HasSubstr("'<c8' is not read"));
  EXPECT_THAT(with("<f4", "True", "(2, 2)", 16), HasSubstr("Fortran order"));
  EXPECT_THAT(with("<f4", "False", "(4611686018427387904, 4)", 0), HasSubstr("overflows"));
  EXPECT_THAT(with("<f4", "False", "(-1,)", 4), HasSubstr("shape cannot be read"));
  EXPECT_THAT(with("<f4", "False", "(3,)", 8), HasSubstr("truncated"));
  EXPECT_THAT(with("<f4", "False", "(3,)", 16), HasSubstr("behind the header"));
  EXPECT_THAT(Problem(Npy("{'descr': '<f4'}", 0)), HasSubstr("cannot be read"));
  EXPECT_THAT(Problem("\x93NUMPX"), HasSubstr("not a NumPy array"));
}

// Every prefix of a file of the format is an error of the function that opens it.
template <class OpenFunction>
void EveryTruncationFails(const std::string& whole, const std::string& name, OpenFunction open) {
  const ScratchDir scratch;
  const std::string path = scratch / name;
  ASSERT_TRUE(WriteFileAtomically(path, whole).has_value());
  ASSERT_TRUE(open(path).has_value());
  for (size_t size = 0; size < whole.size(); ++size) {
    std::filesystem::remove(path);
    std::FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_EQ(std::fwrite(whole.data(), 1, size, file), size);
    std::fclose(file);
    ASSERT_FALSE(open(path).has_value()) << name << " cut at " << size;
  }
}

TEST(TruncationTest, NpyNpzKldAndTorchFilesCutAnywhereAreErrors) {
  const auto arrays = [](const std::string& path) { return NpyArrays::Open({path}); };
  EveryTruncationFails(Sample("npy/token.npy"), "token.npy", arrays);
  EveryTruncationFails(Sample("npy/batch.npz"), "batch.npz", arrays);
  EveryTruncationFails(Sample("vexact/all_logprobs.pt"), "x.pt",
                       [](const std::string& path) { return TorchFile::Open(path); });
  const std::string kld = Sample("llama_kld/base.kld");
  const auto parse = [&](size_t size) {
    return ParseKldHeader(std::string_view(kld).substr(0, std::min(size, kKldHeaderBytes)),
                          static_cast<int64_t>(size));
  };
  ASSERT_TRUE(parse(kld.size()).has_value());
  for (size_t size = 0; size < kld.size(); ++size) ASSERT_FALSE(parse(size).has_value()) << size;
}

TEST(KldTest, HeadersThatMakeNoSenseAreErrors) {
  const std::string good = Sample("llama_kld/base.kld").substr(0, kKldHeaderBytes);
  for (const size_t field : {size_t{8}, size_t{12}, size_t{16}}) {
    for (const char* value : {"\0\0\0\0", "\xff\xff\xff\xff", "\xff\xff\xff\x7f"}) {
      std::string bad = good;
      bad.replace(field, 4, std::string(value, 4));
      EXPECT_FALSE(ParseKldHeader(bad, 1 << 20).has_value());
    }
  }
}

TEST(KldTest, DecodesWhatLlamaPerplexityEncodes) {
  KldHeader header;
  header.n_vocab = 3;
  EXPECT_EQ(header.row_bytes(), 16);
  std::vector<std::byte> row(16);
  const float scale = 1.0f / 65535;
  const float lowest = -2;
  const uint16_t u[3] = {0, 65535, 13107};
  std::memcpy(row.data(), &scale, 4);
  std::memcpy(row.data() + 4, &lowest, 4);
  std::memcpy(row.data() + 8, u, 6);
  std::vector<float> logprobs(3);
  ASSERT_TRUE(DecodeKldRow(header, row.data(), logprobs).has_value());
  EXPECT_FLOAT_EQ(logprobs[0], -2);
  EXPECT_FLOAT_EQ(logprobs[1], -1);
  EXPECT_FLOAT_EQ(logprobs[2], -1.8f);
  const float nan = std::nanf("");
  std::memcpy(row.data(), &nan, 4);
  EXPECT_FALSE(DecodeKldRow(header, row.data(), logprobs).has_value());
}

TEST(TorchPickleTest, RefusesToCallAnything) {
  // os.system('true') as a pickle of protocol 2.
  using namespace std::string_literals;
  const std::string hostile =
      "\x80\x02"s
      "cos\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03."s;
  const auto parsed = ParseTorchPickle(hostile);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_THAT(parsed.error().message(), HasSubstr("wants to call 'os system'"));
}

}  // namespace
}  // namespace kcc
