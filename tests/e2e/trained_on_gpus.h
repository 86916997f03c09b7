// What `meshwright run --backend cuda` is tried on, and held to; in one process or in several.
#pragma once

#include <ostream>

#include "trained.h"

namespace meshwright::test {

inline constexpr const char* kRecording = "--backend cuda --set emit.cuda.driver=recording ";

struct Trained {
  const char* name;
  const char* model;
  const char* cluster;
  const char* options;
};

inline void PrintTo(const Trained& trained, std::ostream* out) { *out << trained.name; }

// Losses as nearly as float32 has them, and all bytes.
inline void expect_same(const json& made, const json& reference) {
  expect_near(losses(made), losses(reference), 1e-5);
  EXPECT_EQ(made["bytes_sent"], reference["bytes_sent"]);
  EXPECT_EQ(made["peak_bytes"], reference["peak_bytes"]);
}

}  // namespace meshwright::test
