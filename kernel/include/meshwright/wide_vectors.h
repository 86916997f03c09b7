// For the few loops in which a search spends its time: where the compiler can, they are compiled once more for processors with wide vectors. (Sanitizers' run times are
// not ready yet when the loader chooses between the versions.)
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define MESHWRIGHT_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define MESHWRIGHT_WIDE_VECTORS
#endif
