#include "kcc/drift/c_dtype.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

TEST(CDType, EveryNumberOfTheHeaderIsOneFormatAndBack) {
  for (int number = KCC_F32; number <= KCC_I64; ++number) {
    const auto dtype = static_cast<kcc_dtype>(number);
    const std::optional<DType> ours = DTypeOf(dtype);
    ASSERT_TRUE(ours.has_value()) << number;
    EXPECT_EQ(CDTypeOf(*ours), dtype) << number;
  }
}

TEST(CDType, OthersAreNone) {
  EXPECT_EQ(DTypeOf(static_cast<kcc_dtype>(KCC_I64 + 1)), std::nullopt);
  EXPECT_EQ(CDTypeOf(DType::kI4), std::nullopt);
}

}  // namespace
}  // namespace kcc
