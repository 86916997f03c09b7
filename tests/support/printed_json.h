// What a command printed as JSON, and its entries; a key that is not there ends the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>

#include "files/json.h"
#include "run_program.h"

namespace meshwright::test {

inline host::Json json_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
  return host::parse_json(outcome.output, "output").value();
}

inline const host::Json::Array& list(const host::Json& json, const char* key) { return std::get<host::Json::Array>(json.find(key)->value()); }
inline std::int64_t integer(const host::Json& json, const char* key) { return std::get<std::int64_t>(json.find(key)->value()); }
inline double real(const host::Json& json, const char* key) { return std::get<double>(json.find(key)->value()); }

}  // namespace meshwright::test
