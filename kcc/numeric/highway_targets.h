// Which of Highway's targets are compiled; included before any hwy/ header.
//
// SSE4 and SSSE3 have no fused multiply-add, and Highway's MulAdd rounds twice there: they would
// give another answer. EMU128 likewise; SCALAR serves as the fallback, with std::fma (lanes-inl.h).
// AVX3_DL adds nothing that the kernels use.
//
// On ARM64 every CPU has NEON with a fused multiply-add. SVE is left out, since its width is not
// known when the lanes are laid out; SCALAR is compiled too, to compare with. So there is nothing
// to look for at run time, and Highway is told that it cannot look, by the only switch it has: its
// NEON would else ask for AES, which not every CPU has and nothing here uses.
#pragma once

#if defined(__x86_64__)
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SSSE3 | HWY_AVX3_DL)
#elif defined(__aarch64__)
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#define HWY_COMPILE_ALL_ATTAINABLE 1
#define TOOLCHAIN_MISS_SYS_AUXV_H 1
#else
#define HWY_COMPILE_ONLY_SCALAR 1
#endif
