// Which of Highway's targets are compiled; included before any hwy/ header.
//
// SSE4 and SSSE3 have no fused multiply-add, and Highway's MulAdd rounds twice there: they would
// give another answer. EMU128 likewise; SCALAR serves as the fallback, with std::fma (lanes-inl.h).
// AVX3_DL adds nothing that the kernels use.
#pragma once

#if defined(__x86_64__)
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SSSE3 | HWY_AVX3_DL)
#else
#define HWY_COMPILE_ONLY_SCALAR 1
#endif
